# SPDX-License-Identifier: Apache-2.0
"""Tests the WSS driver with Linux's own SRP target, which supports none of the extensions and serves an
ordinary disk."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.guest import wait_until
from tests.lab.vm import Vm
from tests.system.block_setup import SESSION, Driver, difference, loaded, run_fio
from tests.system.stock_target import DISKS, StockTarget
from tests.system.test_interop import MKFS, holds_a_filesystem

OPTIONS = "reconnect_delay=1"


@pytest.fixture
def target(vm: Vm) -> Iterator[StockTarget]:
    with StockTarget(vm, {"a": "512M", "b": "64M"}) as target:
        yield target


def mapped(driver: Driver, target: StockTarget, lun: int = 0, options: str = "") -> str:
    return driver.map(target, f"lun:{lun}", f"{target.login} {OPTIONS} {options}")


def queue(vm: Vm, device: str, name: str) -> str:
    return vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/queue/{name}").stdout.strip()


def test_disk_of_a_stock_target_has_its_size_and_cache_and_discard_and_name(vm: Vm, target: StockTarget) -> None:
    with loaded(vm) as driver:
        wwids = set()
        for lun, mib in enumerate((512, 64)):
            device = mapped(driver, target, lun)
            assert int(vm.run(f"blockdev --getsize64 {device}").stdout) == mib << 20
            assert queue(vm, device, "logical_block_size") == "512"
            assert queue(vm, device, "write_cache") == "write back", "a buffered file has a volatile cache"
            assert queue(vm, device, "fua") == "1"
            assert int(queue(vm, device, "discard_max_bytes")) > 0, "the disk must support UNMAP"
            wwids.add(vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/wss/wwid").stdout.strip())
        assert len(wwids) == 2 and all(wwid.startswith("naa.6001405") for wwid in wwids), f"{wwids}: the company id of LIO is 001405"


def test_driver_uses_no_extension_with_a_stock_target(vm: Vm, target: StockTarget) -> None:
    with loaded(vm) as driver:
        device = mapped(driver, target)
        before = driver.counters()
        for words in (
            "--bssplit=512/10:4k/40:16k/20:64k/20:512k/10 --iodepth=32 --size=16m",
            "--bssplit=4k/50:64k/50 --iodepth=8 --size=4m --sync=dsync",
            "--bssplit=4k/20:64k/40:256k/40 --iodepth=8 --size=8m --rw=randtrimwrite",
        ):
            end = run_fio(vm, device, f"--rw=randwrite --verify=crc32c --verify_fatal=1 {words}")
            assert end.status == 0 and end.error == 0 and end.verified > 0, end
        moved = difference(driver.counters(), before)
        assert moved["fused_completions"] == moved["remote_invalidations"] == moved["engine_completions"] == 0, moved
        assert moved["regions_registered"] == moved["regions_released"] > 0, moved
        assert moved["errors"] == moved["protocol_errors"] == moved["reconnects"] == 0, moved
        driver.assert_nothing_leaks()


def test_driver_works_with_a_stock_target_that_accepts_only_short_commands(vm: Vm) -> None:
    """By default, ib_srpt accepts only messages that are far too short for commands with immediate data."""
    with StockTarget(vm, {"a": "64M"}, parameters="") as target, loaded(vm) as driver:
        device = mapped(driver, target)
        end = run_fio(vm, device, "--rw=randwrite --verify=crc32c --verify_fatal=1 --bssplit=4k/60:64k/40 --iodepth=16 --size=8m")
        assert end.status == 0 and end.error == 0 and end.verified > 0, end


def test_discard_and_write_zeroes_work_on_a_stock_target(vm: Vm, target: StockTarget) -> None:
    with loaded(vm) as driver:
        device = mapped(driver, target, 1)
        used = lambda: int(vm.run(f"stat -c %b {DISKS}/b").stdout)  # noqa: E731
        vm.run(f"dd if=/dev/urandom of={device} bs=1M count=8 oflag=direct status=none && sync {device}")
        full = used()
        assert full >= 8 << 11
        vm.run(f"blkdiscard -o 0 -l 4M {device}")
        assert used() <= full - (4 << 11)
        vm.run(f"blkdiscard -z -o 4M -l 2M {device}")
        zeroes = vm.run("head -c 6M /dev/zero | sha256sum").stdout
        assert vm.run(f"head -c 6M {device} | sha256sum").stdout == zeroes
        assert driver.counters()["errors"] == 0


def test_driver_applies_changed_limits_of_a_stock_unit(vm: Vm, target: StockTarget) -> None:
    with loaded(vm) as driver:
        device = mapped(driver, target, 1)
        assert int(queue(vm, device, "discard_max_bytes")) > 64 << 10
        target.set("b", "max_unmap_lba_count", 128)
        target.set("b", "max_write_same_len", 256)
        vm.run(f"echo 1 > {SESSION}/reset")
        wait_until(lambda: queue(vm, device, "discard_max_bytes") == str(64 << 10), "the disk has the lower limit of UNMAP", 30)
        assert queue(vm, device, "write_zeroes_max_bytes") == str(128 << 10)
        vm.run(f"dd if=/dev/urandom of={device} bs=1M count=1 oflag=direct status=none; blkdiscard -l 512k {device}; blkdiscard -z -o 512k -l 512k {device}")
        vm.run(f"head -c 1M {device} | cmp -n 1048576 - /dev/zero")
        target.set("b", "max_unmap_lba_count", 8192)
        vm.run(f"echo 1 > {SESSION}/reset")
        wait_until(lambda: queue(vm, device, "discard_max_bytes") == str(4 << 20), "the disk has the higher limit", 30)
        assert driver.counters()["errors"] == 0


def test_waiting_discard_of_two_ranges_never_becomes_one_range_that_covers_both(vm: Vm, target: StockTarget) -> None:
    """A discard of a dm device with two segments becomes one request, which waits while the session recovers. When it is sent, the
    target accepts only one range per UNMAP."""
    target.set("b", "max_unmap_block_desc_count", 16)
    with loaded(vm) as driver:
        device = mapped(driver, target, 1, "fast_io_fail_tmo=off")
        vm.run(f"dd if=/dev/urandom of={device} bs=1M count=1 oflag=direct status=none; sync {device}; head -c 1M {device} > /tmp/written")
        reject = "/sys/module/wss/parameters/force_reject"
        vm.run(f"echo 1 > {reject}; echo 1 > {SESSION}/reset")
        driver.wait_for_state("recovering")
        vm.run(f"modprobe dm-mod; printf '0 128 linear {device} 0\n128 128 linear {device} 1024\n' | dmsetup create --noudevsync two")
        both = "/dev/" + vm.run("dmsetup info -c --noheadings -o blkdevname two").stdout.strip()
        discard = vm.start(f"python3 -c 'import fcntl, struct; fcntl.ioctl(open(\"{both}\", \"wb\", 0), 0x1277, struct.pack(\"QQ\", 0, 128 << 10))'")
        merges = f"awk '{{print $13}}' /sys/block/{device.removeprefix('/dev/')}/stat"
        wait_until(lambda: vm.run(merges).stdout.strip() == "1", "the discard is one request", 20)
        target.set("b", "max_unmap_block_desc_count", 1)
        vm.run(f"echo 0 > {reject}")
        driver.wait_for_state("live")
        discard.wait(30)
        vm.run("dmsetup remove --noudevsync --retry two")
        vm.run(f"cmp -n 1048576 {device} /tmp/written && rm /tmp/written")
        assert driver.counters()["errors"] == 1, "the target refuses two ranges"
        vm.run(f"blkdiscard -l 64k {device} && cmp -n 65536 {device} /dev/zero")


def test_driver_sends_no_second_write_same_to_a_stock_unit_that_refuses_it(vm: Vm, target: StockTarget) -> None:
    target.set("b", "max_write_same_len", 0)  # LIO reports no limit and refuses every WRITE SAME
    with loaded(vm) as driver:
        device = mapped(driver, target, 1)
        mark = vm.klog.mark()
        for _ in range(3):
            vm.run(f"dd if=/dev/urandom of={device} bs=64k count=1 oflag=direct status=none; blkdiscard -z -l 64k {device}")
            vm.run(f"cmp -n 65536 {device} /dev/zero")
        assert queue(vm, device, "write_zeroes_max_bytes") == "0"
        assert driver.counters()["errors"] == 1
        vm.sync_klog()
        said = vm.klog.text(mark)
        assert said.count("the target rejects WRITE SAME") == 1 and "error, dev wss" not in said, said
        target.set("b", "max_write_same_len", 256)
        vm.run(f"echo 1 > {SESSION}/reset")
        wait_until(lambda: queue(vm, device, "write_zeroes_max_bytes") == str(128 << 10), "WRITE SAME is used again", 30)
        vm.run(f"blkdiscard -z -l 64k {device}")
        assert driver.counters()["errors"] == 1


@pytest.mark.parametrize("kind", MKFS)
def test_file_systems_work_on_a_stock_target(vm: Vm, target: StockTarget, kind: str) -> None:
    with loaded(vm) as driver:
        holds_a_filesystem(vm, mapped(driver, target), kind)
        assert driver.counters()["errors"] == 0
        driver.assert_nothing_leaks()


def test_driver_reconnects_to_a_stock_target_under_load(vm: Vm, target: StockTarget) -> None:
    with loaded(vm) as driver:
        device = mapped(driver, target, 1)
        load = vm.start(f"fio --name=job --filename={device} --ioengine=libaio --direct=1 --rw=randwrite --bs=16k --iodepth=16 --size=32m "
                        "--verify=crc32c --verify_state_save=0 --verify_backlog=64")
        wait_until(lambda: driver.counters()["requests"] > 100, "writes have been sent", 30)
        vm.run(f"echo 1 > {SESSION}/reset")
        assert load.wait(120).status == 0, load.stdout + load.stderr
        counters = driver.counters()
        assert counters["reconnects"] == 1 and counters["errors"] == 0, counters
        driver.assert_nothing_leaks()


def test_map_fails_for_an_unknown_name_or_unit_of_a_stock_target(vm: Vm, target: StockTarget) -> None:
    with loaded(vm) as driver:
        def refused(words: str) -> str:
            assert vm.run(f"wssctl map rdma://{target.address} {words}", 60, check=False).status != 0
            return vm.run("cat /sys/class/wss/last_error").stdout

        assert "login rejected: " in refused("lun:0 id_ext=0123456789abcdef ioc_guid=0123456789abcdef")
        unknown = refused(f"lun:7 {target.login}")
        assert "unknown volume 'lun:7'; the target has: " in unknown and "lun:0" in unknown and "lun:1" in unknown
        assert driver.map(target, "lun:0", target.login)


@pytest.fixture
def nameless(vm: Vm) -> Iterator[StockTarget]:
    """A target with units whose only designator is the vendor id, which is the same for all."""
    with StockTarget(vm, {"a": "64M", "b": "64M"}, serials=False) as target:
        yield target


def test_driver_maps_stock_units_without_an_identifier_as_separate_disks(vm: Vm, nameless: StockTarget) -> None:
    with loaded(vm) as driver:
        mark = vm.klog.mark()
        first, second = mapped(driver, nameless, 0), mapped(driver, nameless, 1)
        for name, device in (("a", first), ("b", second)):
            assert vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/wss/wwid").stdout.strip() == ""
            vm.run(f"dd if=/dev/urandom of={device} bs=64k count=1 oflag=direct status=none && sync {device}")
            vm.run(f"cmp -n 65536 {device} {DISKS}/{name}")
        again = vm.run(f"wssctl map rdma://{nameless.address} lun:1 {nameless.login}", 60, check=False)
        assert again.status != 0 and "is mapped already" in again.stderr, again
        vm.sync_klog()
        assert vm.klog.text(mark).count("has no identifier") == 2


def test_driver_follows_no_stock_unit_without_an_identifier_to_another_lun(vm: Vm, nameless: StockTarget) -> None:
    with loaded(vm) as driver:
        device = mapped(driver, nameless, 1, "fast_io_fail_tmo=3")
        nameless.hide(1)
        vm.run(f"echo 1 > {SESSION}/reset")
        driver.wait_for_state("live", 60)
        before = vm.run(f"sha256sum {DISKS}/a").stdout
        write = f"dd if=/dev/urandom of={device} bs=64k count=1 oflag=direct status=none"
        assert "Input/output error" in vm.run(write, 60, check=False).stderr
        assert vm.run(f"sha256sum {DISKS}/a").stdout == before, "the other unit must be unchanged"
