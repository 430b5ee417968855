# SPDX-License-Identifier: Apache-2.0
"""fio verifies mixed random I/O by checksums, over RDMA, through the driver.

An emulated machine moves small blocks slowly, so small blocks are a small share of the bytes. With
WSS_THOROUGH=1 the total is 1 GiB."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import pytest

from tests.lab.vm import Vm
from tests.system.block_setup import RUN, Target, difference, loaded, run_fio

THOROUGH = os.environ.get("WSS_THOROUGH", "0") not in ("", "0")
SCALE = 8 if THOROUGH else 1  # 128 MiB or 1 GiB are written, and as much is read back
LIMIT = 900 if THOROUGH else 240


@dataclass(frozen=True)
class Mix:
    """One fio job. `sizes` is a bssplit; its shares refer to the number of requests."""

    name: str
    mib: int
    depth: int
    sizes: str
    more: str = ""
    way: str = "randwrite"

    @property
    def words(self) -> str:
        return (f"--rw={self.way} --verify=crc32c --verify_fatal=1 --iodepth={self.depth} --bssplit={self.sizes} "
                f"--size={self.mib * SCALE}m --randseed={len(self.name) * 7 + self.depth} {self.more}")


# Each run writes 128 MiB; the reads of the verification double the traffic.
MIXES = (
    Mix("all_sizes_deep", 40, 64, "512/4:1k/4:4k/12:8k/8:16k/16:64k/24:256k/20:1m/12", "--blockalign=512"),
    Mix("all_sizes_shallow", 8, 1, "512/2:4k/10:16k/16:64k/30:512k/30:1m/12", "--blockalign=512"),
    Mix("every_write_fua", 12, 16, "4k/20:16k/20:64k/40:256k/20", "--sync=dsync"),
    Mix("flush_after_each_fourth", 12, 8, "4k/20:16k/20:64k/40:256k/20", "--fdatasync=4"),
    Mix("read_back_while_writing", 16, 32, "4k/10:16k/20:128k/50:1m/20", "--verify_backlog=64"),
    Mix("discarded_before_written", 12, 16, "512/4:4k/16:16k/20:64k/30:256k/20:1m/10", "--blockalign=512", way="randtrimwrite"),
    Mix("large", 28, 4, "1m/90:256k/10"),
)


@pytest.mark.parametrize("backend", ["nvme", "ram"])
def test_disk_returns_what_fio_wrote(vm: Vm, backend: str) -> None:
    volume = "ram:512M" if backend == "ram" else f"aio:{vm.disk_device(0)}"
    with loaded(vm) as driver, Target(vm, {"v": volume}) as target:
        device = driver.map(target, "v")
        before = driver.counters()
        # The backend makes no difference to the driver. So without WSS_THOROUGH, only some of the mixes run
        # with the RAM volume.
        for mix in MIXES if THOROUGH or backend == "nvme" else MIXES[1:-2]:
            end = run_fio(vm, device, mix.words, LIMIT)
            assert end.status == 0 and end.error == 0, (mix.name, end)
            assert (end.job["trim"]["total_ios"] > 0) == (mix.way == "randtrimwrite"), (mix.name, end)
            assert end.job["write"]["total_ios"] > 0 and end.verified >= end.job["write"]["total_ios"] // 2, (mix.name, end)
        moved = difference(driver.counters(), before)
        assert moved["errors"] == moved["protocol_errors"] == moved["reconnects"] == 0, moved
        driver.assert_nothing_leaks()
        driver.unmap(device)


@pytest.mark.parametrize("backend", ["file", "ram"])
def test_discards_between_writes_in_flight_affect_no_other_sector(vm: Vm, backend: str) -> None:
    volume = "ram:16M" if backend == "ram" else f"aio:{RUN}/discards.img,size=16M,create"
    with loaded(vm) as driver, Target(vm, {"v": volume}) as target:
        device = driver.map(target, "v")
        vm.run(f"python3 -B tests/system/block_discards.py {device}", 180)
        assert target.ask("stats --target")["target"]["volumes"]["v"]["discards"] >= 400
        driver.assert_nothing_leaks()
        driver.unmap(device)
        vm.run(f"rm -f {RUN}/discards.img")


def requests_seen(vm: Vm, command: str) -> dict[str, list[str]]:
    """Returns the kinds of requests that each disk got while the command ran. W is a write, FW a write after
    a flush, WF a write with FUA."""
    tracing = "/sys/kernel/tracing"
    vm.run(f"mountpoint -q {tracing} || mount -t tracefs tracefs {tracing}; cd {tracing} && echo > trace && "
           "echo 1 > events/block/block_rq_issue/enable")
    try:
        vm.run(command)
        lines = vm.run(f"cat {tracing}/trace").stdout
        numbers = dict(line.split() for line in vm.run("lsblk -dno MAJ:MIN,KNAME").stdout.splitlines())
    finally:
        vm.run(f"echo 0 > {tracing}/events/block/block_rq_issue/enable; echo > {tracing}/trace")
    seen: dict[str, list[str]] = {name: [] for name in numbers.values()}
    for major, minor, kind in re.findall(r"block_rq_issue: (\d+),(\d+) (\S+)", lines):
        seen[numbers[f"{major}:{minor}"]].append(kind)
    return seen


def test_fua_and_flush_reach_the_backing_disk(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"v": f"aio:{vm.disk_device(0)}"}) as target:
        device = driver.map(target, "v")
        ours, disk = device.removeprefix("/dev/"), vm.disk_device(0).removeprefix("/dev/")
        plain = requests_seen(vm, f"dd if=/dev/zero of={device} bs=64k count=5 oflag=direct")
        assert sum(kind.startswith("W") for kind in plain[ours]) == 5 and not any("F" in kind for kind in plain[disk]), plain
        fua = requests_seen(vm, f"dd if=/dev/zero of={device} bs=64k count=5 oflag=direct,dsync")
        # dd opens the disk with O_DSYNC. Each write has FUA on the WSS disk, and therefore on the backing
        # disk.
        assert sum(kind.startswith("WF") for kind in fua[ours]) == 5, fua
        assert sum(kind.startswith("WF") for kind in fua[disk]) >= 5 or sum(kind.startswith("F") for kind in fua[disk]) >= 5, fua
        flush = requests_seen(vm, f"dd if=/dev/zero of={device} bs=64k count=5 oflag=direct conv=fsync")
        assert any(kind.startswith("F") for kind in flush[ours]) and any(kind.startswith("F") for kind in flush[disk]), flush
        driver.unmap(device)
