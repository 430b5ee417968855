# SPDX-License-Identifier: Apache-2.0
"""Tests the distributed cache end to end: wss-target, wss-cache and clients on this host."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from .cache_cluster import Cluster, ControlError, ask, until
from .fio import errors, fio
from .programs import BUILD, run
from .rawnbd import FLUSH, READ, WRITE, RawNbd

EIO = 5
KIB = 1024
MIB = 1024 * KIB


@pytest.fixture(params=["tcp", "shm", "tcp/2"])
def kind(request):
    return request.param


@pytest.fixture
def nbd_of(nbd):
    """Starts nbdkit with a cluster's volume, connected to all its engines."""
    def start(cluster, volume="disk", **options):
        server = nbd(cluster.target, volume, **options)
        run("qemu-io", "-f", "raw", "-r", server.uri, "-c", "read 0 4k")
        cluster.wait_for_clients()
        return server

    return start


def qemu_io(server, *commands, check=True):
    words = [word for command in commands for word in ("-c", command)]
    return run("qemu-io", "-f", "raw", server.uri, *words, check=check)


class Disk:
    """Sends plain commands, one after another. (qemu-io would set FUA on its writes, and flush when it
    exits.)"""

    def __init__(self, server):
        self.client = RawNbd(server.socket)

    def __enter__(self):
        self.client.__enter__()
        return self

    def __exit__(self, *_):
        self.client.__exit__(*_)

    def write(self, value, offset, length):
        for at in range(offset, offset + length, MIB):
            part = min(MIB, offset + length - at)
            assert self.client.command(WRITE, at, part, bytes([value]) * part)[0] == 0

    def holds(self, value, offset, length):
        for at in range(offset, offset + length, MIB):
            part = min(MIB, offset + length - at)
            error, got = self.client.command(READ, at, part)
            assert error == 0 and got == bytes([value]) * part, f"at {at}"

    def flush(self):
        assert self.client.command(FLUSH, 0, 0)[0] == 0


def test_hit_comes_from_the_engines_and_no_byte_of_it_passes_through_the_target(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=2) as cluster:
        server = nbd_of(cluster)
        qemu_io(server, "write -P 0x5a 0 4M", "read -P 0x5a 0 4M", "flush")
        until(lambda: cluster.counters()["fills"] >= 64, what="every line is filled")
        before, engines = cluster.counters(), [engine.status()["counters"] for engine in cluster.engines]
        qemu_io(server, "read -P 0x5a 0 4M", "read -P 0x5a 64k 4k", "read -P 0x5a 100k 60k")
        after = cluster.counters()
        assert after["through_target_bytes"] == before["through_target_bytes"], "no byte of a hit may pass through the target"
        assert after["storage_read_bytes"] == before["storage_read_bytes"]
        moved = after["out_of_band_read_bytes"] - before["out_of_band_read_bytes"]
        assert moved == 4 * MIB + 64 * KIB
        sent = [engine.status()["counters"]["to_client_bytes"] - old["to_client_bytes"]
                for engine, old in zip(cluster.engines, engines)]
        assert sum(sent) == moved and all(part > 0 for part in sent), "both engines must take part"


def test_read_latency_includes_delegated_reads(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=2) as cluster:
        server = nbd_of(cluster)
        qemu_io(server, "write -P 0x5a 0 64k", "read -P 0x5a 0 64k")
        until(lambda: cluster.counters()["fills"] >= 1, what="the line is filled")
        with Disk(server) as disk:
            for _ in range(10):
                disk.holds(0x5A, 0, 4 * KIB)
        block = ask(cluster.control, "stats")["block"]
        assert block["delegated"] >= 10
        # The engine's report may reach the target after the data has reached the client.
        until(lambda: sum(ask(cluster.control, "block.latency")["read"]["buckets_us_pow2"]) == block["reads"], what="every read has been counted")


def test_volume_returns_what_was_written_under_each_policy(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=2, memory="24M") as cluster:
        server = nbd_of(cluster)
        for policy in ["write-through", "write-back", "write-around", "none"]:
            cluster.policy(policy)
            report = fio(server.uri, dict(rw="randrw", bssplit="4k/50:16k/20:64k/20:256k/10", iodepth=16, size="48m", io_size="64m",
                                          fsync=64, randseed=7),
                         verify="crc32c", verify_fatal=1, do_verify=1)
            assert errors(report) == [0], policy
        cluster.policy("write-through")
        assert cluster.dirty() == 0
        assert cluster.counters()["out_of_band_reads"] > 0


