# SPDX-License-Identifier: Apache-2.0
"""The host with the interface of a guest, for machines that have RDMA and can load modules (LAB=host).

There is no isolation: commands run directly on this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import IO

from tests.lab import paths
from tests.lab.errors import LabError
from tests.lab.guest import Guest, Process
from tests.lab.inside import frames
from tests.lab.inside.agent import stacks_of_session

KMSG_RECORD_MAX = 8192


class HostControls:
    """Controls one local process group (guest.Controls)."""

    def __init__(self, process: Process, popen: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._popen = popen

    def signal(self, signum: int) -> None:
        try:
            os.killpg(self._popen.pid, signum)
        except ProcessLookupError:
            pass  # the process has just ended

    def write(self, data: bytes) -> None:
        assert self._popen.stdin is not None
        try:
            if data:
                self._popen.stdin.write(data)
                self._popen.stdin.flush()
            else:
                self._popen.stdin.close()
        except (BrokenPipeError, ValueError):
            pass  # the process has closed its input

    def peek(self) -> None:
        self._process.deliver_stacks(stacks_of_session(self._popen.pid))


class NoControls:
    """Controls of a command that could not be started."""

    def signal(self, signum: int) -> None: ...
    def write(self, data: bytes) -> None: ...
    def peek(self) -> None: ...


class HostGuest(Guest):
    def __init__(self, share: Path) -> None:
        super().__init__("host", rdma_address(), str(share))
        self._processes: list[Process] = []
        try:
            self._kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._kmsg, 0, os.SEEK_END)  # earlier messages do not belong to this test
        except OSError as error:
            raise LabError(f"LAB=host needs root: /dev/kmsg: {error.strerror}") from error

    def sync_klog(self, timeout: float = 20.0) -> None:
        limit = time.monotonic() + timeout
        while time.monotonic() < limit:
            try:
                self.klog.append(os.read(self._kmsg, KMSG_RECORD_MAX).decode(errors="replace"))
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # records were overwritten; the next read returns the oldest remaining record

    def close(self) -> None:
        """Kills the started processes that still run. In a virtual machine, the power-off ends them."""
        for process in self._processes:
            process.kill()
        os.close(self._kmsg)

    def _spawn(self, process: Process, spec: dict) -> None:
        if spec["tty"]:
            raise LabError("LAB=host provides no terminals: use your own shell")
        started = time.monotonic()
        try:
            popen = subprocess.Popen(
                spec["argv"], env=spec["env"], cwd=spec["cwd"], start_new_session=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:  # the same result as in a virtual machine
            process.controls = NoControls()
            process.deliver_exit(127, 0.0, f"lab: {spec['argv'][0]}: {error}")
            return
        process.controls = HostControls(process, popen)
        self._processes = [*filter(lambda one: one.running, self._processes), process]
        assert popen.stdout is not None and popen.stderr is not None
        readers = [
            threading.Thread(target=_relay, args=(popen.stdout, frames.STDOUT, process), daemon=True),
            threading.Thread(target=_relay, args=(popen.stderr, frames.STDERR, process), daemon=True),
        ]
        for reader in readers:
            reader.start()
        threading.Thread(target=_reap, args=(popen, process, readers, started), daemon=True).start()


def _relay(stream: IO[bytes], kind: int, process: Process) -> None:
    while data := os.read(stream.fileno(), frames.PAYLOAD_MAX):
        process.deliver_output(kind, data)


def _reap(popen: subprocess.Popen[bytes], process: Process, readers: list[threading.Thread], started: float) -> None:
    status = popen.wait()
    for reader in readers:
        reader.join(timeout=1)  # a child in the background may keep the streams open
    process.deliver_exit(status, time.monotonic() - started, "")


def rdma_address() -> str:
    """Returns WSS_LAB_ADDRESS if it is set, otherwise the IPv4 address of the first RDMA device's network
    card."""
    given = os.environ.get("WSS_LAB_ADDRESS")
    if given:
        return given
    for link in _json(["rdma", "-j", "link", "show"]):
        for card in _json(["ip", "-j", "-4", "address", "show", "dev", link.get("netdev", "lo")]):
            for address in card.get("addr_info", ()):
                return address["local"]
    raise LabError("LAB=host: this machine has no RDMA device with an IPv4 address (`rdma link`); set WSS_LAB_ADDRESS=")


def _json(command: list[str]) -> list[dict]:
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, cwd=paths.REPOSITORY)
        return json.loads(answer.stdout or "[]")
    except (OSError, ValueError) as error:
        raise LabError(f"`{' '.join(command)}`: {error}; install iproute2") from error
