# SPDX-License-Identifier: Apache-2.0
"""Volumes on images of a Ceph cluster that is down or full, or whose images are deleted or taken. Long; `make check-ceph` runs them."""

import contextlib
import os
import signal
import subprocess
import threading
import time

import pytest

from .cache_cluster import Cluster, ControlError, ask, until
from .programs import BUILD, Target, pause, run
from .rawnbd import FLUSH, READ, TRIM, WRITE, RawNbd
from .test_ceph import EIO, KIB, MIB, start_target, volume

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

ENOSPC = 28
BLOCK = 4 * KIB


class Writer:
    """Writes growing numbers to a few blocks, one after the other, and records the acknowledged ones."""

    BLOCKS = 64

    def __init__(self, path, first: int = 1):
        self.path, self.number = path, first
        self.acknowledged: dict[int, int] = {}
        self.attempted: dict[int, int] = {}
        self.errors = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)

    @staticmethod
    def content(number: int) -> bytes:
        return number.to_bytes(8, "little") * (BLOCK // 8)

    def _run(self) -> None:
        try:
            with RawNbd(self.path, timeout=120) as client:
                while not self.stopping.is_set():
                    block = self.number % self.BLOCKS
                    self.attempted[block] = self.number
                    if client.command(WRITE, block * BLOCK, BLOCK, self.content(self.number))[0] == 0:
                        self.acknowledged[block] = self.number
                    else:
                        self.errors += 1
                    self.number += 1
        except (AssertionError, OSError):
            pass  # the server was killed

    def __enter__(self) -> "Writer":
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join(150)
        assert not self.thread.is_alive(), "a write never ended"

    def check(self, client: RawNbd) -> None:
        """Checks that each block holds the last acknowledged number, or a later attempted one."""
        for block, number in self.acknowledged.items():
            error, data = client.command(READ, block * BLOCK, BLOCK)
            assert error == 0
            found = int.from_bytes(data[:8], "little")
            assert data == self.content(found) and number <= found <= self.attempted[block], (block, number, found)


def test_requests_wait_while_all_osds_are_silent_and_fail_within_the_limit(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path, ceph.backend(image, osd_timeout=12)) as target:
        with RawNbd(nbd(target, "disk").socket, timeout=120) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            ceph.hang_all()
            try:
                started = time.monotonic()
                answers = []
                asking = threading.Thread(target=lambda: answers.append(client.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0]))
                asking.start()
                until(lambda: "requests wait for Ceph, the oldest" in volume(target)["trouble"], 20, "the wait is shown")
                asking.join(60)
                assert answers == [EIO] and 8 < time.monotonic() - started < 40
            finally:
                ceph.go_on()
            ceph.wait_for_osds(3)
            until(lambda: client.command(WRITE, 0, BLOCK, b"3" * BLOCK)[0] == 0, 60, "a write succeeds")
            assert client.command(READ, 0, BLOCK) == (0, b"3" * BLOCK)
            until(lambda: volume(target)["trouble"] == "", 15, "the end of the wait is shown")


def test_silent_cluster_with_thousands_of_operations_in_flight_does_not_stop_other_volumes(ceph, tmp_path, nbd):
    volumes = {"disk": ceph.backend(ceph.create_image("2G", "--image-feature", "layering,exclusive-lock"), osd_timeout=30), "other": "ram:8M"}
    with Target("tcp://127.0.0.1:0", volumes, tmp_path, "--control", str(tmp_path / "sock"), "--reactors", "1", "--drain-seconds", "5") as target:
        silent, other = nbd(target, "disk"), nbd(target, "other")
        with contextlib.ExitStack() as stack, RawNbd(other.socket) as healthy:
            ceph.hang_all()
            try:
                # Without an object map each discard is an operation on every object of the range. Ceph's limit is 1024 operations.
                clients = [stack.enter_context(RawNbd(silent.socket, timeout=120)) for _ in range(24)]
                discards = [threading.Thread(target=client.command, args=(TRIM, 0, 1024 * MIB), daemon=True) for client in clients]
                for discard in discards:
                    discard.start()
                def waits() -> str:
                    return next(one["trouble"] for one in ask(tmp_path / "sock", "volume.list") if one["name"] == "disk")
                until(lambda: "requests wait for Ceph, the oldest" in waits(), 30, "the wait is shown")
                for block in range(64):
                    assert healthy.command(WRITE, block * BLOCK, BLOCK, b"1" * BLOCK)[0] == 0
            finally:
                ceph.go_on()
            for discard in discards:
                discard.join(120)
        ceph.wait_for_osds(3)


