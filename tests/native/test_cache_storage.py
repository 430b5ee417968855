# SPDX-License-Identifier: Apache-2.0
"""Real storage below the cache fails or is full. Dirty data stays in the engines, destaging is retried, and
the client and the operator get errors."""

import urllib.request

import pytest

from .cache_cluster import Cluster, ControlError, ask, until
from .ports import free_port
from .programs import run
from .rawnbd import FLUSH, READ, WRITE, RawNbd

KIB = 1024
MIB = 1024 * KIB
ENOSPC = 28
EIO = 5


@pytest.fixture
def cluster_on(tmp_path, nbd):
    """Starts a cluster under write-back on a backend with this fault filter, and a client."""
    clusters = []

    def start(rule: str, *more: str, filter: str = "error"):
        volumes = {"disk": f"{filter}:{rule}:aio:{tmp_path}/disk.img,size=32M,create"}
        cluster = Cluster("shm", tmp_path, engines=2, volumes=volumes, more=more)
        clusters.append(cluster)
        cluster.start()
        server = nbd(cluster.target, "disk")
        cluster.policy("write-back")
        return cluster, RawNbd(server.socket)

    yield start
    for cluster in clusters:
        cluster.stop()


def test_line_that_storage_cannot_write_stays_dirty_and_fails_the_flush(cluster_on, tmp_path):
    port = free_port()
    cluster, client = cluster_on("op=write,from=1M,to=2M,errno=EIO", "--http", f"127.0.0.1:{port}")
    with client:
        assert client.command(WRITE, MIB, 64 * KIB, b"\x11" * 64 * KIB)[0] == 0
        assert client.command(WRITE, 4 * MIB, 64 * KIB, b"\x22" * 64 * KIB)[0] == 0
        assert client.command(FLUSH, 0, 0)[0] == EIO
        assert client.command(READ, MIB, 64 * KIB) == (0, b"\x11" * 64 * KIB), "the cache must still have it"
        # The flush ends with its first failure. At that time, destaging of the other line may still be in
        # progress.
        status = until(lambda: (s := cluster.status())["volumes"][0]["error"] and s["dirty_lines"] == 1 and s,
                       what="the status shows the error, and one dirty line remains")
        assert status["volumes"][0]["counters"]["destage_errors"] > 0
        with pytest.raises(ControlError, match="cannot be destaged"):
            cluster.policy("write-through")
        assert cluster.status()["volumes"][0]["policy"] == "write-back"
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
        assert 'wss_cache_storage_failing{volume="disk"} 1' in metrics
        assert 'wss_cache_dirty_lines{volume="disk"} 1' in metrics
        # Other blocks still work, and data on stable storage is unchanged.
        assert (tmp_path / "disk.img").read_bytes()[4 * MIB:4 * MIB + 4096] == b"\x22" * 4096
        assert client.command(WRITE, MIB, 64 * KIB, b"\x33" * 64 * KIB)[0] == 0
        assert client.command(READ, MIB, 64 * KIB) == (0, b"\x33" * 64 * KIB)