def test_write_back_moves_data_from_client_to_engines_and_a_flush_destages_it(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=2) as cluster, Disk(nbd_of(cluster)) as disk:
        cluster.policy("write-back")
        before = cluster.counters()
        disk.write(0x77, MIB, MIB)
        written = cluster.counters()
        assert written["out_of_band_write_bytes"] - before["out_of_band_write_bytes"] == MIB
        assert written["through_target_bytes"] == before["through_target_bytes"], "no byte may pass through the target"
        assert written["storage_write_bytes"] == before["storage_write_bytes"]
        assert cluster.dirty() == 16
        image = tmp_path / "disk.img"
        assert image.read_bytes()[MIB:MIB + 4096] == bytes(4096), "real storage must not have it yet"
        disk.holds(0x77, MIB, MIB)
        disk.flush()
        assert cluster.dirty() == 0
        assert image.read_bytes()[MIB:2 * MIB] == b"\x77" * MIB
        disk.holds(0x77, MIB, MIB)


def test_write_back_is_refused_with_one_engine_unless_unsafe(tmp_path):
    with Cluster("shm", tmp_path, engines=1) as cluster:
        with pytest.raises(ControlError, match="2 cache engines"):
            cluster.policy("write-back")
        cluster.policy("write-back", unsafe=True)
        assert cluster.status()["volumes"][0]["policy"] == "write-back"


def test_write_with_fua_is_on_storage_when_acknowledged(tmp_path, nbd_of):
    with Cluster("shm", tmp_path, engines=2) as cluster:
        server = nbd_of(cluster)
        cluster.policy("write-back")
        with Disk(server) as disk:
            disk.write(0x11, 0, 64 * KIB)
            assert cluster.dirty() == 1
        qemu_io(server, "write -f -P 0x22 0 64k")
        assert (tmp_path / "disk.img").read_bytes()[:64 * KIB] == b"\x22" * (64 * KIB)
        qemu_io(server, "read -P 0x22 0 64k")


def test_discard_and_write_zeroes_replace_cached_data(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=2) as cluster:
        server = nbd_of(cluster)
        for policy in ["write-through", "write-back"]:
            cluster.policy(policy)
            qemu_io(server, "write -P 0x33 0 1M", "read -P 0x33 0 1M", "write -z 128k 64k", "read -P 0 128k 64k",
                    "read -P 0x33 192k 64k", "discard 256k 64k", "read -P 0x33 320k 64k", "write -P 0x44 256k 64k",
                    "read -P 0x44 256k 64k")


def test_killed_engine_loses_no_data_and_does_not_stop_io(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=2) as cluster, Disk(nbd_of(cluster)) as disk:
        for policy in ["write-through", "write-back"]:
            cluster.policy(policy)
            for _ in range(2):
                disk.write(0x61, 0, 8 * MIB)
                disk.holds(0x61, 0, 8 * MIB)
            cluster.engines[0].kill()
            began = time.monotonic()
            disk.holds(0x61, 0, 8 * MIB)
            assert time.monotonic() - began < 2
            disk.write(0x62, 0, 8 * MIB)
            disk.holds(0x62, 0, 8 * MIB)
            disk.flush()
            cluster.wait_for_engines(1)
            cluster.engines[0].start()
            cluster.wait_for_engines(2)
            cluster.wait_for_clients()
            disk.holds(0x62, 0, 8 * MIB)


def test_restarted_target_finds_dirty_lines_after_it_was_killed(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=2) as cluster, Disk(nbd_of(cluster)) as disk:
        cluster.policy("write-back")
        disk.write(0x91, 0, 2 * MIB)
        disk.write(0x92, 64 * KIB, 64 * KIB)
        assert cluster.dirty() == 32
        cluster.target.kill()
        cluster.target.start()
        disk.holds(0x91, 0, 64 * KIB)
        disk.holds(0x92, 64 * KIB, 64 * KIB)
        disk.holds(0x91, 128 * KIB, 1920 * KIB)
        disk.flush()
        image = (tmp_path / "disk.img").read_bytes()
        assert image[64 * KIB:128 * KIB] == b"\x92" * (64 * KIB) and image[128 * KIB:2 * MIB] == b"\x91" * (1920 * KIB)
        cluster.wait_for_engines(2)


def test_read_of_dirty_data_waits_while_all_its_engines_hang_briefly(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=2) as cluster, Disk(nbd_of(cluster)) as disk:
        cluster.policy("write-back")
        disk.write(0xc1, 0, 256 * KIB)
        assert cluster.dirty() == 4
        for engine in cluster.engines:
            engine.hang()
        until(lambda: cluster.status()["engines"] == [], 60, "the target has given up both engines")
        with ThreadPoolExecutor() as pool:
            reading = pool.submit(disk.client.command, READ, 64 * KIB, 64 * KIB)
            until(lambda: cluster.status()["volumes"][0]["waiting"] == 1, 10, "the read is waiting")
            shown = run(BUILD / "wssctl", "--control", cluster.control, "cache", "status").stdout
            for engine in cluster.engines:
                engine.go_on()
            assert reading.result(60) == (0, b"\xc1" * 64 * KIB)
        assert "1 commands wait for them" in shown
        disk.flush()
        disk.holds(0xc1, 0, 256 * KIB)


