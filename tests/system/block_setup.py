# SPDX-License-Identifier: Apache-2.0
"""A target and the driver in machines of the lab, for the tests of the block device."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.guest import Guest, Process, wait_until
from tests.lab.rdma import DEVICE

PORT = 5555
MODULE = "$BUILD/kernel/wss.ko"
SESSION = "/sys/class/wss/session0"
# Within one machine no frame is lost. rxe nevertheless sends again when ack_timeout has passed, and may then
# execute a registration twice, which ends the connection (troubleshooting.md). So ack_timeout has its maximum
# of 2.4 hours. On a busy host, a target that works may also answer a keep-alive too late. Tests that need a
# limit set their own.
SAME_MACHINE = {"ack_timeout": "8796093", "keepalive_tmo": "off"}
RUN = "/run/wss-test"  # a directory that each machine has for itself, for control sockets, state and backing
                       # files


class Target:
    """A running wss-target. It can be killed and restarted with the same arguments and the same state. Each Target has its own
    state file, so that a test inherits no volumes from a target that an earlier test killed."""

    _numbers = itertools.count()

    def __init__(self, guest: Guest, volumes: dict[str, str], more: str = "", port: int = PORT,
                 state: str = "") -> None:
        self.guest = guest
        self.port = port
        self.control = f"{RUN}/control-{port}.sock"
        self.state = state or f"{RUN}/state-{next(self._numbers)}.json"
        words = " ".join(f"--volume {name}={backend}" for name, backend in volumes.items())
        self._command = (f"mkdir -p {RUN} && exec wss-target --listen rdma://$LAB_ADDRESS:{port} --control {self.control} "
                         f"--state {self.state} {words} {more}")
        self._process: Process | None = None

    @property
    def address(self) -> str:
        return f"{self.guest.address}:{self.port}"

    @property
    def process(self) -> Process:
        assert self._process is not None
        return self._process

    def start(self) -> Target:
        # The target listens on all its addresses before it is ready. It may take a while until an address is
        # free again.
        self._process = self.guest.start(self._command)
        self._process.wait_for("ready on", 60)
        return self

    def stop(self) -> None:
        """Stops the target in the way an operator would. It must exit without an error."""
        result = self.process.stop(60)
        assert result.status == 0, f"wss-target exited with status {result.status}:\n{result.stderr}"

    def wssctl(self, words: str, check: bool = True):
        return self.guest.run(f"wssctl --control {self.control} {words}", check=check)

    def ask(self, words: str) -> dict:
        return json.loads(self.wssctl(f"--json {words}").stdout)

    def counters(self) -> dict[str, int]:
        """Returns the counters of all sessions, including ended ones."""
        return self.ask("stats --target")["target"]["block"]

    def __enter__(self) -> Target:
        return self.start()

    def __exit__(self, kind, *_) -> None:
        if self.process.running and kind is None:
            self.stop()
        self.process.kill()
        if self.guest_is_alive():
            self.guest.run(["rm", "-rf", self.state, self.control])

    def guest_is_alive(self) -> bool:
        return getattr(self.guest, "running", True)


class Driver:
    """wss.ko in a machine."""

    def __init__(self, guest: Guest) -> None:
        self.guest = guest

    def load(self) -> None:
        self.guest.run(f"modprobe -a rdma_cm ib_core && insmod {MODULE}")

    def unload(self, timeout: float = 60) -> None:
        self.guest.run("test ! -d /sys/module/wss || rmmod wss", timeout)

    def map(self, target: Target, volume: str, options: str = "") -> str:
        """Maps a volume and returns the device."""
        if target.guest is self.guest:
            given = {option.partition("=")[0] for option in options.split()}
            options = " ".join([options, *(f"{name}={value}" for name, value in SAME_MACHINE.items() if name not in given)])
        said = self.guest.run(f"wssctl --json map rdma://{target.address} {volume} {options}", 90).stdout
        return json.loads(said)["device"]

    def unmap(self, device: str, force: bool = False) -> None:
        self.guest.run(f"wssctl unmap {device} {'--force' if force else ''}", 60)

    def counters(self, session: str = SESSION) -> dict[str, int]:
        listing = self.guest.run(f"grep -H . {session}/stats/*").stdout
        return {Path(name).name: int(value) for name, value in re.findall(r"^(\S+):(-?\d+)$", listing, re.M)}

    def state(self, session: str = SESSION) -> str:
        return self.guest.run(f"cat {session}/state", check=False).stdout.strip()

    def wait_for_state(self, state: str, timeout: float = 60, session: str = SESSION) -> None:
        wait_until(lambda: self.state(session) == state, f"{session} is {state}", timeout)

    def assert_nothing_leaks(self, session: str = SESSION) -> None:
        """Asserts that no region and no mapping is left. Must be called when no request is in flight."""
        counters = self.counters(session)
        assert counters["regions_active"] == 0, counters
        assert counters["dma_mapped"] == 0, counters


@contextmanager
def loaded(guest: Guest) -> Iterator[Driver]:
    """Loads the driver and always unloads it at the end. A failed test may have left disks open."""
    driver = Driver(guest)
    driver.load()
    try:
        yield driver
    finally:
        if getattr(guest, "running", True):
            guest.run("test ! -d /sys/class/wss || wssctl unmap --all --force", 90, check=False)
            driver.unload(90)


def difference(after: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: after[name] - before.get(name, 0) for name in after}


@dataclass(frozen=True)
class FioEnd:
    """The result of a fio job: `error` is an errno, or 0 for success."""

    status: int
    error: int
    job: dict

    @property
    def verified(self) -> int:
        return self.job["read"]["total_ios"]


def fio_command(device: str, words: str) -> str:
    return (f"fio --name=job --filename={device} --ioengine=libaio --direct=1 --verify_state_save=0 --randrepeat=1 "
            f"--output-format=json {words}")


def fio_end(stdout: str, status: int) -> FioEnd:
    """Parses the output of fio. After an error, fio prints messages before its JSON."""
    start = stdout.find("{\n")
    assert start >= 0, f"fio exited with status {status} and printed:\n{stdout[-2000:]}"
    job = json.loads(stdout[start:])["jobs"][0]
    return FioEnd(status, job["error"], job)


def run_fio(guest: Guest, device: str, words: str, timeout: float = 300) -> FioEnd:
    result = guest.run(fio_command(device, words), timeout, check=False)
    return fio_end(result.stdout, result.status)


class Stopwatch:
    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start