def test_storage_that_is_sometimes_full_finally_gets_all_data(cluster_on, tmp_path):
    cluster, client = cluster_on("op=write,every=3,errno=ENOSPC")
    with client:
        for at in range(0, 2 * MIB, 64 * KIB):
            assert client.command(WRITE, at, 64 * KIB, bytes([at // (64 * KIB) + 1]) * 64 * KIB)[0] == 0
        seen = set()
        until(lambda: (seen.add(error := client.command(FLUSH, 0, 0)[0]), error == 0)[1], 60, "a flush has succeeded")
        assert cluster.dirty() == 0
        assert seen <= {0, ENOSPC, EIO}
        image = (tmp_path / "disk.img").read_bytes()
        for at in range(0, 2 * MIB, 64 * KIB):
            assert image[at:at + 64 * KIB] == bytes([at // (64 * KIB) + 1]) * 64 * KIB


def metric(port: int, name: str) -> float:
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
    return float(next(line for line in text.splitlines() if line.startswith(name + '{volume="disk"}')).split()[-1])


@pytest.mark.parametrize("name, number", [("EIO", EIO), ("ENOSPC", ENOSPC)])
def test_repaired_storage_gets_the_data_that_the_cache_kept(cluster_on, tmp_path, name, number):
    port = free_port()
    cluster, client = cluster_on(f"op=write,first=5,errno={name}", "--http", f"127.0.0.1:{port}")
    with client:
        for at in range(0, 256 * KIB, 64 * KIB):
            assert client.command(WRITE, at, 64 * KIB, bytes([at // (64 * KIB) + 1]) * 64 * KIB)[0] == 0
        assert client.command(FLUSH, 0, 0)[0] == number
        assert cluster.status()["volumes"][0]["error"], "the status must show the error"
        assert metric(port, "wss_cache_storage_failing") == 1
        assert client.command(READ, 0, 64 * KIB) == (0, b"\x01" * 64 * KIB), "the cache must still have it"
        until(lambda: client.command(FLUSH, 0, 0)[0] == 0, 60, "a flush has succeeded after the repair of storage")
        assert cluster.status()["volumes"][0]["error"] == "" and cluster.dirty() == 0
        assert metric(port, "wss_cache_storage_failing") == 0
        image = (tmp_path / "disk.img").read_bytes()
        for at in range(0, 256 * KIB, 64 * KIB):
            assert image[at:at + 64 * KIB] == bytes([at // (64 * KIB) + 1]) * 64 * KIB


def test_slow_storage_increases_the_age_of_the_oldest_dirty_data(cluster_on):
    port = free_port()
    cluster, client = cluster_on("op=write,us=4000000", "--http", f"127.0.0.1:{port}", filter="delay")
    with client:
        assert client.command(WRITE, 0, 64 * KIB, b"\x55" * 64 * KIB)[0] == 0, "the engines must accept the write"
        # Destaging starts after five seconds, and takes four more.
        until(lambda: cluster.status()["volumes"][0]["oldest_dirty_ms"] > 7000, 60, "the status shows the age")
        assert metric(port, "wss_cache_oldest_dirty_seconds") > 7 or cluster.dirty() == 0
        assert client.command(READ, 0, 64 * KIB) == (0, b"\x55" * 64 * KIB)
        assert client.command(FLUSH, 0, 0)[0] == 0
        assert cluster.dirty() == 0 and metric(port, "wss_cache_oldest_dirty_seconds") == 0


def test_write_through_fails_writes_that_storage_refuses(cluster_on):
    cluster, client = cluster_on("op=write,from=1M,to=2M,errno=EIO")
    cluster.policy("write-through")
    with client:
        assert client.command(READ, MIB, 64 * KIB)[1] == bytes(64 * KIB)
        assert client.command(WRITE, MIB, 64 * KIB, b"\x11" * 64 * KIB)[0] == EIO
        assert client.command(READ, MIB, 64 * KIB) == (0, bytes(64 * KIB)), "a failed write must not be readable"


def test_top_and_cache_status_show_the_cache(tmp_path, nbd):
    from .programs import BUILD
    import json
    with Cluster("shm", tmp_path, engines=1) as cluster:
        server = nbd(cluster.target, "disk")
        with RawNbd(server.socket) as client:
            cluster.wait_for_clients()
            for _ in range(3):
                client.command(READ, 0, MIB)
        wssctl = [BUILD / "wssctl", "--control", cluster.control]
        shown = run(*wssctl, "cache", "status").stdout
        assert "live" in shown and "write-through" in shown
        sample = json.loads(run(*wssctl, "--json", "top", "--interval", "0.1", "--count", "1").stdout)
        assert sample["volumes"][0]["name"] == "disk"
        run(*wssctl, "cache", "drain")
        assert run(*wssctl, "cache", "policy", "disk", "write-back", check=False).returncode == 1
        run(*wssctl, "cache", "remove", "0")
        until(lambda: cluster.status()["engines"] == [], what="the engine has been removed")
        run(BUILD / "wssctl", "--control", cluster.engines[0].control, "cache", "add")
        cluster.wait_for_engines(1)
        ask(cluster.control, "cache.status")