def test_read_of_dirty_data_fails_while_its_engines_hang_and_the_data_is_destaged_when_they_return(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=2, more=["--cache-grace", "0"]) as cluster, Disk(nbd_of(cluster)) as disk:
        cluster.policy("write-back")
        disk.write(0xd1, 0, 256 * KIB)
        assert cluster.dirty() == 4
        for engine in cluster.engines:
            engine.hang()
        try:
            until(lambda: cluster.status()["engines"] == [], 60, "the target has given up both engines")
            assert disk.client.command(READ, 64 * KIB, 4 * KIB)[0] == EIO
            assert disk.client.command(FLUSH, 0, 0)[0] == EIO
            disk.write(0xd2, 128 * KIB, 64 * KIB)
            disk.holds(0xd2, 128 * KIB, 64 * KIB)
            status = cluster.status()
            assert status["volumes"][0]["lost_bytes"] == 192 * KIB and status["away"] == 2
            shown = run(BUILD / "wssctl", "--control", cluster.control, "cache", "status").stdout
            assert "cache give-up disk" in shown
        finally:
            for engine in cluster.engines:
                engine.go_on()
        until(lambda: cluster.status()["volumes"][0]["lost_bytes"] == 0, 60, "the data has been destaged")
        disk.holds(0xd1, 0, 128 * KIB)
        disk.holds(0xd2, 128 * KIB, 64 * KIB)
        disk.holds(0xd1, 192 * KIB, 64 * KIB)
        disk.flush()
        cluster.wait_for_engines(2, 60)


def test_read_of_dirty_data_of_dead_engines_returns_older_data_only_after_a_give_up(tmp_path, nbd_of):
    with Cluster("shm", tmp_path, engines=2, more=["--cache-grace", "0"]) as cluster, Disk(nbd_of(cluster)) as disk:
        disk.write(0xe0, 0, 64 * KIB)
        cluster.policy("write-back")
        disk.write(0xe1, 0, 64 * KIB)
        assert cluster.dirty() == 1
        # If the second engine were still running after the first was given up, the target would destage the
        # line.
        for engine in cluster.engines:
            engine.hang()
        until(lambda: cluster.status()["engines"] == [], 60, "the target has given up both engines")
        for engine in cluster.engines:
            engine.kill()
        assert disk.client.command(READ, 0, 4 * KIB)[0] == EIO
        wssctl = [BUILD / "wssctl", "--control", cluster.control]
        run(*wssctl, "cache", "give-up", "disk")
        refused = run(*wssctl, "cache", "give-up", "disk", check=False)
        assert refused.returncode == 1 and "no data of volume disk is lost" in refused.stderr
        assert disk.client.command(FLUSH, 0, 0)[0] == EIO, "the flush must report the lost write"
        disk.flush()
        disk.holds(0xe0, 0, 64 * KIB)


def test_leaving_engine_loses_no_dirty_data(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=3) as cluster, Disk(nbd_of(cluster)) as disk:
        cluster.policy("write-back")
        disk.write(0xa1, 0, 4 * MIB)
        assert cluster.dirty() == 64
        assert cluster.engines[0].stop() == 0
        assert cluster.engines[1].stop() == 0
        disk.holds(0xa1, 0, 4 * MIB)
        until(lambda: len(cluster.live()) == 1, what="one engine remains")


def test_stopping_target_destages_all_dirty_lines(tmp_path, nbd_of):
    with Cluster("shm", tmp_path, engines=2) as cluster:
        with Disk(nbd_of(cluster)) as disk:
            cluster.policy("write-back")
            disk.write(0xb1, 0, 4 * MIB)
            assert cluster.dirty() == 64
            assert cluster.target.stop() == 0
            assert (tmp_path / "disk.img").read_bytes()[:4 * MIB] == b"\xb1" * (4 * MIB)


def test_engine_wipes_the_lines_of_a_deleted_volume(tmp_path, nbd_of):
    volumes = {name: f"aio:{tmp_path}/{name}.img,size=16M,create" for name in ["disk", "other"]}
    with Cluster("shm", tmp_path, engines=1, volumes=volumes) as cluster:
        server = nbd_of(cluster, "other")
        qemu_io(server, "write -P 0xc1 0 1M", "read -P 0xc1 0 1M")
        server.stop()
        assert cluster.counters("other")["fills"] == 16
        ask(cluster.control, "volume.delete", name="other")
        until(lambda: cluster.engines[0].status()["counters"]["wipes"] >= 16, what="16 lines are wiped")
        assert cluster.status()["used_lines"] == 0


def test_clients_see_each_others_writes(kind, tmp_path, nbd_of):
    with Cluster(kind, tmp_path, engines=2) as cluster, Disk(nbd_of(cluster)) as first, Disk(nbd_of(cluster)) as second:
        for policy in ["write-through", "write-back"]:
            cluster.policy(policy)
            for value in range(1, 20):
                first.write(value, 0, 256 * KIB)
                second.holds(value, 0, 256 * KIB)
                second.write(value + 100, 64 * KIB, 4 * KIB)
                first.holds(value + 100, 64 * KIB, 4 * KIB)
                first.holds(value, 68 * KIB, 60 * KIB)
