# SPDX-License-Identifier: Apache-2.0
"""Volumes as disks: many in one session, mapped and unmapped, named by udev, read-only, resized, and deleted
while in use."""

from __future__ import annotations

import json

from tests.lab.guest import wait_until
from tests.lab.rdma import DEVICE
from tests.lab.vm import Vm
from tests.system.block_setup import RUN, Target, loaded, run_fio

LOOPS = 30
MIB = 1 << 20


def size_of(vm: Vm, device: str) -> int:
    return int(vm.run(f"blockdev --getsize64 {device}").stdout)


def disk_state(vm: Vm, device: str) -> str:
    return vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/wss/state").stdout.strip()


def test_volumes_of_one_target_share_a_session(vm: Vm) -> None:
    volumes = {f"v{number}": f"ram:{number + 1}M" for number in range(6)}
    with loaded(vm) as driver, Target(vm, volumes) as target:
        devices = [driver.map(target, name) for name in volumes]
        assert devices == [f"/dev/wss{number}" for number in range(6)]
        assert [size_of(vm, device) for device in devices] == [(number + 1) * MIB for number in range(6)]
        [session] = target.ask("session list")["sessions"]
        assert session["channels"] == 2, "a session must have one queue pair per processor, regardless of the number of volumes"
        assert vm.run("ls -d /sys/class/wss/session*").stdout.split() == ["/sys/class/wss/session0"]
        # Write different data to each disk, and to all disks at the same time.
        vm.run("".join(f"yes {device} | head -c {MIB} > {RUN}/is{number}; " for number, device in enumerate(devices)))
        vm.run("".join(f"dd if={RUN}/is{number} of={device} bs=64k oflag=direct status=none & " for number, device in enumerate(devices)) + "wait")
        for number, device in enumerate(devices):
            vm.run(f"head -c {MIB} {device} | cmp - {RUN}/is{number}")
        listed = json.loads(vm.run("wssctl --json list").stdout)
        assert [disk["volume"] for disk in listed] == list(volumes) and {disk["session"] for disk in listed} == {"session0"}
        # The session stays until the last disk is unmapped.
        for device in devices[:-1]:
            driver.unmap(device)
        assert driver.state() == "live" and len(target.ask("session list")["sessions"]) == 1
        driver.unmap(devices[-1])
        wait_until(lambda: not target.ask("session list")["sessions"], "the target has no session left", 20)
        vm.run(f"rm {RUN}/is*")


def test_repeated_map_and_unmap_leaks_nothing(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"a": "ram:4M", "b": "ram:4M"}) as target:
        keep = driver.map(target, "a")
        loop = f"""set -e
            for i in $(seq {LOOPS}); do
                echo target={target.address} volume=b > /sys/class/wss/map
                dd if=/dev/wss1 of=/dev/null bs=64k count=2 iflag=direct status=none
                echo wss1 > /sys/class/wss/unmap
            done"""
        vm.run(loop, 120)
        driver.assert_nothing_leaks()
        counters = driver.counters()
        assert counters["regions_registered"] == counters["regions_released"] > LOOPS, counters
        assert counters["errors"] == counters["reconnects"] == 0, counters
        driver.unmap(keep)
        # From now on, the session itself is created and removed each time.
        resources = vm.run(f"rdma resource show {DEVICE}").stdout
        vm.run(loop.replace("wss1", "wss0"), 180)
        assert vm.run("ls /sys/class/wss").stdout.split() == ["last_error", "map", "pending", "unmap"]
        wait_until(lambda: vm.run(f"rdma resource show {DEVICE}").stdout == resources, "no queue pair or region is left", 30)
        assert target.counters()["violations"] == 0


def test_udev_names_a_disk_by_its_volume_and_wwid(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"data.1": "ram:16M"}) as target:
        vm.run("mkdir -p /run/udev/rules.d && cp tools/udev/60-wss.rules /run/udev/rules.d/")
        vm.start_udev()
        try:
            device = driver.map(target, "data.1")
            wwid = target.ask("volume list")[0]["wwid"]
            vm.settle_udev()
            for name in ("data.1", wwid):
                assert vm.run(f"readlink -f /dev/disk/by-id/wss-{name}").stdout.strip() == device
            vm.run(f"addpart {device} 1 2048 16384")
            vm.settle_udev()
            assert vm.run(f"readlink -f /dev/disk/by-id/wss-{wwid}-part1").stdout.strip() == f"{device}p1"
            driver.unmap(device)
            vm.settle_udev()
            assert vm.run("ls /dev/disk/by-id | grep ^wss-", check=False).stdout == ""
        finally:
            vm.run("udevadm control --exit; rm /run/udev/rules.d/60-wss.rules", check=False)


