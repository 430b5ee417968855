# SPDX-License-Identifier: Apache-2.0
"""The compared systems. A context manager sets up each of them as block devices and removes them afterwards.

All of them run in one machine. Target and initiator communicate over its soft RDMA device.
"""

from __future__ import annotations

import argparse
import glob
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Callable, Iterator

from tests.bench.workloads import Setup, fill

ADDRESS = os.environ["LAB_ADDRESS"]
NQN = "wss-peer"
CONTROL = "/run/wss-bench.sock"  # of the target
CONFIGFS = Path("/sys/kernel/config")


def sh(command: str) -> None:
    subprocess.run(command, shell=True, check=True, stdout=sys.stderr)


def wait_for(condition: Callable[[], object], what: str, seconds: float = 30) -> object:
    limit = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > limit:
            raise RuntimeError(f"{what}: timed out after {seconds:.0f} s")
        time.sleep(0.05)
    return found


def write(path: Path, text: str) -> None:
    path.write_text(text)


@contextmanager
def ramdisks(mib: int, count: int) -> Iterator[list[str]]:
    """Creates the RAM disks that the kernel's targets export."""
    sh(f"modprobe brd rd_nr={count} rd_size={mib * 1024} max_part=0")
    disks = [f"/dev/ram{number}" for number in range(count)]
    for disk in disks:
        fill(disk)
    try:
        yield disks
    finally:
        sh("rmmod brd")


def all_of(pattern: str, count: int) -> list[str] | None:
    found = sorted(glob.glob(pattern))
    return found if len(found) == count else None


@contextmanager
def nvme_over_rdma(backings: list[str], setup: Setup) -> Iterator[list[str]]:
    sh("modprobe nvmet-rdma; modprobe nvme-rdma; mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config")
    root = CONFIGFS / "nvmet"
    subsystem, port = root / "subsystems" / NQN, root / "ports/1"
    subsystem.mkdir()
    write(subsystem / "attr_allow_any_host", "1")
    namespaces = [subsystem / "namespaces" / str(number + 1) for number in range(len(backings))]
    for namespace, backing in zip(namespaces, backings):
        namespace.mkdir()
        write(namespace / "device_path", backing)
        write(namespace / "enable", "1")
    port.mkdir()
    for key, value in {"trtype": "rdma", "adrfam": "ipv4", "traddr": ADDRESS, "trsvcid": "4420"}.items():
        write(port / f"addr_{key}", value)
    (port / "subsystems" / NQN).symlink_to(subsystem)
    sh(f"nvme connect -t rdma -a {ADDRESS} -s 4420 -n {NQN} -i 1 {'-P 1' if setup.polled else ''}")
    try:
        yield wait_for(lambda: all_of("/dev/nvme[0-9]*n[0-9]*", len(backings)), "the NVMe devices exist")
    finally:
        sh(f"nvme disconnect -n {NQN}")
        (port / "subsystems" / NQN).unlink()
        port.rmdir()
        for namespace in namespaces:
            write(namespace / "enable", "0")
            namespace.rmdir()
        subsystem.rmdir()


@contextmanager
def wss(volumes: list[str], setup: Setup, options: argparse.Namespace) -> Iterator[list[str]]:
    """The WSS target in user space and the WSS driver. `volumes` are backend specifications."""
    words = [word for number, volume in enumerate(volumes) for word in ("--volume", f"bench{number}={volume}")]
    target = subprocess.Popen(
        ["nice", "-n", str(options.target_nice), f"{options.build}/wss-target", "--listen", f"rdma://{ADDRESS}:5555", *words, "--reactors", "1",
         "--control", CONTROL, "--log-level", "warning"], stdout=subprocess.PIPE, text=True)  # fmt: skip
    # rxe processes queue pairs of user space in ksoftirqd, and those of the kernel in the calling context.
    sh(f"renice -n {options.target_nice} -p $(pgrep ksoftirqd) >/dev/null")
    try:
        line = target.stdout.readline()
        if "ready" not in line:
            raise RuntimeError(f"wss-target did not become ready: {line}")
        sh(f"modprobe rdma_cm; modprobe ib_uverbs || true; insmod {options.module}")
        try:
            for number in range(len(volumes)):
                write(Path("/sys/class/wss/map"), f"target={ADDRESS}:5555 volume=bench{number} queues=1 "
                                                  f"poll_queues={int(setup.polled)} {options.map_options}")  # fmt: skip
            yield wait_for(lambda: all_of("/dev/wss*", len(volumes)), "the WSS devices exist")
        finally:
            sh("rmmod wss")
    finally:
        target.terminate()
        target.wait(timeout=30)


def scsi_disks_of(vendor: str) -> list[str]:
    found = []
    for path in glob.glob("/sys/block/sd*"):
        with suppress(FileNotFoundError):  # a disk may disappear in the meantime
            if Path(path, "device/vendor").read_text().strip() == vendor:
                found.append("/dev/" + Path(path).name)
    return sorted(found)