def test_target_stops_within_its_limits_while_all_osds_are_silent(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    target = start_target(ceph, tmp_path, ceph.backend(image, osd_timeout=60)).start()
    try:
        with RawNbd(nbd(target, "disk").socket, timeout=120) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        ceph.hang_all()
        started = time.monotonic()
        target.process.send_signal(signal.SIGTERM)
        status = target.process.wait(60)
        assert time.monotonic() - started < 40
        assert status == 0, target.log.read_text()
        assert "abandoned" in target.log.read_text()
    finally:
        ceph.go_on()
        target.kill()
    ceph.wait_for_osds(3)


def set_full(ceph, ratio: float) -> None:
    for name, value in (("nearfull", ratio * 0.9), ("backfillfull", ratio * 0.95), ("full", ratio)):
        ceph.ceph("osd", f"set-{name}-ratio", f"{value:f}")


def test_full_pool_rejects_only_writes_that_need_space(ceph, tmp_path, nbd):
    ceph.create_pool("small")
    image = ceph.create_image("64M", pool="small")
    with start_target(ceph, tmp_path, ceph.backend(image)) as target:
        with RawNbd(nbd(target, "disk").socket, timeout=120) as client:
            for at in range(0, 8 * MIB, MIB):
                assert client.command(WRITE, at, MIB, b"1" * MIB)[0] == 0
            # Without a manager daemon the bytes of a pool are not counted, so the OSDs themselves must be full.
            set_full(ceph, 0.0001)
            try:
                new = iter(range(8 * MIB, 64 * MIB, BLOCK))
                until(lambda: client.command(WRITE, next(new), BLOCK, b"2" * BLOCK)[0] == ENOSPC, 90, "the cluster is full")
                assert client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK)
                assert client.command(TRIM, 4 * MIB, 4 * MIB)[0] == 0
            finally:
                set_full(ceph, 0.95)
            until(lambda: client.command(WRITE, 60 * MIB, BLOCK, b"3" * BLOCK)[0] == 0, 90, "a write succeeds once there is space")
            assert client.command(READ, 60 * MIB, BLOCK) == (0, b"3" * BLOCK)


def test_requests_fail_promptly_when_their_pool_is_deleted_under_load(ceph, tmp_path, nbd):
    ceph.create_pool("doomed")
    image = ceph.create_image("8M", pool="doomed")
    with start_target(ceph, tmp_path, ceph.backend(image)) as target:
        server = nbd(target, "disk")
        said = run("rbd", "-c", ceph.conf, "rm", image, check=False)
        assert said.returncode != 0, "rbd does not remove a served image"
        with Writer(server.socket) as writer:
            until(lambda: len(writer.acknowledged) > 10, 30, "the load runs")
            ceph.ceph("osd", "pool", "delete", "doomed", "doomed", "--yes-i-really-really-mean-it")
            until(lambda: writer.errors > 0, 60, "writes fail")


POLICIES = ["write-through", "write-back", "write-around"]


@contextlib.contextmanager
def cached(ceph, tmp_path, image, policy, **options):
    """A target with the volume `disk` on the image, and two cache engines."""
    with Cluster("tcp", tmp_path, engines=2, volumes={"disk": ceph.backend(image, **options)}) as cluster:
        cluster.policy(policy)
        yield cluster


def check_in_storage(cluster, client, writer) -> None:
    """Checks that all acknowledged writes are in the image, without the cache engines."""
    until(lambda: client.command(FLUSH, 0, 0)[0] == 0, 90, "a flush succeeds")
    until(lambda: cluster.status()["volumes"][0]["dirty_lines"] == 0, 90, "all lines are clean")
    cluster.policy("none")
    writer.check(client)


