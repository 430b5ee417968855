# SPDX-License-Identifier: Apache-2.0
"""An image whose lock goes without a sign, whose size becomes nothing, or that is opened twice. Long; `make check-ceph` runs them."""

import json
import os

import pytest

from .cache_cluster import Cluster, ControlError, ask, until
from .ceph_cluster import CephCluster
from .rawnbd import READ, WRITE, RawNbd
from .test_ceph import KIB, MIB, refusal, start_target, volume

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

BLOCK = 4 * KIB
TAKEN = "exclusive lock was taken away"


@pytest.fixture(scope="module")
def ceph(tmp_path_factory):
    with CephCluster(tmp_path_factory.mktemp("ceph")) as cluster:
        yield cluster


def disable_the_lock(ceph, image) -> None:
    ceph.rbd("feature", "disable", image, "object-map", "fast-diff", "exclusive-lock")


def disable_and_enable_the_lock(ceph, image) -> None:
    disable_the_lock(ceph, image)
    ceph.rbd("feature", "enable", image, "exclusive-lock")


def remove_the_lock_alone(ceph, image) -> None:
    lock = json.loads(ceph.rbd("lock", "ls", "--format", "json", image))[0]
    ceph.rbd("--rbd_blocklist_on_break_lock=false", "lock", "rm", image, lock["id"], lock["locker"])


@pytest.mark.parametrize("take_away", [disable_the_lock, disable_and_enable_the_lock, remove_the_lock_alone])
def test_a_lock_that_is_taken_away_without_a_blocklist_is_a_loss(ceph, tmp_path, nbd, take_away):
    image = ceph.create_image("8M")
    with Cluster("tcp", tmp_path, engines=1, volumes={"disk": ceph.backend(image)}) as cluster:
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and cluster.counters()["read_hits"] > 0, 30, "a hit")
            take_away(ceph, image)
            until(lambda: TAKEN in volume(cluster)["trouble"], 10, "the reason is shown")
            until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 5, "reads that hit fail")
            assert client.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] != 0


def test_a_target_whose_lock_was_removed_does_not_write_beside_the_next_owner(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first, RawNbd(nbd(first, "disk").socket) as client:
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        remove_the_lock_alone(ceph, image)
        with start_target(ceph, tmp_path / "b", ceph.backend(image)) as second, RawNbd(nbd(second, "disk").socket) as other:
            until(lambda: TAKEN in volume(first)["trouble"], 10, "the first has lost it")
            assert other.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
            assert client.command(WRITE, 0, BLOCK, b"3" * BLOCK)[0] != 0
            assert other.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)
            with pytest.raises(ControlError, match="uses it"):
                ask(first.control, "volume.reopen", name="disk")
        ask(first.control, "volume.reopen", name="disk")
        with RawNbd(nbd(first, "disk").socket) as again:
            assert again.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)


def test_an_image_that_is_resized_to_nothing_is_lost_and_reopened_when_it_has_a_size(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with Cluster("tcp", tmp_path, engines=2, volumes={"disk": ceph.backend(image)}) as cluster:
        cluster.policy("write-back")
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            ceph.rbd("resize", "--no-progress", "--allow-shrink", "--size", "0", image)
            until(lambda: "resized to nothing" in volume(cluster)["trouble"], 10, "the reason is shown")
            until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 5, "reads fail")
        # Not "uses it": the target's own former client is no other owner.
        until(lambda: "the image is empty" in refusal_of_reopening(cluster), 15, "the refusal has the reason")
        ceph.rbd("resize", "--no-progress", "--size", "8M", image)
        ask(cluster.control, "volume.reopen", name="disk", give_up_dirty=True)
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(READ, 0, BLOCK) == (0, bytes(BLOCK))
            assert client.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
        assert volume(cluster)["trouble"] == ""


def refusal_of_reopening(cluster) -> str:
    with pytest.raises(ControlError) as refused:
        ask(cluster.control, "volume.reopen", name="disk", give_up_dirty=True)
    return str(refused.value)


def resize(target, size: str, timeout: float = 60) -> str:
    """Why it failed; empty: it has not."""
    try:
        ask(target.control, "volume.resize", timeout=timeout, name="disk", size=size)
    except ControlError as error:
        return str(error)
    return ""


def image_size(ceph, image) -> int:
    return json.loads(ceph.rbd("info", "--format", "json", image))["size"]


def test_a_shrink_that_ceph_did_not_answer_is_not_done_when_it_is_repeated(ceph, tmp_path, nbd):
    image = ceph.create_image("16M")
    state = ("--state", str(tmp_path / "state.json"))
    target = start_target(ceph, tmp_path / "a", ceph.backend(image, resize_timeout=3), *state).start()
    try:
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(WRITE, 12 * MIB, BLOCK, b"1" * BLOCK)[0] == 0
        ceph.hang_all()
        try:
            assert "resize_timeout" in resize(target, "8M")
            assert "is not over" in resize(target, "8M")
            stored = json.loads((tmp_path / "state.json").read_text())["volumes"]
            assert any(one.get("shrinking") for one in stored), stored
            target.kill()
        finally:
            ceph.go_on()
        ceph.wait_for_osds(3)
        target = start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true"), *state).start()
        assert volume(target)["size"] == 8 * MIB and image_size(ceph, image) == 8 * MIB
        assert resize(target, "16M") == ""
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(READ, 12 * MIB, BLOCK) == (0, bytes(BLOCK)), "what was cut does not come back"
    finally:
        target.kill()


def test_a_shrink_that_ceph_failed_is_finished_when_it_is_repeated(ceph, tmp_path, nbd):
    image = ceph.create_image("16M")
    with start_target(ceph, tmp_path, ceph.backend(image, osd_timeout=3)) as target:
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(WRITE, 12 * MIB, BLOCK, b"1" * BLOCK)[0] == 0
        ceph.hang_all()
        try:
            assert resize(target, "8M") != ""
        finally:
            ceph.go_on()
        ceph.wait_for_osds(3)
        until(lambda: resize(target, "8M") == "", 60, "the shrink ends")
        assert volume(target)["size"] == 8 * MIB and image_size(ceph, image) == 8 * MIB
        assert resize(target, "16M") == ""
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(READ, 12 * MIB, BLOCK) == (0, bytes(BLOCK)), "what was cut does not come back"