def test_read_only_volume_is_never_written(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"fixed": "ram:4M,ro", "v": "ram:4M"}) as target:
        device = driver.map(target, "fixed")
        assert vm.run(f"blockdev --getro {device}").stdout.strip() == "1"
        assert vm.run(f"dd if=/dev/zero of={device} bs=4k count=1 oflag=direct", check=False).status == 1
        assert vm.run(f"blockdev --setrw {device}; dd if=/dev/zero of={device} bs=4k count=1 oflag=direct", check=False).status == 1
        assert vm.run(f"blkdiscard -f {device}", check=False).status != 0
        other = driver.map(target, "v")
        vm.run(f"dd if=/dev/zero of={other} bs=4k count=1 oflag=direct")
        # Switch the volume to read-only and back while it is mapped.
        target.wssctl("volume set v --read-only on")
        wait_until(lambda: vm.run(f"blockdev --getro {other}").stdout.strip() == "1", "the disk has become read-only", 20)
        assert vm.run(f"dd if=/dev/zero of={other} bs=4k count=1 oflag=direct", check=False).status == 1
        target.wssctl("volume set v --read-only off")
        wait_until(lambda: vm.run(f"blockdev --getro {other}").stdout.strip() == "0", "the disk can be written again", 20)
        vm.run(f"dd if=/dev/zero of={other} bs=4k count=1 oflag=direct")
        totals = target.ask("stats --target")["target"]["volumes"]
        assert totals["fixed"]["written_bytes"] == 0 and totals["v"]["written_bytes"] == 8192, totals


def test_disk_follows_the_size_of_its_volume(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"v": f"aio:{RUN}/grow.img,size=16M,create"}) as target:
        device = driver.map(target, "v")
        vm.run(f"mkfs.ext4 -q {device} && mkdir -p {RUN}/mnt && mount {device} {RUN}/mnt && echo kept > {RUN}/mnt/file")
        target.wssctl("volume resize v 32M")
        wait_until(lambda: size_of(vm, device) == 32 * MIB, "the mounted disk has grown", 20)
        vm.run(f"resize2fs {device} && grep kept {RUN}/mnt/file && umount {RUN}/mnt && fsck.ext4 -fn {device}")
        end = run_fio(vm, device, "--rw=randwrite --verify=crc32c --verify_fatal=1 --bs=64k --iodepth=8 --offset=20m --size=8m")
        assert end.status == 0 and end.error == 0, end
        # After a shrink, only reads beyond the new end fail.
        target.wssctl("volume resize v 8M")
        wait_until(lambda: size_of(vm, device) == 8 * MIB, "the disk has shrunk", 20)
        assert vm.run(f"dd if={device} of=/dev/null bs=64k skip=200 count=1 iflag=direct", check=False).stderr.count("0+0 records in") == 1
        vm.run(f"dd if={device} of=/dev/null bs=64k count=4 iflag=direct")
        driver.assert_nothing_leaks()
        driver.unmap(device)
        vm.run(f"rm {RUN}/grow.img")


def test_deletion_of_a_volume_in_use_fails_only_its_own_requests(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"stays": "ram:16M"}) as target:
        target.wssctl("volume create goes ram:16M")
        stays, goes = driver.map(target, "stays"), driver.map(target, "goes")
        reader = vm.start(f"while dd if={goes} of=/dev/null bs=64k count=64 iflag=direct status=none; do :; done")
        writer = vm.start(f"fio --name=w --filename={stays} --ioengine=libaio --direct=1 --rw=randwrite --bs=16k --iodepth=8 --size=16m "
                          "--verify=crc32c --verify_state_save=0 --verify_fatal=1 --loops=2")
        wait_until(lambda: target.ask("stats --target")["target"]["volumes"]["goes"]["reads"] > 200, "the volume is being read", 30)
        target.wssctl("volume delete goes")
        ended = reader.wait(40)
        assert "Input/output error" in ended.stderr or "No such device" in ended.stderr or "No space" in ended.stderr, ended
        assert writer.wait(120).status == 0, writer.stderr
        wait_until(lambda: disk_state(vm, goes) == "absent", "the disk is absent", 20)
        assert disk_state(vm, stays) == "live"
        vm.run(f"dd if={goes} of=/dev/null bs=4k count=1 iflag=direct && exit 1 || exit 0", 20)
        # The driver must not use another volume under the same LUN.
        target.wssctl("volume create goes ram:16M")
        assert vm.run(f"dd if=/dev/zero of={goes} bs=4k count=1 oflag=direct", 20, check=False).status == 1
        driver.unmap(goes)
        again = driver.map(target, "goes")
        vm.run(f"dd if=/dev/zero of={again} bs=64k count=4 oflag=direct")
        driver.assert_nothing_leaks()