@pytest.mark.parametrize("policy", POLICIES)
def test_silent_osds_lose_no_data_under_any_policy(ceph, tmp_path, nbd, policy):
    with cached(ceph, tmp_path, ceph.create_image("8M"), policy, osd_timeout=8, away_timeout=300) as cluster:
        server = nbd(cluster.target, "disk")
        with Writer(server.socket) as writer, RawNbd(server.socket, timeout=120) as client:
            until(lambda: len(writer.acknowledged) == Writer.BLOCKS, 60, "the load runs")
            ceph.hang_all()
            try:
                until(lambda: "requests wait for Ceph, the oldest" in volume(cluster)["trouble"], 30, "the wait is shown")
                errors = []
                flush = threading.Thread(target=lambda: errors.append(client.command(FLUSH, 0, 0)[0]))
                flush.start()
                if policy == "write-back":
                    number = writer.number
                    until(lambda: writer.number > number + Writer.BLOCKS, 60, "engines acknowledge writes")
                    assert writer.errors == 0
                else:
                    until(lambda: writer.errors > 0, 60, "a write fails")
                flush.join(60)
                assert errors, "a flush never ended"
                assert policy != "write-back" or errors == [EIO], "a flush fails while only engines hold the data"
            finally:
                ceph.go_on()
            ceph.wait_for_osds(3)
            number = writer.number
            until(lambda: writer.number > number + 2 * Writer.BLOCKS, 120, "the load continues")
            writer.stopping.set()
            writer.thread.join(150)
            check_in_storage(cluster, client, writer)
            until(lambda: volume(cluster)["trouble"] == "", 15, "the end of the wait is shown")


@pytest.mark.parametrize("policy", POLICIES)
def test_full_pool_loses_no_data_under_any_policy(ceph, tmp_path, nbd, policy):
    with cached(ceph, tmp_path, ceph.create_image("64M"), policy) as cluster:
        server = nbd(cluster.target, "disk")
        with Writer(server.socket) as writer, RawNbd(server.socket, timeout=120) as client:
            until(lambda: len(writer.acknowledged) == Writer.BLOCKS, 60, "the load runs")
            set_full(ceph, 0.0001)
            acknowledged = {}
            try:
                for at in range(4 * MIB, 64 * MIB, 512 * KIB):
                    error, _ = client.command(WRITE, at, BLOCK, Writer.content(at))
                    if error == 0:
                        acknowledged[at] = Writer.content(at)
                    # A write that needs space fails at once. If engines have acknowledged writes, the flush fails.
                    if error == ENOSPC or client.command(FLUSH, 0, 0)[0] != 0:
                        break
                    time.sleep(0.5)
                else:
                    pytest.fail("the cluster is not full")
                for at, content in acknowledged.items():
                    assert client.command(READ, at, BLOCK) == (0, content)
            finally:
                set_full(ceph, 0.95)
            writer.stopping.set()
            writer.thread.join(150)
            check_in_storage(cluster, client, writer)
            for at, content in acknowledged.items():
                assert client.command(READ, at, BLOCK) == (0, content)


@pytest.mark.parametrize("policy", POLICIES)
def test_requests_fail_under_any_policy_when_their_pool_is_deleted_under_load(ceph, tmp_path, nbd, policy):
    pool = f"doomed-{policy}"
    ceph.create_pool(pool)
    with cached(ceph, tmp_path, ceph.create_image("8M", pool=pool), policy) as cluster:
        server = nbd(cluster.target, "disk")
        with Writer(server.socket) as writer, RawNbd(server.socket, timeout=120) as client:
            until(lambda: len(writer.acknowledged) > 10, 60, "the load runs")
            ceph.ceph("osd", "pool", "delete", pool, pool, "--yes-i-really-really-mean-it")
            # Cache engines may still acknowledge writes; then the flush must fail.
            until(lambda: writer.errors > 0 or client.command(FLUSH, 0, 0)[0] != 0, 60, "an error")


