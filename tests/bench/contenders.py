# SPDX-License-Identifier: Apache-2.0
"""Who is compared: each contender is brought up as a block device by a context manager, and taken down again.

All of them run inside one machine: target and initiator talk through the address of its soft RDMA device.
"""

from __future__ import annotations

import glob
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, Iterator

from tests.bench.workloads import fill

ADDRESS = os.environ["LAB_ADDRESS"]
NQN = "wss-peer"
CONFIGFS = Path("/sys/kernel/config")


def sh(command: str) -> None:
    subprocess.run(command, shell=True, check=True, stdout=sys.stderr)


def wait_for(condition: Callable[[], object], what: str, seconds: float = 30) -> object:
    limit = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > limit:
            raise RuntimeError(f"{what} did not appear within {seconds:.0f} s")
        time.sleep(0.05)
    return found


def write(path: Path, text: str) -> None:
    path.write_text(text)


@contextmanager
def ramdisk(mib: int) -> Iterator[str]:
    """The RAM that the kernel targets export."""
    sh(f"modprobe brd rd_nr=1 rd_size={mib * 1024} max_part=0")
    fill("/dev/ram0")
    try:
        yield "/dev/ram0"
    finally:
        sh("rmmod brd")


@contextmanager
def nvme_over_rdma(backing: str) -> Iterator[str]:
    sh("modprobe nvmet-rdma; modprobe nvme-rdma; mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config")
    root = CONFIGFS / "nvmet"
    subsystem, port = root / "subsystems" / NQN, root / "ports/1"
    subsystem.mkdir()
    write(subsystem / "attr_allow_any_host", "1")
    namespace = subsystem / "namespaces/1"
    namespace.mkdir()
    write(namespace / "device_path", backing)
    write(namespace / "enable", "1")
    port.mkdir()
    for key, value in {"trtype": "rdma", "adrfam": "ipv4", "traddr": ADDRESS, "trsvcid": "4420"}.items():
        write(port / f"addr_{key}", value)
    (port / "subsystems" / NQN).symlink_to(subsystem)
    sh(f"nvme connect -t rdma -a {ADDRESS} -s 4420 -n {NQN} -i 1")
    try:
        yield wait_for(lambda: glob.glob("/dev/nvme*n1"), "the NVMe device")[0]
    finally:
        sh(f"nvme disconnect -n {NQN}")
        (port / "subsystems" / NQN).unlink()
        port.rmdir()
        write(namespace / "enable", "0")
        namespace.rmdir()
        subsystem.rmdir()


@contextmanager
def wss(volume: str, build: str, module: str, map_options: str) -> Iterator[str]:
    """Our target in user space and our driver; `volume` is a backing specification."""
    target = subprocess.Popen(
        [f"{build}/wss-target", "--listen", f"rdma://{ADDRESS}:5555", "--volume", f"bench={volume}", "--reactors", "1",
         "--control", "/run/wss-bench.sock", "--log-level", "warning"], stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        line = target.stdout.readline()
        if "ready" not in line:
            raise RuntimeError(f"wss-target did not get ready: {line}")
        sh("modprobe rdma_cm; modprobe ib_uverbs || true")
        sh(f"insmod {module} target={ADDRESS}:5555 volume=bench queues=1 {map_options}")
        try:
            yield wait_for(lambda: os.path.exists("/dev/wss0") and "/dev/wss0", "/dev/wss0")
        finally:
            sh("rmmod wss")
    finally:
        target.terminate()
        target.wait(timeout=30)


def scsi_disk_of(vendor: str) -> str | None:
    for path in glob.glob("/sys/block/sd*"):
        with suppress(FileNotFoundError):  # a disk may go while we look
            if Path(path, "device/vendor").read_text().strip() == vendor:
                return "/dev/" + Path(path).name
    return None


def service_guid() -> str:
    """The name that ib_srpt goes by until it is told another: the node GUID of the RDMA device."""
    return Path("/sys/module/ib_srpt/parameters/srpt_service_guid").read_text().strip().removeprefix("0x")


@contextmanager
def lio_over_srpt(backing: str) -> Iterator[None]:
    """Linux's SRP target on the RAM disk; its port in configfs is named by the device's GUID."""
    Path("/etc/target").mkdir(exist_ok=True)
    sh("modprobe target_core_mod; modprobe target_core_iblock; modprobe ib_srpt srp_max_req_size=8260; "
       "mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config")
    disk, fabric = CONFIGFS / "target/core/iblock_0/ram0", CONFIGFS / "target/srpt"
    disk.mkdir(parents=True)
    write(disk / "control", f"udev_path={backing}")
    write(disk / "enable", "1")
    fabric.mkdir(exist_ok=True)
    write(fabric / "discovery_auth/rdma_cm_port", "5556")
    guid = Path("/sys/class/infiniband/rxe0/node_guid").read_text().strip()
    group = fabric / guid / guid
    unit, member = group / "lun/lun_0", group / "acls" / ADDRESS
    unit.mkdir(parents=True)
    (unit / "port").symlink_to(disk)
    member.mkdir()
    mapped = member / "lun_0"
    mapped.mkdir()
    (mapped / "port").symlink_to(unit)
    write(group / "enable", "1")
    try:
        yield
    finally:
        write(group / "enable", "0")
        (mapped / "port").unlink()
        (unit / "port").unlink()
        for directory in (mapped, member, unit, group, fabric / guid, fabric, disk, disk.parent):
            directory.rmdir()


@contextmanager
def srp(backing: str) -> Iterator[str]:
    """Linux's own SRP initiator to Linux's own SRP target."""
    with lio_over_srpt(backing):
        sh("modprobe ib_srp cmd_sg_entries=255 indirect_sg_entries=2048; modprobe sd_mod")
        guid = service_guid()
        write(Path("/sys/class/infiniband_srp/srp-rxe0-1/add_target"),
              f"id_ext={guid},ioc_guid={guid},dest={ADDRESS}:5556,queue_size=128,cmd_sg_entries=255,sg_tablesize=2048,"
              "allow_ext_sg=1,max_sect=2048")  # fmt: skip
        try:
            yield wait_for(lambda: scsi_disk_of("LIO-ORG"), "the SRP disk")
        finally:
            for port in glob.glob("/sys/class/srp_remote_ports/*/delete"):
                write(Path(port), "1")
            wait_for(lambda: not scsi_disk_of("LIO-ORG"), "the end of the SRP disk")
