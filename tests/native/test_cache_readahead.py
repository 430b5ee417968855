# SPDX-License-Identifier: Apache-2.0
"""Read-ahead loads data into the engines before a sequential reader requests it."""

import os

import pytest

from .cache_cluster import Cluster, until
from .rawnbd import READ, WRITE, RawNbd

KIB = 1024
MIB = 1024 * KIB
SIZE = 16 * MIB


@pytest.fixture
def stored(tmp_path):
    """The content of a disk that was written before the cache existed."""
    content = os.urandom(SIZE)
    (tmp_path / "disk.img").write_bytes(content)
    return content


def cluster_with(tmp_path, read_ahead, **more):
    volumes = {"disk": f"aio:{tmp_path}/disk.img"}
    return Cluster("shm", tmp_path, engines=2, volumes=volumes, read_ahead=read_ahead, **more)


@pytest.mark.parametrize("block", [4 * KIB, 48 * KIB, MIB])
def test_sequential_reader_finds_its_data_in_the_engines(tmp_path, nbd, stored, block):
    with cluster_with(tmp_path, "2M") as cluster, RawNbd(nbd(cluster.target, "disk").socket) as client:
        for at in range(0, SIZE, block):
            length = min(block, SIZE - at)
            assert client.command(READ, at, length) == (0, stored[at:at + length]), at
        counters = cluster.counters()
        assert counters["reads"] == -(-SIZE // block), "read-ahead must not count as a command"
        assert counters["read_hits"] >= counters["reads"] // 2, counters
        # Each time the window grows, read-ahead and the reader may both read the same line.
        assert counters["read_ahead_bytes"] > SIZE // 2, counters
        assert counters["storage_read_bytes"] <= SIZE + 4 * MIB, counters


def test_read_ahead_follows_two_concurrent_readers(tmp_path, nbd, stored):
    with cluster_with(tmp_path, "1M") as cluster, RawNbd(nbd(cluster.target, "disk").socket) as client:
        for at in range(0, SIZE // 2, 64 * KIB):
            for begin in (0, SIZE // 2):
                assert client.command(READ, begin + at, 64 * KIB) == (0, stored[begin + at:begin + at + 64 * KIB])
        assert cluster.counters()["read_hits"] >= cluster.counters()["reads"] // 2, cluster.counters()


def test_scattered_reads_cause_no_read_ahead(tmp_path, nbd, stored):
    with cluster_with(tmp_path, "2M") as cluster, RawNbd(nbd(cluster.target, "disk").socket) as client:
        for turn in range(64):
            at = turn * 7 * 256 * KIB % SIZE
            assert client.command(READ, at, 4 * KIB) == (0, stored[at:at + 4 * KIB])
        assert cluster.counters()["read_ahead_bytes"] == 0


def test_read_ahead_can_be_disabled(tmp_path, nbd, stored):
    with cluster_with(tmp_path, "0") as cluster, RawNbd(nbd(cluster.target, "disk").socket) as client:
        for at in range(0, MIB, 64 * KIB):
            assert client.command(READ, at, 64 * KIB) == (0, stored[at:at + 64 * KIB])
        assert cluster.counters()["read_ahead_bytes"] == 0
        assert cluster.counters()["read_hits"] == 0


def test_read_ahead_data_never_replaces_newer_writes(tmp_path, nbd, stored):
    with cluster_with(tmp_path, "2M") as cluster, RawNbd(nbd(cluster.target, "disk").socket) as client:
        for policy in ("write-through", "write-back"):
            cluster.policy(policy)
            for at in range(0, 2 * MIB, 64 * KIB):
                # Write the line that is read next. Read-ahead may be loading it at this time.
                ahead, new = at + 128 * KIB, bytes([at // (64 * KIB) + 1]) * 4 * KIB
                client.command(READ, at, 64 * KIB)
                assert client.command(WRITE, ahead, 4 * KIB, new)[0] == 0
                assert client.command(READ, ahead, 4 * KIB) == (0, new)
        until(lambda: cluster.counters()["read_ahead_bytes"] > 0, what="read-ahead has loaded data")