def test_paused_owner_writes_nothing_when_it_resumes_after_a_takeover(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first:
        with Writer(nbd(first, "disk").socket) as before:
            until(lambda: len(before.acknowledged) > 20, 30, "the load runs")
            pause(first.process)
            # Without steal, the second target waits 30 s until Ceph considers the first one dead.
            second = start_target(ceph, tmp_path / "b", ceph.backend(image, open_timeout=120))
            with second.log.open("wb") as errors:
                second.process = subprocess.Popen(second.command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
            line = second.process.stdout.readline().decode()
            assert line.startswith("wss-target: ready on "), second.log.read_text()
            second.address = line.split()[3].rstrip(",")
            try:
                with RawNbd(nbd(second, "disk").socket) as client:
                    before.check(client)
                    for block in range(Writer.BLOCKS):
                        assert client.command(WRITE, block * BLOCK, BLOCK, Writer.content(1 << 40))[0] == 0
                    acknowledged, in_flight = dict(before.acknowledged), before.number
                    first.process.send_signal(signal.SIGCONT)
                    until(lambda: before.errors > 3, 60, "writes to the first target fail")
                    # One write was in flight when the first target was paused. Ceph may have executed it before the takeover, so it may succeed.
                    later = {block: number for block, number in before.acknowledged.items() if acknowledged.get(block) != number}
                    assert set(later.values()) <= {in_flight}, "the blocklisted target acknowledged no write"
                    for block in range(Writer.BLOCKS):
                        assert client.command(READ, block * BLOCK, BLOCK) == (0, Writer.content(1 << 40))
            finally:
                assert second.stop() == 0


def test_target_that_lost_its_image_serves_no_reads_from_its_engines(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    (tmp_path / "a").mkdir()
    with Cluster("tcp", tmp_path / "a", engines=2, volumes={"disk": ceph.backend(image)}) as first:
        with RawNbd(nbd(first.target, "disk").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and first.counters()["read_hits"] > 0, 30, "a hit")
            pause(first.target.process)
            with start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true")) as second:
                with RawNbd(nbd(second, "disk").socket) as other:
                    assert other.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
            first.target.process.send_signal(signal.SIGCONT)
            # The target checks every second whether it still owns the image.
            until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 10, "reads fail")
            for _ in range(20):
                assert client.command(READ, 0, BLOCK)[0] != 0
                time.sleep(0.1)


def test_opening_and_closing_a_thousand_volumes_leaks_nothing(ceph, tmp_path):
    image = ceph.backend(ceph.create_image("8M"))
    target = Target("tcp://127.0.0.1:0", {"other": "ram:1M"}, tmp_path, "--control", str(tmp_path / "sock"))

    def cycle(times: int) -> None:
        for _ in range(times):
            ask(tmp_path / "sock", "volume.create", name="disk", backend=image)
            ask(tmp_path / "sock", "volume.delete", name="disk")

    def usage() -> tuple[int, int, int]:
        status = dict(line.split(":", 1) for line in open(f"/proc/{target.process.pid}/status", encoding="ascii"))
        return int(status["VmRSS"].split()[0]), int(status["Threads"]), len(os.listdir(f"/proc/{target.process.pid}/fd"))

    with target:
        cycle(100)
        memory, threads, descriptors = usage()
        cycle(900)
        after = usage()
        assert after[0] < memory + 24 * 1024, f"memory grew from {memory} KiB to {after[0]} KiB"
        assert after[1] <= threads + 2 and after[2] <= descriptors + 4, (threads, descriptors, after)


@pytest.mark.parametrize("remote", [False, True], ids=["own", "rs"])
@pytest.mark.parametrize("policy", ["write-through", "write-back", "write-around"])
def test_engines_lose_no_acknowledged_write_when_the_target_is_killed(ceph, tmp_path, nbd, policy, remote):
    backend = ceph.backend(ceph.create_image("16M"), steal="true")
    volumes = {"disk": "rs:disk,size=16M" if remote else backend}
    with Cluster("tcp", tmp_path, engines=2, volumes=volumes) as cluster:
        storage = None
        if remote:
            storage = Target(cluster._address("rs"), {"disk": backend}, tmp_path, "--role", "rs", "--join", cluster.join)
            storage.start()
        try:
            until(lambda: cluster.status()["volumes"], 30, "the volume is served")
            cluster.policy(policy)
            number = 1
            for _ in range(3):
                with Writer(nbd(cluster.target, "disk").socket, number) as writer:
                    until(lambda: len(writer.acknowledged) == Writer.BLOCKS or writer.number > number + 500, 120, "the load runs")
                    cluster.target.kill()
                number = writer.number + Writer.BLOCKS
                cluster.target.start()
                cluster.wait_for_engines(2, 60)
                with RawNbd(nbd(cluster.target, "disk").socket, timeout=120) as client:
                    until(lambda: client.command(READ, 0, BLOCK)[0] == 0, 90, "the volume is served")
                    writer.check(client)
                    assert client.command(FLUSH, 0, 0)[0] == 0
        finally:
            if storage is not None:
                storage.kill()


def test_target_that_lost_its_image_serves_the_data_of_the_other_owner_once_the_volume_is_recreated(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    (tmp_path / "a").mkdir()
    with Cluster("tcp", tmp_path / "a", engines=2, volumes={"other": "ram:1M"}) as first:
        ask(first.control, "volume.create", name="disk", backend=ceph.backend(image))
        with RawNbd(nbd(first.target, "disk").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and first.counters()["read_hits"] > 0, 30, "a hit")
            with start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true")) as second:
                with RawNbd(nbd(second, "disk").socket) as other:
                    assert other.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
            until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 10, "reads fail")
        ask(first.control, "volume.delete", name="disk")
        ask(first.control, "volume.create", name="disk", backend=ceph.backend(image))
        with RawNbd(nbd(first.target, "disk").socket) as client:
            for _ in range(3):
                assert client.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)


def lose_to_another_owner(ceph, tmp_path, nbd, image) -> None:
    """Another target takes the image, writes the first blocks and exits."""
    with start_target(ceph, tmp_path, ceph.backend(image, steal="true")) as second:
        with RawNbd(nbd(second, "disk").socket) as other:
            assert other.command(WRITE, 0, Writer.BLOCKS * BLOCK, b"2" * Writer.BLOCKS * BLOCK)[0] == 0


@pytest.mark.parametrize("policy", ["write-through", "write-around"])
def test_reopened_volume_serves_the_data_of_the_other_owner_and_keeps_its_policy(ceph, tmp_path, nbd, policy):
    image = ceph.create_image("8M")
    (tmp_path / "a").mkdir()
    with Cluster("tcp", tmp_path / "a", engines=2, volumes={"disk": ceph.backend(image)}) as first:
        first.policy(policy)
        with RawNbd(nbd(first.target, "disk").socket) as client:
            with pytest.raises(ControlError, match="has its storage"):
                ask(first.control, "volume.reopen", name="disk")
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and first.counters()["read_hits"] > 0, 30, "a hit")
            before = volume(first)
            with start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true")) as second:
                with RawNbd(nbd(second, "disk").socket) as other:
                    assert other.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
                until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 10, "reads fail")
                until(lambda: volume(first)["trouble"] != "", 10, "the reason is shown")
                with pytest.raises(ControlError, match="the client at 127.0.0.1:0/.* uses it"):
                    ask(first.control, "volume.reopen", name="disk")
                assert client.command(READ, 0, BLOCK)[0] != 0, "a refused reopening changes nothing"
            said = run(BUILD / "wssctl", "--control", first.control, "volume", "reopen", "disk")
            assert "disk" in said.stdout
            after = volume(first)
            assert after["trouble"] == "" and (after["lun"], after["wwid"], after["size"]) == (before["lun"], before["wwid"], before["size"])
            assert first.status()["volumes"][0]["policy"] == policy
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0, 30, "the client that was connected reads again")
            for _ in range(3):
                assert client.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)
            assert client.command(WRITE, 0, BLOCK, b"3" * BLOCK)[0] == 0
            assert client.command(READ, 0, BLOCK) == (0, b"3" * BLOCK)


