# SPDX-License-Identifier: Apache-2.0
"""The lab's end of the connection to a machine's agent. Callers send frames, and one thread dispatches incoming ones.

The thread lives as long as the machine. When the stream ends, it ends the wait of every caller, so that a panic or a power cut is
detected promptly.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from typing import Callable

from tests.lab.inside import frames

RECEIVE = 256 * 1024
SEND_LIMIT_SECONDS = 20


class Sink:
    """Receives a command's frames (guest.Process). The channel's thread calls its methods."""

    def deliver_output(self, kind: int, data: bytes) -> None: ...
    def deliver_exit(self, status: int, seconds: float, error: str) -> None: ...
    def deliver_stacks(self, text: str) -> None: ...
    def deliver_death(self) -> None: ...


class Channel:
    def __init__(self, wire: socket.socket, on_klog: Callable[[str], None]) -> None:
        self._wire = wire
        self._on_klog = on_klog
        self._wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", SEND_LIMIT_SECONDS, 0))
        self._sending = threading.Lock()  # keeps frames contiguous on the wire; the receiving thread never
                                          # acquires it
        self._lock = threading.Lock()  # protects _sinks, _syncs, _next; never held over a send
        self._sinks: dict[int, Sink] = {}
        self._syncs: dict[int, threading.Event] = {}
        self._next = 1
        self.hello = threading.Event()
        self.dead = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="lab-channel", daemon=True)
        self._thread.start()

    def spawn(self, sink: Sink, spec: dict) -> int:
        """Starts a command. Its frames go to `sink` until it exits."""
        with self._lock:
            number = self._next
            self._next += 1
            self._sinks[number] = sink
        self.send(frames.SPAWN, number, json.dumps(spec).encode())
        if self.dead.is_set():  # the machine died after the caller's check; the thread may have missed the
                                # sink
            sink.deliver_death()
        return number

    def send(self, kind: int, number: int, payload: bytes = b"") -> None:
        if len(payload) > frames.PAYLOAD_MAX:
            raise ValueError(f"frame of {len(payload)} bytes; the limit is {frames.PAYLOAD_MAX}")
        with self._sending:
            if self.dead.is_set():
                return  # _end_waits() has ended the wait of the caller
            try:
                self._wire.sendall(frames.pack(kind, number, payload))
                return
            except OSError:
                self._end_stream()  # the machine is gone or accepts no bytes; part of a frame may have been sent
        self._end_waits()

    def signal(self, number: int, signum: int) -> None:
        self.send(frames.SIGNAL, number, struct.pack("!I", signum))

    def sync(self, timeout: float) -> bool:
        """Waits until everything that the guest's kernel has logged so far has arrived. Returns False if the
        guest does not answer."""
        done = threading.Event()
        with self._lock:
            number = self._next
            self._next += 1
            self._syncs[number] = done
        self.send(frames.SYNC, number)
        return not self.dead.is_set() and done.wait(timeout) and not self.dead.is_set()

    def close(self) -> None:
        """Ends the stream and the thread. May be called twice."""
        self._end_stream()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=10)
        self._wire.close()

    def _end_stream(self) -> None:
        try:
            self._wire.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the stream has already ended

    def _receive(self) -> None:
        parser = frames.Parser()
        try:
            while data := self._wire.recv(RECEIVE):
                for kind, number, payload in parser.feed(data):
                    self._dispatch(kind, number, payload)
        except (OSError, ValueError):
            pass  # a broken stream means a dead machine; the console shows why
        finally:
            self._end_waits()

    def _dispatch(self, kind: int, number: int, payload: bytes) -> None:
        if kind == frames.HELLO:
            self.hello.set()
        elif kind == frames.KLOG:
            for record in payload.split(b"\0"):
                self._on_klog(record.decode(errors="replace"))
        elif kind == frames.SYNC:
            with self._lock:
                done = self._syncs.pop(number, None)
            if done:
                done.set()
        else:
            self._deliver(kind, number, payload)

    def _deliver(self, kind: int, number: int, payload: bytes) -> None:
        with self._lock:
            sink = self._sinks.get(number)
        if sink is None:
            return  # late output from a background child of a command that has ended
        if kind == frames.EXIT:
            answer = json.loads(payload)
            with self._lock:
                del self._sinks[number]
            sink.deliver_exit(int(answer["status"]), float(answer["seconds"]), answer.get("error", ""))
        elif kind == frames.STACKS:
            sink.deliver_stacks(payload.decode(errors="replace"))
        elif kind in (frames.STDOUT, frames.STDERR):
            sink.deliver_output(kind, payload)

    def _end_waits(self) -> None:
        self.dead.set()
        with self._lock:
            orphans = list(self._sinks.values())
            waiting = list(self._syncs.values())
            self._sinks.clear()
            self._syncs.clear()
        self.hello.set()  # wakes the caller that waits for the boot, which checks `dead`
        for event in waiting:
            event.set()
        for sink in orphans:
            sink.deliver_death()


class AgentControls:
    """Controls one command in a machine (guest.Controls)."""

    def __init__(self, channel: Channel, number: int) -> None:
        self._channel = channel
        self._number = number

    def signal(self, signum: int) -> None:
        self._channel.signal(self._number, signum)

    def write(self, data: bytes) -> None:
        for offset in range(0, max(len(data), 1), frames.PAYLOAD_MAX):
            self._channel.send(frames.STDIN, self._number, data[offset : offset + frames.PAYLOAD_MAX])

    def peek(self) -> None:
        self._channel.send(frames.PEEK, self._number)

    def resize(self, rows: int, columns: int) -> None:
        self._channel.send(frames.WINDOW, self._number, struct.pack("!II", rows, columns))
