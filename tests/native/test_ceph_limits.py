# SPDX-License-Identifier: Apache-2.0
"""Volumes on images of a Ceph cluster when descriptors, threads or the time of a command run out. Long; `make check-ceph` runs them."""

import contextlib
import os
import time
from pathlib import Path

import pytest

from .cache_cluster import Cluster, ControlError, ask, until
from .rawnbd import FLUSH, READ, WRITE, RawNbd
from .test_ceph import KIB, MIB, start_target, volume

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

BLOCK = 4 * KIB
PIDS = Path("/sys/fs/cgroup/pids")


def check_that_openings_are_refused(ceph, target, nbd, images: int, word: str) -> None:
    """Opens images until the target refuses one, and checks that it still serves its volumes."""
    with RawNbd(nbd(target, "disk").socket) as client:
        refusal = ""
        for number in range(images):
            try:
                ask(target.control, "volume.create", name=f"image{number}", backend=ceph.backend(ceph.create_image("8M"), open_timeout=20))
            except ControlError as error:
                refusal = str(error)
                break
        assert word in refusal
        time.sleep(1)  # time in which threads of librados would terminate the process
        assert target.process.poll() is None, target.log.read_text()
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        assert client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK)
        assert number > 0, "at least one image was opened"


def test_image_is_refused_when_descriptors_run_out_and_others_remain_served(ceph, tmp_path, nbd):
    target = start_target(ceph, tmp_path, ceph.backend(ceph.create_image("8M")), "--state", str(tmp_path / "state.json"))
    target.command = ["prlimit", "--nofile=110", *target.command]
    with target:
        check_that_openings_are_refused(ceph, target, nbd, 8, "LimitNOFILE")


@pytest.mark.skipif(not os.access(PIDS, os.W_OK), reason="needs a cgroup of its own (v1, pids)")
def test_image_is_refused_when_threads_run_out_and_others_remain_served(ceph, tmp_path, nbd):
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


def test_volume_created_with_part_of_its_image_does_not_grow_beyond_its_original_size(ceph, tmp_path):
    image = ceph.create_image("16M")
    with start_target(ceph, tmp_path, ceph.backend(image) + ",size=8M") as target:
        ceph.rbd("resize", "--no-progress", "--allow-shrink", "--size", "4M", image)
        until(lambda: volume(target)["size"] == 4 * MIB, 10, "the volume shrinks with its image")
        ceph.rbd("resize", "--no-progress", "--size", "16M", image)
        until(lambda: volume(target)["size"] == 8 * MIB, 10, "the volume has its former size again")
        time.sleep(2)
        assert volume(target)["size"] == 8 * MIB


@contextlib.contextmanager
def hurried(tmp_path, **words):
    """A cluster whose control commands wait for at most 5 s."""
    cluster = Cluster("tcp", tmp_path, **words)
    command = cluster.target.command
    command[command.index("--drain-seconds") + 1] = "5"
    with cluster:
        yield cluster


def size_of_image(ceph, image) -> int:
    return int(ceph.rbd("info", image).split("size ")[1].split(" MiB")[0]) * MIB


def test_shrink_that_outlasts_its_command_shrinks_the_image_when_engines_have_released_the_range(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with hurried(tmp_path, engines=2, volumes={"disk": ceph.backend(image, steal="true", osd_timeout=8)}) as cluster:
        cluster.policy("write-back")
        with RawNbd(nbd(cluster.target, "disk").socket, timeout=60) as client:
            assert client.command(WRITE, 0, 8 * MIB, b"0" * 8 * MIB)[0] == 0
            assert client.command(FLUSH, 0, 0)[0] == 0
            ceph.hang_all()
            try:
                assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
                cluster.target.kill()
                for engine in cluster.engines:
                    engine.hang()
            finally:
                ceph.go_on()
            ceph.wait_for_osds(3)
            cluster.target.start()
            with pytest.raises(ControlError, match="continuing in the background"):
                ask(cluster.control, "volume.resize", name="disk", size="4M")
            assert size_of_image(ceph, image) == 8 * MIB
            for engine in cluster.engines:
                engine.go_on()
            until(lambda: size_of_image(ceph, image) == 4 * MIB, 30, "the image has shrunk")
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0, 30, "a read")
            assert client.command(READ, 0, BLOCK)[1] == b"1" * BLOCK
            ask(cluster.control, "volume.resize", name="disk", size="8M")
            # The initiator may be notified of the size after the command has returned.
            until(lambda: client.command(READ, 6 * MIB, BLOCK)[0] == 0, 10, "a read beyond the former end")
            assert client.command(READ, 6 * MIB, BLOCK) == (0, bytes(BLOCK))