def test_reopening_with_steal_blocklists_a_live_owner(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first:
        with start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true")) as second:
            with RawNbd(nbd(second, "disk").socket) as other:
                assert other.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
                until(lambda: "blocklisted" in volume(first)["trouble"], 10, "the first target has lost the image")
                ask(first.control, "volume.reopen", name="disk", steal=True)
                assert other.command(WRITE, 0, BLOCK, b"4" * BLOCK)[0] != 0
                with RawNbd(nbd(first, "disk").socket) as client:
                    assert client.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)


def test_only_the_operator_can_give_up_dirty_lines_of_a_lost_volume(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    (tmp_path / "a").mkdir()
    with Cluster("tcp", tmp_path / "a", engines=2, volumes={"disk": ceph.backend(image)}) as first:
        first.policy("write-back")
        server = nbd(first.target, "disk")
        with Writer(server.socket) as writer, RawNbd(server.socket) as client:
            until(lambda: len(writer.acknowledged) == Writer.BLOCKS, 30, "the load runs")
            # Writes that the cache engines acknowledge from now on cannot be destaged.
            lose_to_another_owner(ceph, tmp_path / "b", nbd, image)
            until(lambda: writer.errors > 0, 60, "the load fails")
            until(lambda: "blocklisted" in volume(first)["trouble"], 60, "the volume is lost")
            writer.stopping.set()
            writer.thread.join(60)
            assert first.status()["volumes"][0]["dirty_lines"] > 0
            with pytest.raises(ControlError, match="--give-up-dirty"):
                ask(first.control, "volume.reopen", name="disk")
            assert "blocklisted" in volume(first)["trouble"]
            ask(first.control, "volume.reopen", name="disk", give_up_dirty=True)
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0, 30, "the client reads again")
            assert client.command(READ, 0, Writer.BLOCKS * BLOCK) == (0, b"2" * Writer.BLOCKS * BLOCK)
            assert client.command(FLUSH, 0, 0)[0] != 0, "one flush of the client reports the loss of acknowledged data"
            assert client.command(FLUSH, 0, 0)[0] == 0
            assert first.status()["volumes"][0]["policy"] == "write-back"


