# SPDX-License-Identifier: Apache-2.0
"""Tests the WSS target with Linux's own SRP initiator, which supports none of the extensions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.guest import wait_until
from tests.lab.vm import Vm
from tests.system.block_setup import RUN, Target, run_fio

PORTS = "/sys/class/srp_remote_ports"
# Any identifiers work: the target serves all its volumes under every port identifier.
LOGIN = ("id_ext=0000000000000001,ioc_guid=0000000000000002,dest={},queue_size=64,cmd_sg_entries=255,sg_tablesize=2048,"
         "allow_ext_sg=1,max_sect=2048")


def scsi_disks(vm: Vm) -> list[str]:
    found = json.loads(vm.run("lsblk -J -S -o NAME,VENDOR", check=False).stdout or '{"blockdevices": []}')
    return sorted(f"/dev/{disk['name']}" for disk in found["blockdevices"] if disk["vendor"].strip() == "WSS")


@contextmanager
def logged_in(vm: Vm, target: Target, disks: int) -> Iterator[list[str]]:
    vm.run("modprobe -a ib_srp sd_mod sg")
    try:
        vm.write("/sys/class/infiniband_srp/srp-rxe0-1/add_target", LOGIN.format(target.address))
        wait_until(lambda: len(scsi_disks(vm)) == disks, f"{disks} disks exist", 30)
        vm.run(f"for d in {' '.join(scsi_disks(vm))}; do blockdev --getsize64 $d; done")
        yield scsi_disks(vm)
    finally:
        vm.run(f"for p in $(ls {PORTS} 2>/dev/null); do echo 1 > {PORTS}/$p/delete; done", 60)
        wait_until(lambda: not scsi_disks(vm), "the disks are gone", 30)
        vm.run("modprobe -r ib_srp sd_mod sg", 60, check=False)


def says(vm: Vm, command: str, *patterns: str) -> None:
    said = vm.run(command).stdout
    for pattern in patterns:
        assert re.search(pattern, said), f"`{command}` does not print /{pattern}/:\n{said}"


def test_scsi_tools_read_the_properties_of_a_disk(vm: Vm) -> None:
    with Target(vm, {"plain": "ram:16M", "big": f"aio:{vm.disk_device(0)}", "fixed": "ram:1M,block=4096,ro"}) as target:
        wwids = {volume["name"]: volume["wwid"] for volume in target.ask("volume list")}
        with logged_in(vm, target, 3) as (plain, big, fixed):
            says(vm, f"sg_inq {plain}", "Vendor identification: WSS", r"version=0x06", "CmdQue=1", "PDT=0", "RMB=0")
            says(vm, f"sg_vpd {plain}", "Unit serial number", "Device identification", r"Block limits", "Logical block provisioning")
            says(vm, f"sg_vpd -p di {plain}", "0x" + wwids["plain"].removeprefix("naa."), "vendor specific: plain")
            says(vm, f"sg_vpd -p bl {plain}", "Maximum transfer length: 2048 blocks", "Maximum unmap block descriptor count: [1-9]")
            says(vm, f"sg_vpd -p lbpv {plain}", r"\(LBPU\): 1", r"\(LBPWS\): 1", "thin provisioned")
            says(vm, f"sg_vpd -p bdc {plain}", "Non-rotating medium")
            says(vm, f"sg_readcap {plain}", "Number of logical blocks=32768", "block length=512 bytes")
            says(vm, f"sg_readcap -R -l {fixed}", "Number of logical blocks=256", "block length=4096 bytes", "lbpme=0")
            says(vm, f"sg_luns {big}", "3 lun entries", "0000000000000000", "0001000000000000", "0002000000000000")
            says(vm, f"sg_opcodes {plain}", *(rf"(?m)^ {code} " for code in ("28", "2a", "35", "42", "88", "89", "8a", "93", "a0")))
            says(vm, f"sg_modes {plain}", "DpoFua=1", "WP=0", r"Caching[^\n]*\n 00     08 12 00")
            says(vm, f"sg_modes {big}", r"Caching[^\n]*\n 00     08 12 [0-9a-f][4-7]")  # WCE is set
            says(vm, f"sg_modes {fixed}", "WP=1")
            vm.run(f"sg_turs {plain} && sg_verify -l 0 -c 10 {plain} && sg_sync {plain}")
            assert vm.run(f"sg_rtpg {plain}", check=False).status == 5, "the target must return ILLEGAL REQUEST"
            readonly = vm.run(f"lsblk -dno RO {plain} {big} {fixed}").stdout.split()
            assert readonly == ["0", "0", "1"]


def test_stock_initiator_reads_back_what_it_wrote(vm: Vm) -> None:
    with Target(vm, {"v": f"aio:{vm.disk_device(0)}"}) as target, logged_in(vm, target, 1) as (disk,):
        for words in (
            "--bssplit=512/10:4k/40:16k/20:64k/20:512k/10 --iodepth=32 --size=24m",
            "--bssplit=4k/50:64k/50 --iodepth=8 --size=8m --sync=dsync",
            "--bssplit=4k/20:64k/40:256k/40 --iodepth=8 --size=8m --rw=randtrimwrite",
        ):
            end = run_fio(vm, disk, f"--rw=randwrite --verify=crc32c --verify_fatal=1 {words}")
            assert end.status == 0 and end.error == 0 and end.verified > 0, end
        # A reset of the unit under load aborts commands. They are repeated, and nothing is lost.
        # ib_srp repeats commands that its own reset has aborted only after their timeout of half a minute. So
        # make that timeout shorter.
        timeout = f"/sys/block/{disk.removeprefix('/dev/')}/device/timeout"
        vm.run(f"echo 5 > {timeout}")
        before = target.counters()["writes"]
        load = vm.start(f"fio --name=job --filename={disk} --ioengine=libaio --direct=1 --rw=randwrite --bs=16k --iodepth=16 --size=24m "
                        "--verify=crc32c --verify_state_save=0 --verify_backlog=64")
        wait_until(lambda: target.counters()["writes"] > before + 100, "writes have arrived", 30)
        vm.run(f"sg_reset -d {disk}", 40)
        assert load.wait(120).status == 0, load.stdout + load.stderr
        vm.run(f"echo 30 > {timeout}")
        mount = f"{RUN}/mnt"
        vm.run(f"mkfs.ext4 -q -F {disk} 64M && mkdir -p {mount} && mount {disk} {mount} && dd if=/dev/urandom of={mount}/f bs=1M count=16 status=none")
        content = vm.run(f"sha256sum {mount}/f").stdout
        vm.run(f"umount {mount} && mount {disk} {mount}")
        assert vm.run(f"sha256sum {mount}/f").stdout == content
        vm.run(f"umount {mount} && fsck.ext4 -fn {disk}")
        totals = target.counters()
        assert totals["violations"] == totals["other_errors"] == totals["medium_errors"] == 0, totals
