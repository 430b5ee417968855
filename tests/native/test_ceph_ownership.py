# SPDX-License-Identifier: Apache-2.0
"""Owners of an image that stay alive, die, release the image or are cut off from Ceph, and deleted images. Long; `make check-ceph` runs them."""

import contextlib
import datetime
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from .cache_cluster import Cluster, ControlError, ask, until
from .programs import BUILD, Target, build_shim, pause, run
from .rawnbd import READ, TRIM, WRITE, RawNbd
from .test_ceph import KIB, MIB, refusal, start_target, volume
from .test_ceph_faults import Writer, lose_to_another_owner, storage_elsewhere

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

BLOCK = 4 * KIB
GONE = "is deleted"


@contextlib.contextmanager
def bench(ceph, image, output):
    """Uses librbd as most programs do: it takes the lock at the first write, and releases it when another client requests it."""
    with output.open("wb") as out:
        process = subprocess.Popen(["rbd", "-c", ceph.conf, "bench", "--io-type", "write", "--io-size", "4K", "--io-threads", "1", "--io-total", "40G",
                                    image], stdout=out, stderr=out, stdin=subprocess.DEVNULL)  # fmt: skip
    try:
        until(lambda: len(output.read_text().splitlines()) > 3, 30, "rbd bench writes")
        yield process
    finally:
        process.kill()
        process.wait(10)


def blocklist(ceph) -> dict[str, float]:
    """Returns the blocklisted clients, each with its remaining time in days."""
    entries, _ = json.JSONDecoder().raw_decode(ceph.ceph("osd", "blocklist", "ls", "-f", "json").lstrip())
    now = datetime.datetime.now(datetime.timezone.utc)

    def days(until_when: str) -> float:
        when = datetime.datetime.strptime(until_when, "%Y-%m-%dT%H:%M:%S.%f%z")
        return (when - now).total_seconds() / 86400

    return {entry["addr"]: days(entry["until"]) for entry in entries}


def owner(ceph, image) -> str:
    return json.loads(ceph.rbd("lock", "ls", "--format", "json", image))[0]["address"]


@pytest.mark.parametrize("more", ["", ",ro"], ids=["rw", "ro"])
def test_live_owner_that_would_release_the_lock_on_request_keeps_it_without_steal(ceph, tmp_path, more):
    image = ceph.create_image("64M")
    output = tmp_path / "bench"
    with bench(ceph, image, output) as process:
        said = refusal(ceph, tmp_path / "a", ceph.backend(image) + more)
        assert "the client at 127.0.0.1:0/" in said and "steal=true" in said
        lines = len(output.read_text().splitlines())
        until(lambda: len(output.read_text().splitlines()) > lines + 2, 15, "the owner continues to write")
        assert process.poll() is None


def test_target_locks_an_image_that_it_serves_read_only_and_follows_its_size(ceph, tmp_path, nbd):
    image = ceph.create_image("16M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image) + ",ro") as target, RawNbd(nbd(target, "disk").socket) as client:
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] != 0
        assert "uses it" in refusal(ceph, tmp_path / "b", ceph.backend(image))
        with pytest.raises(AssertionError):
            ceph.rbd("rm", image)
        ceph.rbd("resize", "--allow-shrink", "--size", "8M", image)
        until(lambda: volume(target)["size"] == 8 * MIB, 15, "the volume takes the new size")


def test_reads_of_a_removed_snapshot_fail_even_if_engines_hold_its_data(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path, ceph.backend(image)) as target, RawNbd(nbd(target, "disk").socket) as client:
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
    ceph.rbd("snap", "create", f"{image}@then")
    with Cluster("tcp", tmp_path, engines=1, volumes={"disk": ceph.backend(f"{image}@then") + ",ro"}) as cluster:
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            until(lambda: client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK) and cluster.counters()["read_hits"] > 0, 30, "a hit")
            time.sleep(3)
            assert volume(cluster)["trouble"] == ""
            ceph.rbd("snap", "rm", f"{image}@then")
            until(lambda: GONE in volume(cluster)["trouble"], 10, "the reason is shown")
            until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 5, "reads fail")