def test_target_restarted_after_another_owner_serves_the_data_of_that_owner(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    (tmp_path / "a").mkdir()
    with Cluster("tcp", tmp_path / "a", engines=2, volumes={"disk": ceph.backend(image, steal="true")}) as first:
        with RawNbd(nbd(first.target, "disk").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and first.counters()["read_hits"] > 0, 30, "a hit")
        first.target.kill()
        with start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true")) as second:
            with RawNbd(nbd(second, "disk").socket) as other:
                assert other.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
        first.target.start()
        first.wait_for_engines(2, 60)
        with RawNbd(nbd(first.target, "disk").socket) as client:
            for _ in range(3):
                assert client.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)


@contextlib.contextmanager
def storage_elsewhere(ceph, tmp_path, image, size, engines, **options):
    """A target with the volume `disk`, and a storage process (--role rs) that serves the image for it."""
    with Cluster("tcp", tmp_path, engines=engines, volumes={"disk": f"rs:disk,size={size}"}) as cluster:
        storage = Target(cluster._address("rs"), {"disk": ceph.backend(image, steal="true", **options)}, tmp_path, "--role", "rs", "--join", cluster.join)
        storage.start()
        try:
            yield cluster, storage
        finally:
            storage.kill()


def test_target_whose_storage_process_lost_the_image_serves_no_reads_from_its_engines(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with storage_elsewhere(ceph, tmp_path, image, "8M", engines=2) as (cluster, storage), RawNbd(nbd(cluster.target, "disk").socket) as client:
        until(lambda: client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0, 30, "a write")
        until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and cluster.counters()["read_hits"] > 0, 30, "a hit")
        with start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true")) as second:
            with RawNbd(nbd(second, "disk").socket) as other:
                assert other.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
        assert client.command(WRITE, BLOCK, BLOCK, b"3" * BLOCK)[0] != 0
        until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 10, "reads fail")
        until(lambda: "blocklisted" in volume(cluster)["trouble"], 10, "the reason is shown")
        for _ in range(10):
            assert client.command(READ, 0, BLOCK)[0] != 0
            time.sleep(0.1)
        until(lambda: volume(cluster)["trouble"] == "blocklisted by Ceph: another client took the image", 210, "the volume no longer waits for a process")
        with pytest.raises(ControlError, match="has lost its real storage .*, and no other has joined"):
            ask(cluster.control, "volume.reopen", name="disk")
        # The restarted storage process has a new client. The target uses it only after the operator's command.
        storage.kill()
        storage.start()
        until(lambda: any(engine["state"] == "storage" for engine in cluster.status()["engines"]), 30, "the storage process has joined")
        assert client.command(READ, 0, BLOCK)[0] != 0
        ask(cluster.control, "volume.reopen", name="disk")
        until(lambda: client.command(READ, 0, BLOCK)[0] == 0, 30, "the client reads again")
        assert client.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)


