# SPDX-License-Identifier: Apache-2.0
"""Images of a storage process (--role rs) that another owner takes and shrinks. Long; `make check-ceph` runs them."""

import contextlib
import os
import re
import signal

import pytest

from .cache_cluster import ControlError, ask, until
from .programs import pause
from .rawnbd import FLUSH, READ, WRITE, RawNbd
from .test_ceph import KIB, MIB, volume
from .test_ceph_faults import lose_to_another_owner, storage_elsewhere
from .test_ceph_takeover import LOST_AFTER

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

BLOCK = 4 * KIB


@contextlib.contextmanager
def dirty_and_taken_elsewhere(ceph, tmp_path, nbd, at: int, reported: bool):
    """Cache engines hold a dirty write at `at` of a volume with storage in another process. Another owner takes the image and shrinks it
    to 4 MiB. The storage process reports the loss before it is restarted (`reported`), or is killed before the loss."""
    image = ceph.create_image("8M")
    with storage_elsewhere(ceph, tmp_path, image, "8M", engines=2, osd_timeout=5) as (cluster, storage):
        until(lambda: cluster.status()["volumes"], 30, "the volume is served")
        cluster.policy("write-back")
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            until(lambda: client.command(WRITE, at, BLOCK, b"0" * BLOCK)[0] == 0, 30, "a write")
            if reported:
                pause(storage.process)
            else:
                storage.kill()
            assert client.command(WRITE, at, BLOCK, b"1" * BLOCK)[0] == 0
            assert cluster.dirty() > 0
            lose_to_another_owner(ceph, tmp_path / "b", nbd, image)
            ceph.rbd("resize", "--no-progress", "--allow-shrink", "--size", "4M", image)
            if reported:
                storage.process.send_signal(signal.SIGCONT)
                until(lambda: "blocklisted" in volume(cluster)["trouble"], 30, "the loss is reported")
                storage.kill()
            storage.start()
            yield cluster, client


def check_what_is_left(cluster, client, nbd) -> None:
    """Checks the volume after the dirty lines were given up."""
    until(lambda: volume(cluster)["trouble"] == "", 30, "the volume is served")
    assert volume(cluster)["size"] == 4 * MIB and cluster.dirty() == 0
    # The initiator may be notified of the volume's return after the command has returned.
    until(lambda: client.command(READ, 0, BLOCK)[0] == 0, 10, "a read")
    assert client.command(FLUSH, 0, 0)[0] != 0, "one flush of the client reports the loss of acknowledged data"
    assert client.command(FLUSH, 0, 0)[0] == 0
    with RawNbd(nbd(cluster.target, "disk").socket) as another:
        assert another.size == 4 * MIB
        assert another.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)
        assert another.command(READ, 3 * MIB, BLOCK) == (0, bytes(BLOCK))


@pytest.mark.parametrize("at", [0, 6 * MIB], ids=["left", "cut"])
def test_reopening_that_gives_up_dirty_lines_adopts_the_smaller_size_of_the_image_of_a_storage_process(ceph, tmp_path, nbd, at):
    with dirty_and_taken_elsewhere(ceph, tmp_path, nbd, at, reported=True) as (cluster, client):
        until(lambda: "--give-up-dirty" in refusal_of_reopening(cluster), LOST_AFTER, "dirty lines are dropped only on request")
        assert cluster.dirty() > 0
        until(lambda: refusal_of_reopening(cluster, give_up_dirty=True) == "", 30, "the storage process has joined")
        check_what_is_left(cluster, client, nbd)


def test_volume_whose_image_shrank_while_its_storage_process_was_away_is_reopened_and_then_resized(ceph, tmp_path, nbd):
    with dirty_and_taken_elsewhere(ceph, tmp_path, nbd, 0, reported=False) as (cluster, client):
        until(lambda: "another owner had its real storage" in volume(cluster)["trouble"], 30, "the reason does not suggest a resize, which would drop lines")
        assert "volume resize" not in volume(cluster)["trouble"] and cluster.dirty() > 0
        assert refusal_of_reopening(cluster, give_up_dirty=True) == ""
        until(lambda: "wssctl volume resize disk" in volume(cluster)["trouble"], 30, "the reason names the remedy")
        assert volume(cluster)["size"] == 8 * MIB, "the volume keeps its size, because the image may be the wrong one"
        ask(cluster.control, "volume.resize", name="disk", size=re.search(r"wssctl volume resize disk (\w+)", volume(cluster)["trouble"])[1])
        check_what_is_left(cluster, client, nbd)


def refusal_of_reopening(cluster, **how) -> str:
    """Returns the error of a reopening; empty: the volume was reopened."""
    try:
        ask(cluster.control, "volume.reopen", name="disk", **how)
    except ControlError as error:
        return str(error)
    return ""
