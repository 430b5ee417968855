# SPDX-License-Identifier: Apache-2.0
"""Volumes on images of a Ceph cluster where something runs out: descriptors, threads. Long; `make check-ceph` runs them."""

import os
import time
from pathlib import Path

import pytest

from .cache_cluster import ControlError, ask, until
from .ceph_cluster import CephCluster
from .rawnbd import READ, WRITE, RawNbd
from .test_ceph import KIB, start_target

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

BLOCK = 4 * KIB
PIDS = Path("/sys/fs/cgroup/pids")


@pytest.fixture(scope="module")
def ceph(tmp_path_factory):
    with CephCluster(tmp_path_factory.mktemp("ceph")) as cluster:
        yield cluster


def check_that_openings_are_refused(ceph, target, nbd, images: int, word: str) -> None:
    """… from some image on, while the target serves the others."""
    with RawNbd(nbd(target, "disk").socket) as client:
        refusal = ""
        for number in range(images):
            try:
                ask(target.control, "volume.create", name=f"image{number}", backend=ceph.backend(ceph.create_image("8M"), open_timeout=20))
            except ControlError as error:
                refusal = str(error)
                break
        assert word in refusal
        time.sleep(1)  # threads of librados would end the process
        assert target.process.poll() is None, target.log.read_text()
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        assert client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK)
        assert number > 0, "there is room for some"


def test_an_image_for_which_no_descriptors_are_left_is_refused_and_others_are_served(ceph, tmp_path, nbd):
    target = start_target(ceph, tmp_path, ceph.backend(ceph.create_image("8M")), "--state", str(tmp_path / "state.json"))
    target.command = ["prlimit", "--nofile=110", *target.command]
    with target:
        check_that_openings_are_refused(ceph, target, nbd, 8, "LimitNOFILE")


@pytest.mark.skipif(not os.access(PIDS, os.W_OK), reason="needs a cgroup of its own (v1, pids)")
def test_an_image_for_which_no_threads_are_left_is_refused_and_others_are_served(ceph, tmp_path, nbd):
    group = PIDS / f"wss-test-{os.getpid()}"
    group.mkdir()
    try:
        (group / "pids.max").write_text("90")
        target = start_target(ceph, tmp_path, ceph.backend(ceph.create_image("8M")), "--state", str(tmp_path / "state.json"))
        target.command = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *target.command]
        with target:
            check_that_openings_are_refused(ceph, target, nbd, 8, "TasksMax")
    finally:
        until(lambda: not (group / "cgroup.procs").read_text(), 10, "the group is empty")
        group.rmdir()