def test_target_whose_storage_process_lost_the_image_and_was_restarted_returns_no_stale_data(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with storage_elsewhere(ceph, tmp_path, image, "8M", engines=2) as (cluster, storage), RawNbd(nbd(cluster.target, "disk").socket) as client:
        until(lambda: client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0, 30, "a write")
        until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and cluster.counters()["read_hits"] > 0, 30, "a hit")
        storage.kill()
        until(lambda: "away" in volume(cluster)["trouble"], 30, "the target shows that its storage process is away")
        with start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true")) as second:
            with RawNbd(nbd(second, "disk").socket) as other:
                assert other.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
        storage.start()
        # Another owner had the image: only the operator can continue.
        until(lambda: "took it" in volume(cluster)["trouble"], 90, "the volume is lost")
        assert client.command(READ, 0, BLOCK)[0] != 0
        until(lambda: "waits" not in volume(cluster)["trouble"], 210, "the volume no longer waits for a successor")
        ask(cluster.control, "volume.reopen", name="disk")
        until(lambda: volume(cluster)["trouble"] == "", 60, "the volume is served again")
        until(lambda: client.command(READ, 0, BLOCK)[0] == 0, 30, "the client reads again")
        assert client.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)
        assert client.command(FLUSH, 0, 0)[0] != 0, "one flush reports the loss"
        with RawNbd(nbd(cluster.target, "disk").socket) as another:
            assert another.command(FLUSH, 0, 0)[0] == 0


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "elsewhere"])
def test_flush_succeeds_despite_dirty_lines_beyond_the_end_of_an_image_that_others_shrink(ceph, tmp_path, nbd, elsewhere):
    image = ceph.create_image("1G")
    with contextlib.ExitStack() as stack:
        if elsewhere:
            cluster, _ = stack.enter_context(storage_elsewhere(ceph, tmp_path, image, "1G", engines=2))
        else:
            cluster = stack.enter_context(Cluster("tcp", tmp_path, engines=2, volumes={"disk": ceph.backend(image)}))
        until(lambda: cluster.status()["volumes"], 30, "the volume is served")
        cluster.policy("write-back")
        client = stack.enter_context(RawNbd(nbd(cluster.target, "disk").socket))
        until(lambda: client.command(WRITE, 0, BLOCK, b"0" * BLOCK)[0] == 0, 30, "a write")
        for at in range(8 * MIB, 1024 * MIB, 4 * MIB):
            assert client.command(WRITE, at, BLOCK, b"1" * BLOCK)[0] == 0
        assert cluster.dirty() > 0
        shrink = subprocess.Popen(["rbd", "-c", str(ceph.conf), "resize", "--no-progress", "--allow-shrink", "--size", "8M", image])
        while shrink.poll() is None:
            assert client.command(FLUSH, 0, 0)[0] == 0
        assert shrink.wait() == 0
        assert client.command(FLUSH, 0, 0)[0] == 0
        until(lambda: volume(cluster)["size"] == 8 * MIB and cluster.dirty() == 0, 30, "the volume takes the new size")
        assert client.command(READ, 0, BLOCK) == (0, b"0" * BLOCK)


def test_volume_of_a_storage_process_follows_the_size_of_its_image(ceph, tmp_path, nbd):
    image = ceph.create_image("16M")
    with storage_elsewhere(ceph, tmp_path, image, "16M", engines=2) as (cluster, _), RawNbd(nbd(cluster.target, "disk").socket) as client:
        until(lambda: client.command(WRITE, 12 * MIB, BLOCK, b"1" * BLOCK)[0] == 0, 30, "a write")
        until(lambda: client.command(READ, 12 * MIB, BLOCK)[0] == 0 and cluster.counters()["read_hits"] > 0, 30, "a hit")
        with pytest.raises(ControlError, match="resize it there"):
            ask(cluster.control, "volume.resize", name="disk", size="8M")
        ceph.rbd("resize", "--allow-shrink", "--size", "8M", image)
        until(lambda: volume(cluster)["size"] == 8 * MIB, 30, "the volume takes the new size")
        assert client.command(READ, 12 * MIB, BLOCK)[0] != 0
        assert client.command(WRITE, 0, BLOCK, b"3" * BLOCK)[0] == 0
        ceph.rbd("resize", "--size", "24M", image)
        until(lambda: volume(cluster)["size"] == 24 * MIB, 30, "the volume takes the new size")
        with RawNbd(nbd(cluster.target, "disk").socket) as larger:
            assert larger.command(READ, 12 * MIB, BLOCK) == (0, bytes(BLOCK)), "removed data does not reappear"
            assert larger.command(WRITE, 20 * MIB, BLOCK, b"4" * BLOCK)[0] == 0
            assert larger.command(READ, 0, BLOCK) == (0, b"3" * BLOCK)