def service_guid() -> str:
    """Returns the default name of ib_srpt: the node GUID of the RDMA device."""
    return Path("/sys/module/ib_srpt/parameters/srpt_service_guid").read_text().strip().removeprefix("0x")


@contextmanager
def lio_disks(backings: list[str]) -> Iterator[list[Path]]:
    """Yields the configfs directories of the RAM disks in Linux's SCSI target, which its fabrics export."""
    Path("/etc/target").mkdir(exist_ok=True)
    sh("modprobe target_core_mod; modprobe target_core_iblock; mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config")
    adapter = CONFIGFS / "target/core/iblock_0"
    disks = [adapter / f"ram{number}" for number in range(len(backings))]
    for disk, backing in zip(disks, backings):
        disk.mkdir(parents=True)
        write(disk / "control", f"udev_path={backing}")
        write(disk / "enable", "1")
    try:
        yield disks
    finally:
        for directory in (*disks, adapter):
            directory.rmdir()


@contextmanager
def lio_units(group: Path, disks: list[Path]) -> Iterator[list[Path]]:
    """Yields one logical unit for each disk in a target portal group of Linux's SCSI target."""
    units = [group / f"lun/lun_{number}" for number in range(len(disks))]
    for unit, disk in zip(units, disks):
        unit.mkdir(parents=True)
        (unit / "port").symlink_to(disk)
    try:
        yield units
    finally:
        for unit in units:
            (unit / "port").unlink()
            unit.rmdir()


@contextmanager
def lio_over_srpt(backings: list[str]) -> Iterator[None]:
    """Linux's SRP target on the RAM disks. The GUID of the RDMA device names its port in configfs."""
    with lio_disks(backings) as disks:
        sh("modprobe ib_srpt srp_max_req_size=8260")
        fabric = CONFIGFS / "target/srpt"
        fabric.mkdir(exist_ok=True)
        write(fabric / "discovery_auth/rdma_cm_port", "5556")
        guid = Path("/sys/class/infiniband/rxe0/node_guid").read_text().strip()
        group = fabric / guid / guid
        member = group / "acls" / ADDRESS
        group.mkdir(parents=True)
        with lio_units(group, disks) as units:
            member.mkdir()
            mapped = [member / unit.name for unit in units]
            for one, unit in zip(mapped, units):
                one.mkdir()
                (one / "port").symlink_to(unit)
            write(group / "enable", "1")
            try:
                yield
            finally:
                write(group / "enable", "0")
                for one in mapped:
                    (one / "port").unlink()
                for directory in (*mapped, member):
                    directory.rmdir()
        for directory in (group, fabric / guid, fabric):
            directory.rmdir()


@contextmanager
def srp(backings: list[str], _: Setup) -> Iterator[list[str]]:
    """Linux's SRP initiator with Linux's SRP target."""
    with lio_over_srpt(backings):
        sh("modprobe ib_srp cmd_sg_entries=255 indirect_sg_entries=2048; modprobe sd_mod")
        guid = service_guid()
        write(Path("/sys/class/infiniband_srp/srp-rxe0-1/add_target"),
              f"id_ext={guid},ioc_guid={guid},dest={ADDRESS}:5556,queue_size=128,cmd_sg_entries=255,sg_tablesize=2048,"
              "allow_ext_sg=1,max_sect=2048")  # fmt: skip
        try:
            wait_for(lambda: len(scsi_disks_of("LIO-ORG")) == len(backings), "the SRP disks exist")
            yield scsi_disks_of("LIO-ORG")
        finally:
            for port in glob.glob("/sys/class/srp_remote_ports/*/delete"):
                write(Path(port), "1")
            wait_for(lambda: not scsi_disks_of("LIO-ORG"), "the SRP disks are gone")


@contextmanager
def rnbd(backings: list[str], setup: Setup, options: argparse.Namespace) -> Iterator[list[str]]:
    """Linux's RNBD over RTRS, which Debian's kernel omits (tests/lab/kernels/left_out.sh)."""
    sh("modprobe rdma_cm")
    for module in ("rtrs/rtrs-core", "rtrs/rtrs-server", "rnbd/rnbd-server", "rtrs/rtrs-client", "rnbd/rnbd-client"):
        if not Path("/sys/module", Path(module).name.replace("-", "_")).exists():
            sh(f"insmod {options.rnbd}/{module}.ko")
    for backing in backings:
        write(Path("/sys/devices/virtual/rnbd-client/ctl/map_device"),
              f"sessname=bench path=ip:{ADDRESS} device_path={backing} access_mode=rw nr_poll_queues={int(setup.polled)}")  # fmt: skip
    try:
        yield wait_for(lambda: all_of("/dev/rnbd[0-9]*", len(backings)), "the RNBD devices exist")
    finally:
        for control in glob.glob("/sys/block/rnbd*/rnbd/unmap_device"):
            write(Path(control), "force")
        wait_for(lambda: not glob.glob("/sys/block/rnbd*"), "the RNBD devices are gone")
        sh("rmmod rnbd_client && rmmod rtrs_client && rmmod rnbd_server && rmmod rtrs_server")
