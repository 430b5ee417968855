# SPDX-License-Identifier: Apache-2.0
"""Tests real storage on another node than the target (wss-target --role rs). Its data moves directly to and
from clients."""

import random
import re
import select
import signal
import subprocess
import threading
import time
import urllib.request

import pytest

from .cache_cluster import Cluster, ControlError, ask, until
from .fio import errors, fio
from .ports import free_port
from .programs import BUILD, START_SECONDS, STOP_SECONDS, TARGET, run
from .rawnbd import FLUSH, READ, WRITE, RawNbd

KIB = 1024
MIB = 1024 * KIB
EIO = 5


@pytest.fixture(params=["tcp", "shm"])
def kind(request):
    return request.param


class Storage:
    """A running wss-target --role rs with the volume `disk`. `under` names filters in front of its file."""

    def __init__(self, cluster: Cluster, size: str = "64M", name: str = "disk", more=(), under: str = "", mode: str = "create"):
        self.control = cluster.directory / "rs.sock"
        self.log = cluster.directory / "rs.log"
        self.image = cluster.directory / "rs.img"
        self.command = [str(TARGET), "--role", "rs", "--join", cluster.join, "--listen", cluster._address("rs"),
                        "--volume", f"{name}={under}aio:{self.image},size={size},{mode}", "--control", str(self.control), *more]
        self.process = None

    def start(self) -> "Storage":
        with self.log.open("ab") as errors_to:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=errors_to, stdin=subprocess.DEVNULL)
        readable, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline().decode() if readable else ""
        assert line.startswith("wss-target: ready on "), f"{line!r}\n{self.log.read_text()}"
        return self

    def counters(self) -> dict:
        return ask(self.control, "engine.status")["counters"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def __enter__(self) -> "Storage":
        return self.start()

    def __exit__(self, kind, *_):
        if self.process.poll() is None:
            self.kill()
        if kind is not None:
            print(self.log.read_text()[-3000:])


def remote_cluster(kind, directory, **options):
    return Cluster(kind, directory, volumes={"disk": "rs:disk,size=64M"}, **options)


def wait_for_storage(cluster, clients: int = 0):
    def joined():
        found = [engine for engine in cluster.status()["engines"] if engine["state"] == "storage"]
        return len(found) == 1 and found[0]["clients"] >= clients
    until(joined, 60, f"real storage has joined and has {clients} clients")


def wait_until_reached(cluster):
    """Waits until real storage has connected to every engine."""
    until(lambda: all(engine["reached_by_storage"] for engine in cluster.live()), 60, "real storage has connected to the engines")


def test_metric_of_engines_does_not_count_storage_processes(tmp_path):
    port = free_port()

    def counted():
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read().decode()
        return float(re.search(r"^wss_cache_engines (\S+)$", text, re.M).group(1))
    with remote_cluster("tcp", tmp_path, engines=1, more=["--http", str(port)]) as cluster, Storage(cluster):
        wait_for_storage(cluster)
        assert counted() == 1
        cluster.engines[0].kill()
        until(lambda: counted() == 0, 20, "no engine is counted")
        wait_for_storage(cluster)


def bytes_with_target(cluster, storage) -> int:
    """Returns how many bytes engines and real storage have exchanged with the target by RDMA, according to
    their own counters."""
    every = [storage.counters()] + [engine.status()["counters"] for engine in cluster.engines]
    return sum(one["to_storage_bytes"] + one["from_storage_bytes"] for one in every)


def connected(cluster, nbd):
    """Starts nbdkit with the volume, connected to engines and storage."""
    server = nbd(cluster.target, "disk")
    run("qemu-io", "-f", "raw", "-r", server.uri, "-c", "read 0 4k")
    cluster.wait_for_clients()
    wait_for_storage(cluster, 1)
    return server


def test_storage_process_stops_at_once_while_its_target_is_away(tmp_path):
    with remote_cluster("tcp", tmp_path, engines=0) as cluster, Storage(cluster, more=("--drain-seconds", "600")) as storage:
        wait_for_storage(cluster)
        cluster.target.kill()
        assert storage.stop() == 0, storage.log.read_text()


def test_data_of_misses_and_hits_and_writes_does_not_pass_through_the_target(kind, tmp_path, nbd):
    with remote_cluster(kind, tmp_path, engines=2) as cluster, Storage(cluster) as storage:
        wait_for_storage(cluster)
        with RawNbd(connected(cluster, nbd).socket) as client:
            cluster.policy("write-around")
            before = cluster.counters()
            assert client.command(WRITE, 0, MIB, b"\x5a" * MIB)[0] == 0
            written = cluster.counters()
            assert written["direct_writes"] > before["direct_writes"]
            assert client.command(FLUSH, 0, 0)[0] == 0
            assert storage.counters()["storage_flushes"] >= 1
            assert storage.image.read_bytes()[:MIB] == b"\x5a" * MIB
            cluster.policy("write-through")
            assert client.command(READ, 0, MIB) == (0, b"\x5a" * MIB)
            until(lambda: cluster.counters()["fills"] - written["fills"] >= 16, what="every line is filled")
            missed, disk = cluster.counters(), storage.counters()
            assert missed["direct_reads"] > written["direct_reads"]
            assert client.command(READ, 0, MIB) == (0, b"\x5a" * MIB)
            after = cluster.counters()
            assert after["direct_reads"] == missed["direct_reads"] and after["read_hits"] > missed["read_hits"]
            assert storage.counters()["storage_reads"] == disk["storage_reads"], "a hit must not read the disk"
            assert after["through_target_bytes"] == before["through_target_bytes"], "no byte of a command may pass through the target"


def test_data_of_fills_and_read_ahead_and_destaging_does_not_pass_through_the_target(kind, tmp_path, nbd):
    with remote_cluster(kind, tmp_path, engines=2, read_ahead="2M") as cluster, Storage(cluster) as storage:
        content = random.Random(3).randbytes(16 * MIB)
        wait_for_storage(cluster)
        with RawNbd(connected(cluster, nbd).socket, timeout=300) as client:
            wait_until_reached(cluster)
            cluster.policy("write-back")  # takes effect after all earlier operations have ended
            before, crossed = cluster.counters(), bytes_with_target(cluster, storage)
            for at in range(0, 16 * MIB, MIB):
                assert client.command(WRITE, at, MIB, content[at:at + MIB])[0] == 0
            assert client.command(FLUSH, 0, 0)[0] == 0
            assert storage.image.read_bytes()[:16 * MIB] == content, "the flush must destage everything"
            home = cluster.counters()
            assert home["destaged_bytes"] - before["destaged_bytes"] >= 16 * MIB
            cluster.policy("none")  # evicts every line
            cluster.policy("write-through")
            for at in range(0, 16 * MIB, 64 * KIB):
                assert client.command(READ, at, 64 * KIB) == (0, content[at:at + 64 * KIB]), at
            until(lambda: cluster.counters()["fill_bytes"] - before["fill_bytes"] >= 8 * MIB, 60, "lines are filled")
            after = cluster.counters()
            assert after["read_ahead_bytes"] > 0 and after["read_hits"] > 0
            moved = after["upkeep_direct_bytes"] - before["upkeep_direct_bytes"]
            assert moved == after["fill_bytes"] + after["destaged_bytes"] - before["fill_bytes"] - before["destaged_bytes"]
            assert after["upkeep_through_target_bytes"] == before["upkeep_through_target_bytes"], "no byte of it may pass through the target"
            assert after["through_target_bytes"] == before["through_target_bytes"]
            assert bytes_with_target(cluster, storage) == crossed, "engines and storage must exchange no byte with the target"


def test_volume_returns_what_was_written_under_each_policy(kind, tmp_path, nbd):
    with remote_cluster(kind, tmp_path, engines=2, memory="24M") as cluster, Storage(cluster):
        wait_for_storage(cluster)
        server = connected(cluster, nbd)
        for policy in ["write-through", "write-back", "write-around", "none"]:
            cluster.policy(policy)
            report = fio(server.uri, dict(rw="randrw", bssplit="4k/50:16k/20:64k/20:256k/10", iodepth=16, size="48m", io_size="48m",
                                          fsync=64, randseed=7),
                         verify="crc32c", verify_fatal=1, do_verify=1)
            assert errors(report) == [0], policy
        counters = cluster.counters()
        assert counters["direct_reads"] > 0 and counters["direct_writes"] > 0 and counters["out_of_band_reads"] > counters["direct_reads"]
        run("qemu-io", "-f", "raw", server.uri, "-c", "write -P 1 0 1M", "-c", "discard 0 1M", "-c", "write -z 1M 1M", "-c", "read -P 0 1M 1M")


def test_commands_fail_in_bounded_time_while_storage_is_away_and_succeed_after_it_returns(kind, tmp_path, nbd):
    with remote_cluster(kind, tmp_path, engines=1) as cluster, Storage(cluster) as storage:
        wait_for_storage(cluster)
        with RawNbd(connected(cluster, nbd).socket, timeout=300) as client:
            cluster.policy("none")
            assert client.command(WRITE, 0, 64 * KIB, b"\x11" * 64 * KIB)[0] == 0
            storage.kill()
            began = time.monotonic()
            assert client.command(READ, 0, 4 * KIB)[0] == EIO
            assert client.command(WRITE, 0, 4 * KIB, b"\x12" * 4 * KIB)[0] == EIO
            assert client.command(FLUSH, 0, 0)[0] == EIO
            assert time.monotonic() - began < 200
            storage.start()
            wait_for_storage(cluster)
            assert client.command(READ, 4 * KIB, 4 * KIB) == (0, b"\x11" * 4 * KIB)
            assert client.command(FLUSH, 0, 0)[0] == 0, "its machine kept running, so no cached write is lost"


def test_command_fails_at_the_first_storage_error_without_a_retry(kind, tmp_path, nbd):
    bad = range(16 * MIB, 32 * MIB)
    with remote_cluster(kind, tmp_path, engines=2) as cluster, Storage(cluster, under="error:from=16M,to=32M:") as storage:
        wait_for_storage(cluster)
        with RawNbd(connected(cluster, nbd).socket, timeout=300) as client:
            wait_until_reached(cluster)
            places = iter(bad[::256 * KIB])
            for policy in ["none", "write-around", "write-through", "write-back"]:
                cluster.policy(policy)
                for length in [4 * KIB, 64 * KIB]:
                    for command in [READ, WRITE] if policy != "write-back" else [READ]:
                        before, failed = cluster.counters(), storage.counters()["storage_errors"]
                        data = b"\x13" * length if command == WRITE else b""
                        assert client.command(command, next(places), length, data)[0] == EIO
                        after, what = cluster.counters(), f"{policy}, command {command} of {length} bytes"
                        assert storage.counters()["storage_errors"] == failed + 1, what
                        assert after["done_again"] == before["done_again"], what
                        if command == READ:
                            assert after["direct_reads"] == before["direct_reads"] + 1, what
            assert client.command(READ, 0, 64 * KIB) == (0, b"\0" * 64 * KIB)


def test_dirty_lines_wait_in_the_engines_while_storage_is_away(tmp_path, nbd):
    with remote_cluster("tcp", tmp_path, engines=2) as cluster, Storage(cluster) as storage:
        wait_for_storage(cluster)
        with RawNbd(connected(cluster, nbd).socket, timeout=300) as client:
            cluster.policy("write-back")
            storage.kill()
            assert client.command(WRITE, 0, 256 * KIB, b"\x77" * 256 * KIB)[0] == 0, "two engines must accept the write"
            assert client.command(READ, 0, 256 * KIB) == (0, b"\x77" * 256 * KIB)
            assert cluster.dirty() == 4
            storage.start()
            until(lambda: client.command(FLUSH, 0, 0)[0] == 0, 120, "a flush has succeeded")
            assert cluster.dirty() == 0
            assert storage.image.read_bytes()[:256 * KIB] == b"\x77" * 256 * KIB


class Writer(threading.Thread):
    """Writes and reads random blocks and records which contents each may hold. A failed write may have taken effect."""

    BLOCK, BLOCKS = 32 * KIB, 256  # too large for immediate data

    def __init__(self, socket):
        super().__init__()
        self.client = RawNbd(socket, timeout=300)
        self.may_hold = [{0} for _ in range(self.BLOCKS)]
        self.stopping = threading.Event()
        self.wrong, self.good, self.bad = None, 0, 0
        self.random = random.Random(11)

    def check(self, block) -> bool:
        error, got = self.client.command(READ, block * self.BLOCK, self.BLOCK)
        if error != 0:
            return False
        if got != got[:1] * self.BLOCK or got[0] not in self.may_hold[block]:
            self.wrong = f"block {block} holds {set(got)}, not one of {self.may_hold[block]}"
        else:
            self.may_hold[block] = {got[0]}
        return True

    def step(self):
        block = self.random.randrange(self.BLOCKS)
        if self.random.random() < 0.4:
            good = self.check(block)
        else:
            value = self.random.randrange(1, 256)
            good = self.client.command(WRITE, block * self.BLOCK, self.BLOCK, bytes([value]) * self.BLOCK)[0] == 0
            self.may_hold[block] = {value} if good else self.may_hold[block] | {value}
        self.good += good
        self.bad += not good

    def run(self):
        with self.client:
            while not self.stopping.is_set() and self.wrong is None:
                self.step()
            for block in range(self.BLOCKS):
                if self.wrong is None and not self.check(block):
                    self.wrong = f"block {block} cannot be read at the end"


@pytest.mark.parametrize("policy", ["write-through", "write-around"])
def test_no_acknowledged_write_is_lost_when_storage_is_killed_under_load(kind, tmp_path, nbd, policy):
    with remote_cluster(kind, tmp_path, engines=2, memory="16M") as cluster, Storage(cluster) as storage:
        wait_for_storage(cluster)
        cluster.policy(policy)
        writer = Writer(connected(cluster, nbd).socket)
        writer.start()
        try:
            for _ in range(4):
                seen = writer.good
                until(lambda: writer.good > seen + 200 or writer.wrong, 120, "200 commands have succeeded")
                storage.kill()
                time.sleep(random.random())
                storage.start()
                wait_for_storage(cluster, 1)
        finally:
            writer.stopping.set()
            writer.join(300)
        assert writer.wrong is None and not writer.is_alive()
        assert cluster.counters()["direct_writes"] > 0


def test_target_does_not_use_storage_of_another_size_and_logs_the_reason(tmp_path, nbd):
    with remote_cluster("tcp", tmp_path, engines=0) as cluster, Storage(cluster, size="32M"):
        wait_for_storage(cluster)
        until(lambda: "not served: its real storage" in cluster.target.log.read_text(), 30, "the reason is logged")


def test_volume_larger_than_its_storage_fails_commands_at_once_and_works_after_a_resize(tmp_path, nbd):
    with remote_cluster("tcp", tmp_path, engines=0) as cluster, Storage(cluster, size="32M"):
        until(lambda: "not served: its real storage" in ask(cluster.control, "volume.list")[0]["trouble"], 30, "the reason is shown")
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            started = time.monotonic()
            assert client.command(READ, 0, 4 * KIB)[0] == EIO
            assert time.monotonic() - started < 3
            with pytest.raises(ControlError, match="on another node"):
                ask(cluster.control, "volume.resize", name="disk", size="128M")
            ask(cluster.control, "volume.resize", name="disk", size="32M")
            until(lambda: client.command(READ, 0, 4 * KIB) == (0, bytes(4 * KIB)), 10, "the volume is served")
        assert ask(cluster.control, "volume.list")[0]["trouble"] == ""


def test_read_only_storage_serves_no_writable_volume(tmp_path, nbd):
    with remote_cluster("tcp", tmp_path, engines=0) as cluster:
        (tmp_path / "rs.img").write_bytes(bytes(64 * MIB))
        trouble = lambda: ask(cluster.control, "volume.list")[0]["trouble"]  # noqa: E731
        with Storage(cluster, mode="ro"):
            until(lambda: "is read-only" in trouble(), 30, "the reason is shown")
            with RawNbd(nbd(cluster.target, "disk").socket) as client:
                assert client.command(READ, 0, 4 * KIB)[0] == EIO
        until(lambda: trouble() == "waits for its real storage, which is away", 30, "the process has left")
        ask(cluster.control, "volume.set", name="disk", read_only=True)
        with Storage(cluster, mode="ro"):
            until(lambda: "is read-only" in trouble(), 30, "the reason is shown, as the volume may become writable again")
        with Storage(cluster):
            until(lambda: trouble() == "", 30, "the volume is served")


def test_reopen_of_a_volume_on_read_only_storage_keeps_its_dirty_lines(tmp_path, nbd):
    with remote_cluster("tcp", tmp_path, engines=2) as cluster:
        with Storage(cluster):
            wait_for_storage(cluster)
            client = RawNbd(connected(cluster, nbd).socket, timeout=300)
            cluster.policy("write-back")
        with client:
            assert client.command(WRITE, 0, 4 * KIB, b"\x77" * 4 * KIB)[0] == 0, "two engines must accept the write"
            with Storage(cluster, mode="ro"):
                until(lambda: "is read-only" in ask(cluster.control, "volume.list")[0]["trouble"], 30, "the reason is shown")
                with pytest.raises(ControlError, match="is read-only"):
                    ask(cluster.control, "volume.reopen", name="disk", give_up_dirty=True)
                assert cluster.dirty() == 1
            with Storage(cluster):
                until(lambda: client.command(FLUSH, 0, 0)[0] == 0, 120, "a flush has succeeded")
            assert cluster.dirty() == 0


def test_target_refuses_a_second_volume_on_the_same_real_storage_even_after_a_restart(tmp_path):
    with remote_cluster("tcp", tmp_path, engines=0) as cluster, Storage(cluster):
        wait_for_storage(cluster)
        for _ in range(2):
            with pytest.raises(ControlError, match="rs:disk is already the storage of volume disk"):
                ask(cluster.control, "volume.create", name="second", backend="rs:disk", size="64M")
            cluster.target.stop()
            cluster.target.start()
        assert [volume["name"] for volume in ask(cluster.control, "volume.list")] == ["disk"]


def test_target_checks_its_options_for_real_storage(tmp_path):
    for words, said in ((["--role", "rs", "--volume", "a=ram:64M"], "give --join URI"),
                        (["--role", "rs", "--join", "tcp://127.0.0.1:1"], "give --volume"),
                        (["--join", "tcp://127.0.0.1:1", "--volume", "a=ram:64M"], "--join is for --role rs"),
                        (["--secret-file", "s", "--volume", "a=ram:64M"], "--secret-file is not for --role block"),
                        (["--role", "rs", "--join", "tcp://127.0.0.1:1", "--volume", "a=ram:64M", "--secrets", "s"], "--secrets is not for --role rs"),
                        (["--volume", "a=rs:a", "--cache-listen", "tcp://127.0.0.1:0"], "rs:a needs a size")):
        done = run(BUILD / "wss-target", "--listen", "tcp://127.0.0.1:0", "--control", "", *words, check=False)
        assert done.returncode == (1 if "needs a size" in said else 2) and said in done.stderr, done.stderr