@pytest.mark.parametrize("data_pool", [False, True], ids=["one", "two"])
def test_volume_of_a_deleted_pool_never_reads_as_zeroes(ceph, tmp_path, nbd, data_pool):
    pool = f"gone-{data_pool}"
    ceph.create_pool(pool)
    image = ceph.create_image("8M", *(["--data-pool", pool] if data_pool else []), pool="rbd" if data_pool else pool)
    pattern = b"w" * BLOCK
    with start_target(ceph, tmp_path, ceph.backend(image)) as target, RawNbd(nbd(target, "disk").socket, timeout=120) as client:
        for at in range(0, 8 * MIB, 4 * MIB):
            assert client.command(WRITE, at, BLOCK, pattern)[0] == 0
        answers, stopping = [], threading.Event()

        def read() -> None:
            while not stopping.is_set():
                answers.append(client.command(READ, 4 * MIB, BLOCK))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            ceph.ceph("osd", "pool", "delete", pool, pool, "--yes-i-really-really-mean-it")
            until(lambda: GONE in volume(target)["trouble"], 60, "the loss is shown")
            time.sleep(1)
        finally:
            stopping.set()
            reader.join(60)
        assert not reader.is_alive()
        assert all(data == pattern for error, data in answers if error == 0), "reads returned zeroes instead of the deleted data"
        assert answers[-1][0] != 0


