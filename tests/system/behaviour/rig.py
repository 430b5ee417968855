# SPDX-License-Identifier: Apache-2.0
"""Helpers of the behaviours: a target, the driver and their controls."""

from __future__ import annotations

import os

from tests.lab import rdma
from tests.lab.guest import Process, Result, wait_until
from tests.lab.vm import Vm
from tests.system.block_setup import (RUN, SESSION, Driver, FioEnd, Target, difference, fio_command, fio_end,
                                      run_fio)

__all__ = ["EIO", "RUN", "SESSION", "THOROUGH", "Rig", "Target", "difference", "wait_until"]

EIO = 5
THOROUGH = os.environ.get("WSS_THOROUGH", "0") not in ("", "0")
PARAMETERS = "/sys/module/wss/parameters"
DEBUGFS = "/sys/kernel/debug"
TRACING = "/sys/kernel/tracing"
VOLUMES = {"a": "ram:32M", "b": "ram:32M", "file": f"aio:{RUN}/behaviour.img,size=32M,create"}


class Rig:
    def __init__(self, vm: Vm) -> None:
        self.vm = vm
        self.driver = Driver(vm)
        self.target = Target(vm, VOLUMES)
        self.broken = True  # until it is set up
        self._parameters: dict[str, str] = {}  # original values of the parameters that a behaviour has changed

    def stand_up(self) -> None:
        """Loads the driver and starts the target. Nothing is mapped."""
        if self.broken:
            self.fall_down()
            self.vm.run(f"mountpoint -q {DEBUGFS} || mount -t debugfs debugfs {DEBUGFS}", check=False)
            self.driver.load()
            self.target.start()
            self.broken = False
        if not self.target.process.running:
            self.target.start()

    def fall_down(self) -> None:
        if self._started:
            self.target.process.kill()
        self._parameters.clear()
        self.vm.run(f"rdma link show {rdma.DEVICE} || {rdma.ADD}", check=False)
        self.vm.run(f"test ! -d /sys/class/wss || wssctl unmap --all --force; umount {RUN}/mnt", 90, check=False)
        self.driver.unload(90)
        self.vm.run(f"rm -rf {RUN}/behaviour.img {self.target.state}", check=False)

    @property
    def _started(self) -> bool:
        return self.target._process is not None

    def tidy(self) -> None:
        """Restores parameters after a behaviour, unmaps all disks and checks that no session is left."""
        for name, value in self._parameters.items():
            self.vm.run(f"echo {value} > {PARAMETERS}/{name}")
        self._parameters.clear()
        self.vm.run("wssctl unmap --all --force", 90)
        left = self.vm.run("ls /sys/class/wss").stdout.split()
        assert left == ["last_error", "map", "pending", "unmap"], left
        if self.target.process.running:
            sessions = lambda: self.target.ask("session list")["sessions"]  # noqa: E731
            wait_until(lambda: not sessions(), "the target has no session left", 20)

    # ---- handles

    def map(self, volume: str = "a", options: str = "") -> str:
        return self.driver.map(self.target, volume, options)

    def set(self, parameter: str, value: int) -> None:
        """Sets a module parameter; tidy() restores its value."""
        if parameter not in self._parameters:
            self._parameters[parameter] = self.vm.run(f"cat {PARAMETERS}/{parameter}").stdout.strip()
        self.vm.run(f"echo {value} > {PARAMETERS}/{parameter}")

    def io_timeout(self, device: str, milliseconds: int) -> None:
        """Sets the time after which a request times out."""
        self.vm.run(f"echo {milliseconds} > /sys/block/{device.removeprefix('/dev/')}/queue/io_timeout")

    def reset(self) -> None:
        """Drops the connection and establishes it again."""
        self.vm.run(f"echo 1 > {SESSION}/reset")

    def counters(self) -> dict[str, int]:
        return self.driver.counters()

    def last_error(self) -> str:
        return self.vm.run(f"cat {SESSION}/last_error").stdout.strip()

    def wait_live(self, seconds: float = 60) -> None:
        self.driver.wait_for_state("live", seconds)

    def said(self, mark: int) -> str:
        """Returns what the kernel has logged since `vm.klog.mark()`."""
        self.vm.sync_klog()
        return self.vm.klog.text(mark)

    # ---- I/O

    def start_verifying(self, device: str, seconds: int, words: str = "") -> Process:
        """Starts a load that writes and verifies for a few seconds. Returns when it has sent some requests."""
        before = self.counters()["requests"]
        load = self.vm.start(fio_command(
            device, f"--rw=randwrite --verify=crc32c --verify_fatal=1 --iodepth=8 --bssplit=4k/40:16k/30:64k/30 --size=16m "
                    f"--verify_backlog=64 --time_based --runtime={seconds} {words}"))
        wait_until(lambda: self.counters()["requests"] > before + 30 or not load.running, "fio has sent requests", 60)
        assert load.running, load.stdout + load.stderr
        return load

    def end_verified(self, load: Process, timeout: float = 120, interrupted: bool = False) -> None:
        """Checks that the load has verified its data and that no request has failed. If fio was interrupted,
        it exits with an error status."""
        result = load.wait(timeout)
        end = fio_end(result.stdout, result.status)
        assert (end.status == 0 or interrupted) and end.error == 0 and end.verified > 0, end

    def end_failed(self, load: Process, error: int, timeout: float) -> None:
        result = load.wait(timeout)
        end = fio_end(result.stdout, result.status)
        assert end.error == error, end

    def verify(self, device: str, words: str = "--bs=16k --iodepth=4", mib: int = 2) -> FioEnd:
        """Writes and verifies a small amount of data."""
        end = run_fio(self.vm, device, f"--rw=randwrite --verify=crc32c --verify_fatal=1 --size={mib}m {words}")
        assert end.status == 0 and end.error == 0 and end.verified > 0, end
        return end

    def dd(self, words: str, check: bool = True, timeout: float = 60) -> Result:
        return self.vm.run(f"dd status=none {words}", timeout, check=check)

    def assert_no_error(self) -> None:
        """Checks that no request has failed and that no region or mapping is left."""
        counters = self.counters()
        assert counters["errors"] == counters["protocol_errors"] == 0, counters
        self.driver.assert_nothing_leaks()
