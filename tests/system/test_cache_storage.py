# SPDX-License-Identifier: Apache-2.0
"""Real storage fails (dm-error) or is full (a small file system) under write-back. The client and the
operator get errors, and dirty data stays in the engines until storage accepts it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.guest import wait_until
from tests.lab.vm import Vm
from tests.system.block_setup import Target, loaded, run_fio
from tests.system.test_cache import AREA, PATIENT, cluster, connected

METRICS = "127.0.0.1:9464"
LIMIT = 180
SECTORS = 64 << 11  # size of the failing disk in sectors (64 MiB)
WRITE = f"--rw=write --verify=crc32c --do_verify=0 {AREA}"
VERIFY = f"--rw=read --verify=crc32c --verify_only {AREA}"
FSYNC = "import os, sys; os.fsync(os.open(sys.argv[1], os.O_RDWR))"
FAILED = "Input/output error|No data available|No space left on device"  # ENODATA is the errno of a medium error


class FailingDisk:
    """A device-mapper device on the machine's disk. Its table can be exchanged while it is in use."""

    def __init__(self, vm: Vm) -> None:
        self.vm = vm
        self._works = f"0 {SECTORS} linear {vm.disk_device(0)} 0"

    def create(self) -> str:
        self.vm.run(f"modprobe dm-mod && dmsetup create --noudevsync wss-failing --table '{self._works}'")
        return "/dev/" + self.vm.run("dmsetup info -c --noheadings -o blkdevname wss-failing").stdout.strip()

    def _exchange(self, table: str) -> None:
        self.vm.run(f"dmsetup load wss-failing --table '{table}' && dmsetup suspend --nolockfs wss-failing && "
                    "dmsetup resume --noudevsync wss-failing")

    def fail(self) -> None:
        self._exchange(f"0 {SECTORS} error")

    def mend(self) -> None:
        self._exchange(self._works)

    def remove(self) -> None:
        self.vm.run("dmsetup remove --noudevsync --retry wss-failing")


@contextmanager
def small_file_system(vm: Vm) -> Iterator[str]:
    """Mounts a file system of 32 MiB and returns its path."""
    path = "/run/wss-small"
    vm.run(f"mkfs.ext4 -q -F -m 0 {vm.disk_device(0)} 32M && mkdir -p {path} && mount -t ext4 {vm.disk_device(0)} {path}")
    try:
        yield path
    finally:
        vm.run(f"umount {path} && wipefs -qa {vm.disk_device(0)}")


def flush(vm: Vm, device: str) -> str:
    """Flushes the disk. Returns the error, or an empty string."""
    result = vm.run(["python3", "-c", FSYNC, device], LIMIT, check=False)
    assert result.ok or re.search(FAILED, result.stderr), result
    return "" if result.ok else result.stderr.splitlines()[-1]


def volume(target: Target) -> dict:
    return target.ask("cache status")["volumes"][0]


def failing(vm: Vm) -> int:
    """Returns the value of the metric that shows the operator that storage fails."""
    text = vm.run(["python3", "-c", f"import urllib.request as u; print(u.urlopen('http://{METRICS}/metrics', timeout=60).read().decode())"], LIMIT).stdout
    return int(re.search(r'^wss_cache_storage_failing\{volume="v"\} (\d+)', text, re.M)[1])


def assert_kept_dirty_and_told(vm: Vm, target: Target, device: str) -> None:
    """Asserts that the engines accept writes, that the flush fails, that no data is dropped, and that the
    operator gets an error."""
    assert run_fio(vm, device, f"{WRITE} --randseed=2").error == 0
    assert flush(vm, device) != ""
    wait_until(lambda: volume(target)["error"] != "", "the status shows the error", LIMIT)
    assert volume(target)["dirty_lines"] > 0 and failing(vm) == 1
    assert run_fio(vm, device, f"{VERIFY} --randseed=2").error == 0, "the engines must have all acknowledged writes"


def assert_comes_home(vm: Vm, target: Target, device: str) -> None:
    wait_until(lambda: flush(vm, device) == "", "a flush has succeeded", LIMIT)
    assert volume(target)["dirty_lines"] == 0 and volume(target)["error"] == "" and failing(vm) == 0
    target.wssctl("cache policy v none")
    assert run_fio(vm, device, f"{VERIFY} --randseed=2").error == 0, "real storage must have all acknowledged writes"


def test_data_that_a_failing_disk_rejects_stays_dirty_until_the_disk_works_again(vm: Vm) -> None:
    disk = FailingDisk(vm)
    path = disk.create()
    try:
        with loaded(vm) as driver, cluster(vm, 2, f"aio:{path}", f"--http {METRICS}") as (target, _):
            device = driver.map(target, "v", PATIENT)
            connected(target, 1)
            target.wssctl("cache policy v write-back")
            disk.fail()
            assert_kept_dirty_and_told(vm, target, device)
            missed = vm.run(f"dd if={device} of=/dev/null bs=64k skip=512 count=1 iflag=direct", LIMIT, check=False)
            assert missed.status == 1 and re.search(FAILED, missed.stderr), "a read of data that no engine has must fail"
            disk.mend()
            assert_comes_home(vm, target, device)
            driver.assert_nothing_leaks()
    finally:
        disk.remove()


def test_data_that_a_full_file_system_rejects_stays_dirty_until_space_is_free(vm: Vm) -> None:
    with small_file_system(vm) as path:
        with loaded(vm) as driver, cluster(vm, 2, f"aio:{path}/disk,size=64M,create", f"--http {METRICS}") as (target, _):
            device = driver.map(target, "v", PATIENT)
            connected(target, 1)
            vm.run(f"fallocate -l $(( $(df --output=avail -B1 {path} | tail -n 1) - 2097152 )) {path}/ballast")
            full = vm.run(f"dd if=/dev/zero of={device} bs=64k count=128 oflag=direct", LIMIT, check=False)
            assert full.status == 1 and "No space left on device" in full.stderr, "a write under write-through must fail"
            target.wssctl("cache policy v write-back")
            assert_kept_dirty_and_told(vm, target, device)
            assert "space" in volume(target)["error"], "the status must show the reason"
            vm.run(f"rm {path}/ballast")
            assert_comes_home(vm, target, device)
            driver.assert_nothing_leaks()