# Kills the process as soon as the lock is broken, or when the former owner is blocklisted again.
DIES = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <unistd.h>
static int broken;
int rados_blocklist_add(void* cluster, char* address, uint32_t seconds) {
    if (broken) _exit(9);
    return ((int (*)(void*, char*, uint32_t))dlsym(dlopen("librados.so.2", RTLD_LAZY), "rados_blocklist_add"))(cluster, address, seconds);
}
int rbd_lock_break(void* image, int mode, const char* owner) {
    broken = 1;
    return ((int (*)(void*, int, const char*))dlsym(dlopen("librbd.so.1", RTLD_LAZY), "rbd_lock_break"))(image, mode, owner);
}
int rados_break_lock(void* pool, const char* object, const char* name, const char* client, const char* cookie) {
    int result = ((int (*)(void*, const char*, const char*, const char*, const char*))dlsym(dlopen("librados.so.2", RTLD_LAZY), "rados_break_lock"))(pool, object, name, client, cookie);
    if (result == 0) _exit(9);
    return result;
}
"""


def test_former_owner_is_blocklisted_for_a_month_even_if_the_next_owner_dies_after_it_broke_the_lock(ceph, tmp_path):
    image = ceph.create_image("8M")
    shim = build_shim(tmp_path, DIES)
    first = start_target(ceph, tmp_path / "a", ceph.backend(image)).start()
    try:
        former = owner(ceph, image)
        pause(first.process)
        second = start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true"))
        done = subprocess.run(second.command, env=os.environ | {"LD_PRELOAD": str(shim)}, capture_output=True, timeout=60)
        assert done.returncode == 9, done.stderr
        assert json.loads(ceph.rbd("lock", "ls", "--format", "json", image) or "[]") == []
        with start_target(ceph, tmp_path / "c", ceph.backend(image)):
            shut_out = blocklist(ceph)
            assert former in shut_out and shut_out[former] > 29, shut_out
    finally:
        first.kill()


@pytest.mark.parametrize("name, value", [("rbd_cache", "1"), ("rbd_cache", "True"), ("rbd_cache", "TRUE"), ("rbd_cache", "2"),
                                         ("rbd_persistent_cache_mode", "ssd"), ("rbd_blocklist_on_break_lock", "false"),
                                         ("rbd_blocklist_on_break_lock", "0"), ("rbd_blocklist_expire_seconds", "5")])  # fmt: skip
def test_target_refuses_an_image_with_a_setting_that_could_lose_writes(ceph, tmp_path, name, value):
    image = ceph.create_image("8M")
    ceph.rbd("image-meta", "set", image, f"conf_{name}", value)
    assert f"{name} = {value}" in refusal(ceph, tmp_path, ceph.backend(image))


def test_target_serves_an_image_that_disables_the_cache(ceph, tmp_path):
    for value in ("false", "False", "0"):
        image = ceph.create_image("8M")
        ceph.rbd("image-meta", "set", image, "conf_rbd_cache", value)
        with start_target(ceph, tmp_path / value, ceph.backend(image)):
            pass


def test_target_treats_invalid_owner_metadata_as_that_of_another_owner(ceph, tmp_path):
    image = ceph.create_image("8M")
    with Cluster("tcp", tmp_path, engines=2, volumes={"disk": ceph.backend(image)}) as cluster:
        cluster.policy("write-back")
        cluster.target.stop()
        name, number = ceph.rbd("image-meta", "get", image, "wss_owner").split()
        foul = ["rbd", "-c", str(ceph.conf), "image-meta", "set", image, "wss_owner", name.encode() + b" \xff\xfe"]
        subprocess.run(foul, check=True, timeout=60)
        cluster.target.start()
        cluster.wait_for_engines(2, 60)
        again = ceph.rbd("image-meta", "get", image, "wss_owner").split()
        assert again[0] == name and again[1] != number and len(again[1]) == len(number), again


@pytest.mark.parametrize("dead", [False, True], ids=["stolen", "dead"])
def test_former_owner_is_blocklisted_for_a_month(ceph, tmp_path, dead):
    image = ceph.create_image("8M")
    keyring = ceph.user("taker", "mon", "profile rbd", "osd", "profile rbd")
    first = start_target(ceph, tmp_path / "a", ceph.backend(image)).start()
    try:
        former = owner(ceph, image)
        pause(first.process)
        if dead:
            until(lambda: former not in ceph.rbd("status", image), 60, "Ceph considers it dead")
        options = {} if dead else {"steal": "true"}
        with start_target(ceph, tmp_path / "b", ceph.backend(image, id="taker", keyring=keyring, **options)) as second:
            shut_out = blocklist(ceph)
            assert former in shut_out and shut_out[former] > 29, shut_out
            assert owner(ceph, image) != former
            if not dead:
                assert "steal=true" in second.log.read_text()
    finally:
        first.kill()


def test_reopening_ignores_steal_of_the_specification(ceph, tmp_path):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image, steal="true")) as first:
        with start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true")) as second:
            until(lambda: "blocklisted" in volume(first)["trouble"], 2, "the first target has lost the image")
            with pytest.raises(ControlError, match="uses it"):
                ask(first.control, "volume.reopen", name="disk")
            assert volume(second)["trouble"] == ""


def test_target_without_requests_shows_an_outage_of_ceph_until_ceph_returns(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path, ceph.backend(image, away_timeout=7)) as target:
        with RawNbd(nbd(target, "disk").socket, timeout=120) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            ceph.hang_all()
            try:
                until(lambda: "has not answered for" in volume(target)["trouble"], 12, "the silence is shown")
                until(lambda: "another client may have taken" in volume(target)["trouble"], 12, "the target warns that it may have lost the image")
            finally:
                ceph.go_on()
            ceph.wait_for_osds(3)
            until(lambda: volume(target)["trouble"] == "", 60, "the volume has recovered")
            assert client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK)


def test_target_that_is_cut_off_from_ceph_serves_no_reads_from_its_engines(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with Cluster("tcp", tmp_path, engines=2, volumes={"disk": ceph.backend(image, away_timeout=7, osd_timeout=5)}) as cluster:
        with RawNbd(nbd(cluster.target, "disk").socket, timeout=120) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and cluster.counters()["read_hits"] > 0, 30, "a hit")
            ceph.hang_all()
            try:
                until(lambda: "another client may have taken" in volume(cluster)["trouble"], 30, "the target warns that it may have lost the image")
                until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 30, "reads fail even if engines hold their data")
            finally:
                ceph.go_on()
            ceph.wait_for_osds(3)
            until(lambda: volume(cluster)["trouble"] == "", 60, "the volume has recovered")
            until(lambda: client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK), 30, "reads are answered")
            hits = cluster.counters()["read_hits"]
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and cluster.counters()["read_hits"] > hits, 30, "reads hit again")


def test_target_whose_storage_process_is_cut_off_from_ceph_serves_no_reads_from_its_engines(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with storage_elsewhere(ceph, tmp_path, image, "8M", engines=2, away_timeout=7, osd_timeout=5) as (cluster, _):
        with RawNbd(nbd(cluster.target, "disk").socket, timeout=120) as client:
            until(lambda: client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0, 30, "a write")
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and cluster.counters()["read_hits"] > 0, 30, "a hit")
            ceph.hang_all()
            try:
                until(lambda: "another client may have taken" in volume(cluster)["trouble"], 30, "the target warns that it may have lost the image")
                until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 30, "reads fail even if engines hold their data")
            finally:
                ceph.go_on()
            ceph.wait_for_osds(3)
            until(lambda: volume(cluster)["trouble"] == "", 60, "the volume has recovered")
            until(lambda: client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK), 30, "reads are answered")


@pytest.mark.parametrize("between", ["target", "anew", "nobody"])
def test_restarted_target_destages_dirty_lines_only_if_the_image_had_no_other_owner(ceph, tmp_path, nbd, between):
    image = ceph.create_image("8M")
    (tmp_path / "a").mkdir()
    with Cluster("tcp", tmp_path / "a", engines=2, volumes={"disk": ceph.backend(image, steal="true")}) as first:
        first.policy("write-back")
        with Writer(nbd(first.target, "disk").socket) as writer:
            until(lambda: len(writer.acknowledged) == Writer.BLOCKS, 30, "the load runs")
            first.target.kill()
        if between == "anew":
            until(lambda: "Watchers: none" in ceph.rbd("status", image), 60, "Ceph considers the target dead")
            ceph.rbd("rm", image)
            ceph.rbd("create", "--size", "8M", image)
        if between != "nobody":
            lose_to_another_owner(ceph, tmp_path / "b", nbd, image)
            first.target.start()
            first.wait_for_engines(2, 60)
            assert "taken by another owner, or deleted" in first.target.log.read_text()
            assert first.target.stop() in (0, 1)
            ceph.rbd("export", image, tmp_path / "out")
            assert (tmp_path / "out").read_bytes()[:Writer.BLOCKS * BLOCK] == b"2" * Writer.BLOCKS * BLOCK
            return
        first.target.start()
        first.wait_for_engines(2, 60)
        with RawNbd(nbd(first.target, "disk").socket) as client:
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0, 60, "the volume is served")
            writer.check(client)


@pytest.mark.parametrize("restarts", [False, True], ids=["serves", "restarts"])
@pytest.mark.parametrize("other", [False, True], ids=["nobody", "other"])
def test_dirty_lines_are_destaged_to_a_storage_process_only_if_the_image_had_no_other_owner(ceph, tmp_path, nbd, other, restarts):
    image = ceph.create_image("8M")
    with storage_elsewhere(ceph, tmp_path, image, "8M", engines=2) as (cluster, storage):
        until(lambda: cluster.status()["volumes"], 30, "the volume is served")
        cluster.policy("write-back")
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            until(lambda: client.command(WRITE, 0, BLOCK, b"0" * BLOCK)[0] == 0, 30, "a write")
            storage.kill()
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            assert cluster.dirty() > 0
        if other:
            lose_to_another_owner(ceph, tmp_path / "b", nbd, image)
        if restarts:
            cluster.target.kill()
            cluster.target.start()
            cluster.wait_for_engines(2, 60)
        storage.start()
        if not other:
            until(lambda: cluster.dirty() == 0, 60, "the dirty lines are destaged")
            return
        until(lambda: "another owner had its real storage" in volume(cluster)["trouble"], 30, "the reason is shown")
        time.sleep(2)
        ceph.rbd("export", image, tmp_path / "out")
        assert (tmp_path / "out").read_bytes()[:BLOCK] == b"2" * BLOCK
        ask(cluster.control, "volume.reopen", name="disk", give_up_dirty=True)
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            until(lambda: client.command(READ, 0, BLOCK) == (0, b"2" * BLOCK), 30, "the volume is served")


def test_volume_whose_cluster_is_down_at_start_is_shown_and_can_be_opened_when_the_cluster_returns(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with Cluster("tcp", tmp_path, engines=2, volumes={"other": "ram:1M"}) as cluster:
        ask(cluster.control, "volume.create", name="disk", backend=ceph.backend(image, mount_timeout=3, steal="true"))
        cluster.policy("write-back")
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        cluster.target.kill()
        ceph.hang_all()
        pause(ceph.daemons["mon.a"])
        try:
            cluster.target.start()
            closed = next(v for v in ask(cluster.control, "volume.list") if v["name"] == "disk")
            assert closed["state"] == "closed" and "no monitor answered" in closed["trouble"]
            with pytest.raises(ControlError, match="no monitor answered"):
                ask(cluster.control, "volume.reopen", name="disk")
        finally:
            ceph.go_on()
        cluster.wait_for_engines(2, 60)
        until(lambda: run(BUILD / "wssctl", "--control", cluster.control, "volume", "reopen", "disk", check=False).returncode == 0, 60, "the volume is reopened")
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK), "the acknowledged write is kept"


def test_opening_that_timed_out_takes_no_image(ceph, tmp_path):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first:
        target = Target("tcp://127.0.0.1:0", {"other": "ram:1M"}, tmp_path, "--control", str(tmp_path / "sock"))
        with target:
            ceph.hang_all()
            try:
                with pytest.raises(ControlError, match="open_timeout"):
                    ask(tmp_path / "sock", "volume.create", name="disk", backend=ceph.backend(image, steal="true", open_timeout=3, osd_timeout=30))
            finally:
                ceph.go_on()
            ceph.wait_for_osds(3)
            time.sleep(10)
            assert volume(first)["trouble"] == ""


def test_unresponsive_images_are_closed_in_parallel(ceph, tmp_path):
    volumes = {f"disk{number}": ceph.backend(ceph.create_image("8M"), osd_timeout=60, close_timeout=8) for number in range(4)}
    target = Target("tcp://127.0.0.1:0", volumes, tmp_path, "--drain-seconds", "5").start()
    try:
        ceph.hang_all()
        started = time.monotonic()
        target.process.send_signal(signal.SIGTERM)
        status = target.process.wait(60)
        assert time.monotonic() - started < 20 and status == 0, target.log.read_text()
        assert target.log.read_text().count("abandoned") == 4
    finally:
        ceph.go_on()
        target.kill()
    ceph.wait_for_osds(3)


def test_stop_does_not_wait_for_a_resize_that_ceph_does_not_answer(ceph, tmp_path):
    target = start_target(ceph, tmp_path, ceph.backend(ceph.create_image("8M"), osd_timeout=300, close_timeout=5)).start()
    try:
        ceph.hang_all()

        def resize() -> None:
            with contextlib.suppress(AssertionError, OSError):
                ask(target.control, "volume.resize", timeout=300, name="disk", size="16M")

        threading.Thread(target=resize, daemon=True).start()
        time.sleep(2)
        started = time.monotonic()
        target.process.send_signal(signal.SIGTERM)
        assert target.process.wait(60) == 0, target.log.read_text()
        assert time.monotonic() - started < 25
    finally:
        ceph.go_on()
        target.kill()
    ceph.wait_for_osds(3)


def test_start_that_waits_for_silent_images_ends_when_the_target_is_stopped(ceph, tmp_path):
    target = start_target(ceph, tmp_path, "ram:1M", "--state", str(tmp_path / "state.json"))
    with target:
        for number in range(2):
            ask(target.control, "volume.create", name=f"image{number}", backend=ceph.backend(ceph.create_image("8M"), open_timeout=60))
    ceph.hang_all()
    try:
        with target.log.open("wb") as errors:
            starting = subprocess.Popen(target.command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
        time.sleep(3)
        assert starting.poll() is None, "the start waits for Ceph"
        started = time.monotonic()
        starting.send_signal(signal.SIGTERM)
        said, _ = starting.communicate(timeout=60)
        assert starting.returncode == 0 and time.monotonic() - started < 10 and b"ready" not in said, target.log.read_text()
    finally:
        ceph.go_on()
    ceph.wait_for_osds(3)
    with target:
        assert {one["name"] for one in ask(target.control, "volume.list")} == {"disk", "image0", "image1"}


def test_writes_fail_within_the_limit_while_all_osds_are_silent(ceph, tmp_path, nbd):
    # Without an object map, because its updates are operations with their own time limits.
    image = ceph.create_image("128M", "--image-feature", "layering,exclusive-lock")
    with start_target(ceph, tmp_path, ceph.backend(image, osd_timeout=6)) as target, contextlib.ExitStack() as stack:
        server = nbd(target, "disk")
        # The target has buffers for this number of clients. A request that waits for a buffer would not reach Ceph.
        clients = [stack.enter_context(RawNbd(server.socket, timeout=90)) for _ in range(6)]
        assert clients[0].command(WRITE, 0, MIB, b"0" * MIB)[0] == 0
        times = []

        def write(number: int) -> None:
            for turn in range(5):
                started = time.monotonic()
                clients[number].command(WRITE, (5 * number + turn) * MIB, MIB, b"1" * MIB)
                times.append(time.monotonic() - started)

        ceph.hang_all()
        try:
            threads = [threading.Thread(target=write, args=(number,), daemon=True) for number in range(6)]
            for thread in threads:
                thread.start()
            deadline = time.monotonic() + 50
            for thread in threads:
                thread.join(max(0, deadline - time.monotonic()))
        finally:
            ceph.go_on()
        assert len(times) == 30, f"{30 - len(times)} writes have not completed; {sorted(times)[-3:]}"
        assert max(times) < 6 + 5, sorted(times)[-3:]
    ceph.wait_for_osds(3)


def test_target_limits_the_concurrent_operations_of_a_discard_of_small_objects(ceph, tmp_path, nbd):
    image = ceph.create_image("256M", "--object-size", "8K", "--image-feature", "layering,exclusive-lock")
    with start_target(ceph, tmp_path, ceph.backend(image, osd_timeout=60)) as target, RawNbd(nbd(target, "disk").socket, timeout=120) as client:
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        ceph.hang_all()
        try:
            discard = threading.Thread(target=client.command, args=(TRIM, 0, 128 * MIB), daemon=True)
            discard.start()
            time.sleep(3)
            sockets = list((ceph.folder / "run").glob(f"client.admin.{target.process.pid}*.asok"))
            assert sockets, list((ceph.folder / "run").iterdir())
            counts = []
            for path in sockets:
                said = subprocess.run(["ceph", "--admin-daemon", str(path), "objecter_requests"], capture_output=True, text=True, timeout=30, check=True)
                counts.append(len(json.loads(said.stdout)["ops"]))
            assert 0 < max(counts) <= 80, counts
        finally:
            ceph.go_on()
        ceph.wait_for_osds(3)
        discard.join(100)
        assert not discard.is_alive() and client.command(READ, 0, BLOCK) == (0, bytes(BLOCK))
