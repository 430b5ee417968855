# SPDX-License-Identifier: Apache-2.0
"""An Ethernet switch for virtual machines, as a separate process: `python3 -m tests.lab.switch CONTROL PORT…`.

Every port is one end of a socket pair whose other end belongs to a QEMU. Each datagram is one frame. The
switch needs no privilege, bridge, tap or name on the host. So parallel runs do not conflict, and a crash
leaves nothing behind: when the lab dies, its end of the control socket closes, and the switch exits.

The switch also injects faults: a port that is down delivers nothing in either direction, and frames are lost
at random, determined by a seed. Commands on the control socket are JSON objects, one per line: {"port": 0,
"up": false}, {"loss": 0.01, "seed": 7}, {"longest": 1514} or {}. The response to each is one line with the
counters.
"""

from __future__ import annotations

import json
import random
import selectors
import socket
import sys
from collections import deque

FRAME_MAX = 65536
QUEUE_MAX = 512  # frames queued for a machine that does not receive; more are lost, as on a real switch
BATCH = 64  # maximum number of frames received from one port before the next port's turn
BROADCAST_BIT = 1


class Port:
    """The port of one machine's cable."""

    def __init__(self, wire: socket.socket) -> None:
        self.wire = wire
        self.up = True
        self.waiting: deque[bytes] = deque()
        self.delivered = 0
        self.lost = 0


class Switch:
    def __init__(self, control: socket.socket, wires: list[socket.socket]) -> None:
        self._control = control
        self._unread = b""
        self._ports = [Port(wire) for wire in wires]
        self._learned: dict[bytes, Port] = {}  # hardware address -> port on which it was last seen
        self._loss = 0.0
        self._longest = FRAME_MAX
        self._random = random.Random(0)
        self._selector = selectors.DefaultSelector()
        self._selector.register(control, selectors.EVENT_READ, None)
        for port in self._ports:
            port.wire.setblocking(False)
            self._selector.register(port.wire, selectors.EVENT_READ, port)

    def run(self) -> None:
        """Runs until the lab closes the control socket."""
        while True:
            for key, events in self._selector.select():
                if key.data is None:
                    if not self._obey():
                        return
                    continue
                if events & selectors.EVENT_WRITE:
                    self._deliver_waiting(key.data)
                if events & selectors.EVENT_READ:
                    self._receive(key.data)

    def _receive(self, source: Port) -> None:
        for _ in range(BATCH):
            try:
                frame = source.wire.recv(FRAME_MAX)
            except (BlockingIOError, ConnectionError):
                return
            if len(frame) < 14:
                return
            if source.up:
                self._forward(source, frame)

    def _forward(self, source: Port, frame: bytes) -> None:
        self._learned[frame[6:12]] = source
        target = None if frame[0] & BROADCAST_BIT else self._learned.get(frame[0:6])
        for port in [target] if target else self._ports:
            if port is not source:
                self._send(port, frame)

    def _send(self, port: Port, frame: bytes) -> None:
        is_lost = len(frame) > self._longest or (self._loss and self._random.random() < self._loss)
        if not port.up or len(port.waiting) >= QUEUE_MAX or is_lost:
            port.lost += 1
            return
        port.waiting.append(frame)
        if len(port.waiting) == 1:
            self._deliver_waiting(port)

    def _deliver_waiting(self, port: Port) -> None:
        wanted = selectors.EVENT_READ
        while port.waiting:
            try:
                port.wire.send(port.waiting[0])
            except BlockingIOError:
                wanted |= selectors.EVENT_WRITE
                break
            except ConnectionError:  # the machine is off
                port.waiting.clear()
                break
            port.waiting.popleft()
            port.delivered += 1
        if self._selector.get_key(port.wire).events != wanted:
            self._selector.modify(port.wire, wanted, port)

    def _obey(self) -> bool:
        data = self._control.recv(4096)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._control.sendall(json.dumps(self._do(json.loads(line))).encode() + b"\n")
        return bool(data)

    def _do(self, order: dict) -> dict:
        if "port" in order:
            port = self._ports[order["port"]]
            port.up = order["up"]
            if not port.up:
                port.waiting.clear()
        if "loss" in order:
            self._loss = order["loss"]
            self._random.seed(order["seed"])
        if "longest" in order:
            self._longest = order["longest"]
        counters = [{"delivered": port.delivered, "lost": port.lost, "up": port.up} for port in self._ports]
        return {"ports": counters}


def main(arguments: list[str]) -> None:
    control, *wires = [socket.socket(fileno=int(number)) for number in arguments]
    Switch(control, wires).run()


if __name__ == "__main__":
    main(sys.argv[1:])
