# SPDX-License-Identifier: Apache-2.0
"""Tests the WSS target with Linux's own SRP initiator, which supports none of the extensions and uses an
ordinary disk."""

from __future__ import annotations

from tests.lab.vm import Vm
from tests.system.block_setup import RUN, Target, run_fio
from tests.system.test_block_stock_initiator import logged_in, scsi_disks

MOUNT = f"{RUN}/mnt"
MKFS = {"ext4": "mkfs.ext4 -q -F", "xfs": "mkfs.xfs -q -f"}
FSCK = {"ext4": "fsck.ext4 -fn", "xfs": "xfs_repair -n"}


def holds_a_filesystem(vm: Vm, device: str, kind: str) -> None:
    """Creates, fills, syncs, trims and remounts a file system. No file may be lost, and fsck must find no
    error."""
    vm.run(f"modprobe {kind}; {MKFS[kind]} {device} && mkdir -p {MOUNT} && mount {device} {MOUNT}", 120)
    vm.run(f"for i in $(seq 8); do dd if=/dev/urandom of={MOUNT}/f$i bs=256k count=8 conv=fsync status=none; done; "
           f"rm {MOUNT}/f3 && fstrim {MOUNT}", 120)
    content = vm.run(f"cat {MOUNT}/f* | sha256sum").stdout
    vm.run(f"umount {MOUNT} && mount {device} {MOUNT}", 60)
    assert vm.run(f"cat {MOUNT}/f* | sha256sum").stdout == content
    vm.run(f"umount {MOUNT} && {FSCK[kind]} {device}", 60)


def test_stock_initiator_sees_the_size_and_cache_and_discard_and_name_of_a_volume(vm: Vm) -> None:
    with Target(vm, {"v": f"aio:{vm.disk_device(0)}", "r": "ram:64M"}) as target, logged_in(vm, target, 2) as disks:
        by_name = {volume["name"]: volume for volume in target.ask("volume list")}
        for disk, name in zip(disks, ("v", "r")):
            queue = f"/sys/block/{disk.rsplit('/', 1)[1]}/queue"
            volume = by_name[name]
            assert int(vm.run(f"blockdev --getsize64 {disk}").stdout) == volume["size"]
            assert int(vm.run(f"cat {queue}/logical_block_size").stdout) == volume["block_size"]
            assert int(vm.run(f"cat {queue}/discard_max_bytes").stdout) > 0, "the disk must support UNMAP"
            assert vm.run(f"cat {queue}/rotational").stdout.strip() == "0"
            assert int(vm.run(f"cat {queue}/write_same_max_bytes {queue}/write_zeroes_max_bytes | tail -1").stdout) > 0
            assert vm.run(f"cat {queue}/../device/wwid").stdout.strip() == f"t10.WSS     {name}:{volume['wwid'][4:]}"
        caches = [vm.run(f"cat /sys/block/{disk.rsplit('/', 1)[1]}/queue/write_cache").stdout.strip() for disk in disks]
        assert caches == ["write back", "write through"], "only the volume on a disk has a volatile cache"
        assert vm.run(f"cat /sys/block/{disks[0].rsplit('/', 1)[1]}/queue/fua").stdout.strip() == "1"


def test_sg_tools_change_only_the_blocks_that_they_name(vm: Vm) -> None:
    with Target(vm, {"r": "ram:64M"}) as target, logged_in(vm, target, 1) as (disk,):
        block = f"{RUN}/block"

        def sha(skip: int, count: int = 1) -> str:
            return vm.run(f"dd if={disk} bs=512 skip={skip} count={count} iflag=direct status=none | sha256sum").stdout

        zeroes = vm.run("head -c 512 /dev/zero | sha256sum").stdout
        vm.run(f"dd if=/dev/urandom of={disk} bs=64k count=4 oflag=direct status=none; head -c 512 /dev/urandom > {block}")
        before = [sha(at) for at in range(6)]
        vm.run(f"sg_unmap --force --lba=1 --num=1 {disk}")
        assert sha(1) == zeroes and [sha(0), sha(2)] == [before[0], before[2]]
        vm.run(f"sg_write_same --in={block} --lba=3 --num=2 --xferlen=512 {disk}")
        assert sha(3) == sha(4) == vm.run(f"sha256sum < {block}").stdout and sha(5) == before[5]
        # The data of COMPARE AND WRITE is the old block, followed by the new one.
        vm.run(f"dd if={disk} bs=512 skip=5 count=1 iflag=direct status=none of={RUN}/old; cat {RUN}/old {block} > {RUN}/both")
        vm.run(f"sg_compare_and_write --in={RUN}/both --lba=5 --num=1 --xferlen=1024 {disk}")
        assert sha(5) == sha(4)
        differs = vm.run(f"sg_compare_and_write --in={RUN}/both --lba=5 --num=1 --xferlen=1024 {disk}", check=False)
        assert differs.status == 14, differs.stderr  # MISCOMPARE, because the block was already replaced
        assert vm.run(f"sg_unmap --force --lba=131072 --num=1 {disk}", check=False).status == 22, "an UNMAP beyond the end must fail"


def test_stock_initiator_continues_after_resets(vm: Vm) -> None:
    with Target(vm, {"r": "ram:64M"}) as target, logged_in(vm, target, 1) as (disk,):
        before = target.counters()["task_management"]
        for how in ("-d", "-b", "-H"):  # unit, bus and host; resets of the last two lead to a reconnection
            vm.run(f"sg_reset {how} {disk}", 60, check=False)
            vm.run(f"dd if={disk} of=/dev/null bs=64k count=4 iflag=direct status=none", 60)
        assert target.counters()["task_management"] > before


def test_file_systems_work_over_the_stock_initiator(vm: Vm) -> None:
    with Target(vm, {"v": f"aio:{vm.disk_device(0)},size=512M"}) as target, logged_in(vm, target, 1) as (disk,):
        for kind in MKFS:
            holds_a_filesystem(vm, disk, kind)
        assert target.counters()["violations"] == 0


def test_stock_initiator_detects_a_resize_and_a_change_to_read_only(vm: Vm) -> None:
    with Target(vm, {"r": "ram:64M"}) as target, logged_in(vm, target, 1) as (disk,):
        target.wssctl("volume resize r 32M")
        name = disk.rsplit("/", 1)[1]
        vm.run(f"sg_turs {disk}; echo 1 > /sys/block/{name}/device/rescan", check=False)
        assert int(vm.run(f"blockdev --getsize64 {disk}").stdout) == 32 << 20
        target.wssctl("volume set r --read-only on")
        vm.run(f"sg_turs {disk}", check=False)
        assert run_fio(vm, disk, "--rw=write --bs=4k --size=4k").error != 0, "the write must fail with DATA PROTECT"
        assert vm.run(f"dd if={disk} of=/dev/null bs=4k count=1 iflag=direct status=none").status == 0


def test_target_with_secrets_refuses_the_stock_initiator(vm: Vm) -> None:
    vm.run(f"mkdir -p {RUN} && echo alice:0123456789abcdef > {RUN}/book && chmod 600 {RUN}/book")
    with Target(vm, {"r": "ram:64M"}, f"--secrets {RUN}/book"):
        vm.run("modprobe -a ib_srp sd_mod")
        assert vm.run("echo id_ext=0000000000000001,ioc_guid=0000000000000002,dest=$LAB_ADDRESS:5555 > "
                      "/sys/class/infiniband_srp/srp-rxe0-1/add_target", 60, check=False).status != 0
        assert scsi_disks(vm) == []
        vm.run("modprobe -r ib_srp sd_mod", 60, check=False)
