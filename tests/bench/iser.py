# SPDX-License-Identifier: Apache-2.0
"""iSER (iSCSI over RDMA) as a compared system: Linux's initiator (ib_iser) with Linux's target (isert), or with that of the package tgt.

tgt runs in user space, like the target of WSS.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from tests.bench.contenders import ADDRESS, CONFIGFS, lio_disks, lio_units, scsi_disks_of, sh, wait_for, write
from tests.bench.workloads import Setup

TARGET = "iqn.2026-01.example.bench:target"
INITIATOR = "iqn.2026-01.example.bench:initiator"
PORTAL = f"{ADDRESS}:3260"
# Commands of a logical unit. The other systems have as many.
QUEUE_DEPTH = 128


@contextmanager
def session(vendor: str, count: int) -> Iterator[list[str]]:
    """Logs in and yields the disks of the session."""
    sh("modprobe ib_iser; modprobe sd_mod; mkdir -p /run/lock /etc/iscsi")
    write(Path("/etc/iscsi/initiatorname.iscsi"), f"InitiatorName={INITIATOR}\n")
    # At its end iscsid sends SIGTERM to its process group.
    daemon = subprocess.Popen(["iscsid", "-f"], stdout=sys.stderr, stderr=sys.stderr, start_new_session=True)
    node = f"iscsiadm -m node -T {TARGET} -p {PORTAL}"
    try:
        wait_for(lambda: subprocess.run(f"{node} -I iser -o new", shell=True, capture_output=True).returncode == 0, "iscsid answers")
        sh(f"{node} -o update -n node.session.queue_depth -v {QUEUE_DEPTH} && {node} --login")
        try:
            wait_for(lambda: len(scsi_disks_of(vendor)) == count, "the iSER disks exist")
            yield scsi_disks_of(vendor)
        finally:
            sh(f"{node} --logout && {node} -o delete")
            wait_for(lambda: not scsi_disks_of(vendor), "the iSER disks are gone")
    finally:
        daemon.terminate()
        daemon.wait(timeout=30)


@contextmanager
def lio_over_isert(backings: list[str]) -> Iterator[None]:
    with lio_disks(backings) as disks:
        sh("modprobe iscsi_target_mod; modprobe ib_isert")
        fabric = CONFIGFS / "target/iscsi"
        group = fabric / TARGET / "tpgt_1"
        group.mkdir(parents=True)
        open_to_all = {"authentication": 0, "generate_node_acls": 1, "demo_mode_write_protect": 0, "cache_dynamic_acls": 1}
        for name, value in open_to_all.items():
            write(group / "attrib" / name, str(value))
        portal = group / "np" / PORTAL
        with lio_units(group, disks):
            portal.mkdir()
            write(portal / "iser", "1")
            write(group / "enable", "1")
            try:
                yield
            finally:
                write(group / "enable", "0")
                portal.rmdir()
        for directory in (group, fabric / TARGET, fabric):
            directory.rmdir()


@contextmanager
def iser(backings: list[str], _: Setup) -> Iterator[list[str]]:
    """Linux's iSER initiator with Linux's iSER target."""
    with lio_over_isert(backings), session("LIO-ORG", len(backings)) as disks:
        yield disks


@contextmanager
def tgt(backings: list[str]) -> Iterator[None]:
    """The target of the package tgt, with libaio."""
    sh("modprobe rdma_ucm; modprobe ib_uverbs || true")
    daemon = subprocess.Popen(["tgtd", "-f", "--iscsi", "portal=127.0.0.1:3261"], stdout=sys.stderr, stderr=sys.stderr)

    def tell(mode: str, words: str) -> str:
        return f"tgtadm --lld iser --mode {mode} --tid 1 {words}"

    try:
        wait_for(lambda: subprocess.run(tell("target", f"--op new -T {TARGET}"), shell=True, capture_output=True).returncode == 0, "tgtd answers")
        for number, backing in enumerate(backings):
            sh(tell("logicalunit", f"--op new --lun {number + 1} --bstype aio -b {backing}"))
        for allowed in ("-I ALL", f"-Q {INITIATOR}"):  # over iSER, tgtd requires both
            sh(tell("target", f"--op bind {allowed}"))
        yield
        sh(tell("target", "--op delete --force"))
    finally:
        daemon.kill()  # it ignores SIGTERM while targets exist
        daemon.wait(timeout=30)


@contextmanager
def iser_tgt(backings: list[str], _: Setup) -> Iterator[list[str]]:
    """Linux's iSER initiator with a target in user space."""
    with tgt(backings), session("IET", len(backings)) as disks:
        yield disks
