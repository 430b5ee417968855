# SPDX-License-Identifier: Apache-2.0
"""Images that lose their lock without a blocklist entry, are resized to 0 bytes, or are opened twice. Long; `make check-ceph` runs them."""

import contextlib
import json
import os
import re
import signal
import threading
import time

import pytest

from .cache_cluster import Cluster, ControlError, ask, until
from .programs import TARGET, build_shim, run
from .rawnbd import READ, WRITE, RawNbd
from .test_ceph import KIB, MIB, refusal, start_target, volume

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

BLOCK = 4 * KIB
TAKEN = "exclusive lock was taken away"


def disable_the_lock(ceph, image) -> None:
    ceph.rbd("feature", "disable", image, "object-map", "fast-diff", "exclusive-lock")


def disable_and_enable_the_lock(ceph, image) -> None:
    disable_the_lock(ceph, image)
    ceph.rbd("feature", "enable", image, "exclusive-lock")


def remove_the_lock_alone(ceph, image) -> None:
    lock = json.loads(ceph.rbd("lock", "ls", "--format", "json", image))[0]
    ceph.rbd("--rbd_blocklist_on_break_lock=false", "lock", "rm", image, lock["id"], lock["locker"])


@pytest.mark.parametrize("take_away", [disable_the_lock, disable_and_enable_the_lock, remove_the_lock_alone])
def test_target_detects_that_its_lock_was_removed_without_a_blocklist_entry(ceph, tmp_path, nbd, take_away):
    image = ceph.create_image("8M")
    with Cluster("tcp", tmp_path, engines=1, volumes={"disk": ceph.backend(image)}) as cluster:
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            until(lambda: client.command(READ, 0, BLOCK)[0] == 0 and cluster.counters()["read_hits"] > 0, 30, "a hit")
            take_away(ceph, image)
            until(lambda: TAKEN in volume(cluster)["trouble"], 10, "the reason is shown")
            until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 5, "reads fail even if engines hold their data")
            assert client.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] != 0


def test_target_whose_lock_was_removed_does_not_write_concurrently_with_the_next_owner(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first, RawNbd(nbd(first, "disk").socket) as client:
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        remove_the_lock_alone(ceph, image)
        with start_target(ceph, tmp_path / "b", ceph.backend(image)) as second, RawNbd(nbd(second, "disk").socket) as other:
            until(lambda: TAKEN in volume(first)["trouble"], 10, "the first target has lost the image")
            assert other.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
            assert client.command(WRITE, 0, BLOCK, b"3" * BLOCK)[0] != 0
            assert other.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)
            until(lambda: "is blocklisted" in first.log.read_text(), 15, "the client of the first target is blocklisted")
            with pytest.raises(ControlError, match="uses it"):
                ask(first.control, "volume.reopen", name="disk")
        ask(first.control, "volume.reopen", name="disk")
        with RawNbd(nbd(first, "disk").socket) as again:
            assert again.command(READ, 0, BLOCK) == (0, b"2" * BLOCK)


@pytest.mark.parametrize("end", ["delete", "stop"])
def test_target_that_cannot_blocklist_its_own_client_reports_that_and_stops_cleanly(ceph, tmp_path, nbd, end):
    image = ceph.create_image("8M")
    keyring = ceph.user(f"reader-{end}", "mon", "allow r", "osd", "allow rwx pool=rbd")
    with start_target(ceph, tmp_path, ceph.backend(image, id=f"reader-{end}", keyring=keyring)) as target:
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        remove_the_lock_alone(ceph, image)
        until(lambda: "cannot be blocklisted" in volume(target)["trouble"], 20, "the reason is shown")
        assert "this client cannot be blocklisted, and could continue to write" in target.log.read_text()
        if end == "delete":
            ask(target.control, "volume.delete", name="disk")
            assert ask(target.control, "volume.list") == []
        target.process.send_signal(signal.SIGTERM)
        assert target.process.wait(60) == 0


def test_image_resized_to_zero_is_lost_and_can_be_reopened_once_it_has_a_size(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with Cluster("tcp", tmp_path, engines=2, volumes={"disk": ceph.backend(image)}) as cluster:
        cluster.policy("write-back")
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            ceph.rbd("resize", "--no-progress", "--allow-shrink", "--size", "0", image)
            until(lambda: "resized to 0 bytes" in volume(cluster)["trouble"], 10, "the reason is shown")
            until(lambda: client.command(READ, 0, BLOCK)[0] != 0, 5, "reads fail")
        # The error must not be "uses it": the target's own former client is not another owner.
        until(lambda: "the image is empty" in refusal_of_reopening(cluster), 15, "the refusal gives the reason")
        ceph.rbd("resize", "--no-progress", "--size", "8M", image)
        ask(cluster.control, "volume.reopen", name="disk", give_up_dirty=True)
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(READ, 0, BLOCK) == (0, bytes(BLOCK))
            assert client.command(WRITE, 0, BLOCK, b"2" * BLOCK)[0] == 0
        assert volume(cluster)["trouble"] == ""


def empty_it(ceph, image) -> None:
    ceph.rbd("resize", "--no-progress", "--allow-shrink", "--size", "0", image)


@pytest.mark.parametrize("size", [4, 16])
@pytest.mark.parametrize("lose", [empty_it, remove_the_lock_alone, disable_and_enable_the_lock])
def test_volume_that_covered_its_whole_image_covers_it_again_when_reopened_after_a_loss(ceph, tmp_path, lose, size):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path, ceph.backend(image)) as target:
        lose(ceph, image)
        until(lambda: volume(target)["trouble"] != "", 10, "the volume is lost")
        ceph.rbd("resize", "--no-progress", "--allow-shrink", "--size", f"{size}M", image)
        time.sleep(3)  # time in which the former client could detect the change
        ask(target.control, "volume.reopen", name="disk")
        assert volume(target)["size"] == size * MIB and volume(target)["trouble"] == ""


def refusal_of_reopening(cluster) -> str:
    with pytest.raises(ControlError) as refused:
        ask(cluster.control, "volume.reopen", name="disk", give_up_dirty=True)
    return str(refused.value)


def resize(target, size: str, timeout: float = 60) -> str:
    """Returns the error of a resize; empty: it succeeded."""
    try:
        ask(target.control, "volume.resize", timeout=timeout, name="disk", size=size)
    except ControlError as error:
        return str(error)
    return ""


def image_size(ceph, image) -> int:
    return json.loads(ceph.rbd("info", "--format", "json", image))["size"]


@contextlib.contextmanager
def silent_beyond(ceph, client, osd: int, offset: int):
    """While this is active, Ceph does not answer the removal of objects beyond the offset."""
    for at in range(offset, 16 * MIB, 4 * MIB):
        assert client.command(WRITE, at, BLOCK, b"1" * BLOCK)[0] == 0
    ceph.hang(osd)
    try:
        yield
    finally:
        ceph.go_on()
        ceph.wait_for_osds(3)


def test_shrink_that_ceph_did_not_answer_can_be_repeated_after_a_restart(ceph, tmp_path, nbd):
    image, osd = ceph.create_image_apart("16M", 8 * MIB)
    state = ("--state", str(tmp_path / "state.json"))
    target = start_target(ceph, tmp_path / "a", ceph.backend(image, resize_timeout=3), *state).start()
    try:
        with RawNbd(nbd(target, "disk").socket) as client, silent_beyond(ceph, client, osd, 8 * MIB):
            assert re.search("resize_timeout.*continuing in the background", resize(target, "8M"))
            assert "is still in progress" in resize(target, "8M")
            stored = json.loads((tmp_path / "state.json").read_text())["volumes"]
            assert any(one.get("cut_from") for one in stored), stored
            target.kill()
        target = start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true"), *state).start()
        assert volume(target)["size"] == 8 * MIB and image_size(ceph, image) == 16 * MIB
        assert "shrinks the storage" in target.log.read_text()
        assert "shrinks its storage first" in resize(target, "16M")
        assert resize(target, "8M") == "" and image_size(ceph, image) == 8 * MIB
        assert resize(target, "16M") == ""
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(READ, 12 * MIB, BLOCK) == (0, bytes(BLOCK)), "removed data does not reappear"
    finally:
        target.kill()


def test_unfinished_shrink_removes_no_data_that_another_owner_has_written_since(ceph, tmp_path, nbd):
    image, osd = ceph.create_image_apart("16M", 8 * MIB)
    state = ("--state", str(tmp_path / "state.json"))
    target = start_target(ceph, tmp_path / "a", ceph.backend(image, resize_timeout=3), *state).start()
    try:
        with RawNbd(nbd(target, "disk").socket) as client, silent_beyond(ceph, client, osd, 8 * MIB):
            assert "resize_timeout" in resize(target, "8M")
            target.kill()
        with start_target(ceph, tmp_path / "b", ceph.backend(image, steal="true")) as second, RawNbd(nbd(second, "disk").socket) as other:
            assert other.command(WRITE, 12 * MIB, BLOCK, b"2" * BLOCK)[0] == 0
        target = start_target(ceph, tmp_path / "c", ceph.backend(image, steal="true"), *state).start()
        assert "another owner has had its storage since a shrink" in target.log.read_text()
        assert volume(target)["size"] == 8 * MIB and image_size(ceph, image) == 16 * MIB
        assert resize(target, "16M") == ""
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(READ, 12 * MIB, BLOCK) == (0, b"2" * BLOCK)
    finally:
        target.kill()


def test_shrink_that_ceph_answers_late_completes_and_is_not_repeated_after_a_restart(ceph, tmp_path, nbd):
    image, osd = ceph.create_image_apart("16M", 8 * MIB)
    state = ("--state", str(tmp_path / "state.json"))
    with start_target(ceph, tmp_path / "a", ceph.backend(image, resize_timeout=3), *state) as target:
        with RawNbd(nbd(target, "disk").socket) as client, silent_beyond(ceph, client, osd, 8 * MIB):
            assert "continuing in the background" in resize(target, "8M")
        until(lambda: "had outlasted its command" in target.log.read_text(), 30, "the shrink ends")
        assert volume(target)["size"] == 8 * MIB and image_size(ceph, image) == 8 * MIB
    ceph.rbd("resize", "--no-progress", "--size", "16M", image)
    with start_target(ceph, tmp_path / "b", ceph.backend(image), *state) as target:
        assert volume(target)["size"] == image_size(ceph, image) == 16 * MIB


def test_growth_that_ceph_answers_late_completes_and_the_volume_then_follows_its_image(ceph, tmp_path):
    image = ceph.create_image("16M")
    with start_target(ceph, tmp_path, ceph.backend(image, resize_timeout=3)) as target:
        ceph.hang_all()
        try:
            assert "continuing in the background" in resize(target, "24M")
        finally:
            ceph.go_on()
        ceph.wait_for_osds(3)
        until(lambda: volume(target)["size"] == 24 * MIB, 30, "the growth ends")
        ceph.rbd("resize", "--no-progress", "--size", "32M", image)
        until(lambda: volume(target)["size"] == 32 * MIB, 10, "the volume takes the new size")


def test_shrink_is_refused_while_ceph_is_silent(ceph, tmp_path, nbd):
    """A resize that has not begun cannot be executed late."""
    image = ceph.create_image("16M")
    with start_target(ceph, tmp_path, ceph.backend(image, resize_timeout=3)) as target:
        ceph.hang_all()
        try:
            assert "resize_timeout" in resize(target, "8M")
            assert volume(target)["size"] == 16 * MIB
        finally:
            ceph.go_on()
        ceph.wait_for_osds(3)
        assert resize(target, "8M") == ""


# Environment variables of the shim:
# STOP: the process with this id is paused when the client has read the lock's owner for the second time.
# STOP_LATE: the process with this id is paused when the monitors have blocklisted a client.
# SILENT: blocklist commands are not sent, and return after SILENT seconds.
# UNWATCHED: the first list of the image's watchers is empty.
# LATE: Ceph does not answer the read of the image's features.
# HELD: after the exclusive lock is taken, the file HELD is created, and the call returns 3 s later.
# REFUSED: while this file exists, each answer of an OSD is an error.
# SLEPT: while this file exists, the machine appears to have been suspended for a minute.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static void stop(const char* process) {
    char command[200];
    kill(atoi(process), SIGSTOP);
    // Waits for all of its threads: on a busy machine they keep running for a while.
    snprintf(command, sizeof command, "while cat /proc/%s/task/*/status | grep State: | grep -qv T; do sleep 0.01; done", process);
    if (system(command) != 0) abort();
}
int rbd_lock_get_owners(void* image, void* mode, char** owners, size_t* count) {
    int result = ((int (*)(void*, void*, char**, size_t*))dlsym(dlopen("librbd.so.1", RTLD_LAZY), "rbd_lock_get_owners"))(image, mode, owners, count);
    static int looks;
    if (getenv("STOP") && result == 0 && ++looks == 2) stop(getenv("STOP"));
    return result;
}
int rbd_watchers_list(void* image, void* watchers, size_t* count) {
    static int looks;
    if (getenv("UNWATCHED") && ++looks == 1) return *count = 0;
    return ((int (*)(void*, void*, size_t*))dlsym(dlopen("librbd.so.1", RTLD_LAZY), "rbd_watchers_list"))(image, watchers, count);
}
int rados_mon_command(void* cluster, const char** command, size_t count, const char* in, size_t in_bytes, char** out, size_t* out_bytes,
                      char** status, size_t* status_bytes) {
    if (getenv("SILENT") && strstr(command[0], "osd blocklist")) return sleep(atoi(getenv("SILENT")));
    return ((int (*)(void*, const char**, size_t, const char*, size_t, char**, size_t*, char**, size_t*))dlsym(
        dlopen("librados.so.2", RTLD_LAZY), "rados_mon_command"))(cluster, command, count, in, in_bytes, out, out_bytes, status, status_bytes);
}
int rados_wait_for_latest_osdmap(void* cluster) {
    if (getenv("STOP_LATE")) stop(getenv("STOP_LATE"));
    return ((int (*)(void*))dlsym(dlopen("librados.so.2", RTLD_LAZY), "rados_wait_for_latest_osdmap"))(cluster);
}
int rbd_get_features(void* image, uint64_t* features) {
    if (getenv("LATE")) return -ETIMEDOUT;
    return ((int (*)(void*, uint64_t*))dlsym(dlopen("librbd.so.1", RTLD_LAZY), "rbd_get_features"))(image, features);
}
int rbd_lock_acquire(void* image, int mode) {
    int result = ((int (*)(void*, int))dlsym(dlopen("librbd.so.1", RTLD_LAZY), "rbd_lock_acquire"))(image, mode);
    if (getenv("HELD") && result == 0) {
        fclose(fopen(getenv("HELD"), "w"));
        sleep(3);
    }
    return result;
}
int clock_gettime(clockid_t which, struct timespec* time) {
    int result = syscall(SYS_clock_gettime, which, time);
    if (which == CLOCK_BOOTTIME && getenv("SLEPT") && access(getenv("SLEPT"), F_OK) == 0) time->tv_sec += 60;
    return result;
}
int rados_aio_get_return_value(void* completion) {
    if (getenv("REFUSED") && access(getenv("REFUSED"), F_OK) == 0) return -EPERM;
    return ((int (*)(void*))dlsym(dlopen("librados.so.2", RTLD_LAZY), "rados_aio_get_return_value"))(completion);
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"), SHIM)


def with_shim(target, shim, **environment):
    target.command = ["env", f"LD_PRELOAD={shim}", *(f"{name}={value}" for name, value in environment.items()), *target.command]
    return target


@pytest.mark.parametrize("role", ["block", "rs"])
@pytest.mark.parametrize("wrong", ["missing", "used", "locked", "aio", "ram", "snapshot", "twice", "create", "larger"])
def test_start_that_fails_at_a_later_volume_takes_no_image(ceph, tmp_path, nbd, role, wrong):
    image, locked = ceph.create_image("8M"), ceph.create_image("8M")
    ceph.rbd("lock", "add", locked, "mine")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first, RawNbd(nbd(first, "disk").socket) as client:
        used = ceph.create_image("8M")
        ask(first.control, "volume.create", name="used", backend=ceph.backend(used))
        free = ceph.create_image("8M")
        ceph.rbd("snap", "create", f"{free}@s")
        last = {"missing": ceph.backend("rbd/nobodys"), "used": ceph.backend(used), "locked": ceph.backend(locked, steal="true"),
                "aio": f"aio:{tmp_path}/nothing/disk,size=1M,create", "ram": "ram:1000", "snapshot": ceph.backend(f"{free}@s"),
                "twice": ceph.backend(image, id="admin"), "create": ceph.backend(free) + ",create", "larger": ceph.backend(free) + ",size=16M,ro"}[wrong]
        words = ["--role", "rs", "--join", "tcp://127.0.0.1:1"] if role == "rs" else []
        done = run(TARGET, "--listen", "tcp://127.0.0.1:0", "--control", "", *words, "--volume", f"a={ceph.backend(image, steal='true')}",
                   "--volume", f"b={last}", check=False, timeout=60)
        assert done.returncode == (2 if wrong == "twice" else 1) and "volume b" in done.stdout + done.stderr, done.stdout + done.stderr
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0, "the first target still owns its image"
        assert volume(first)["trouble"] == ""


def test_start_takes_no_image_when_the_image_of_a_later_volume_has_shrunk(ceph, tmp_path, nbd):
    image, small = ceph.create_image("8M"), ceph.create_image("16M")
    state = tmp_path / "state.json"
    part = ceph.backend(small) + ",size=8M"
    with start_target(ceph, tmp_path / "b", part, "--state", str(state)) as second:
        ask(second.control, "volume.resize", name="disk", size="12M")
    ceph.rbd("resize", "--size", "8M", "--allow-shrink", small)
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first, RawNbd(nbd(first, "disk").socket) as client:
        done = run(TARGET, "--listen", "tcp://127.0.0.1:0", "--control", "", "--state", state, "--volume", f"a={ceph.backend(image, steal='true')}",
                   "--volume", f"disk={part}", check=False, timeout=60)
        said = done.stdout + done.stderr
        assert done.returncode == 1 and "has only 8.00 MiB, 12.0 MiB (12582912 bytes) are needed" in said, said
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0, "the first target still owns its image"


def fail_to_steal(ceph, target, image, why) -> None:
    with pytest.raises(ControlError, match=why):
        ask(target.control, "volume.create", name="thief", backend=ceph.backend(image, steal="true", open_timeout=4))


def thread_count(target) -> int:
    return len(os.listdir(f"/proc/{target.process.pid}/task"))


def test_silent_monitor_blocklists_no_client_after_the_opening_has_failed(ceph, tmp_path, shim):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first:
        with with_shim(start_target(ceph, tmp_path / "b", "ram:8M"), shim, STOP=ceph.daemons["mon.a"].pid) as second:
            before = thread_count(second)
            try:
                fail_to_steal(ceph, second, image, "no monitor answered")
                until(lambda: thread_count(second) < before + 10, 10, "the client of the opening ends before the monitor resumes")
            finally:
                ceph.go_on()
            address = json.loads(ceph.rbd("lock", "ls", "--format", "json", image))[0]["address"]
            deadline = time.monotonic() + 8  # a command that was sent is executed within a second
            while time.monotonic() < deadline:
                assert address not in ceph.ceph("osd", "blocklist", "ls")
                time.sleep(0.5)
            assert volume(first)["trouble"] == ""


def test_opening_fails_when_monitors_fall_silent_after_they_blocklisted_the_owner(ceph, tmp_path, shim):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)):
        with with_shim(start_target(ceph, tmp_path / "b", "ram:8M"), shim, STOP_LATE=ceph.daemons["mon.a"].pid) as second:
            before = thread_count(second)
            lock = ceph.rbd("lock", "ls", "--format", "json", image)
            try:
                backend = ceph.backend(image, steal="true", mon_timeout=2)
                with pytest.raises(ControlError, match="is blocklisted, but its lock is not broken: no monitor answered within 2 s"):
                    ask(second.control, "volume.create", name="thief", backend=backend)
            finally:
                ceph.go_on()
            until(lambda: thread_count(second) == before, 20, "the client ends when the monitors resume")
            assert ceph.rbd("lock", "ls", "--format", "json", image) == lock


def test_opening_that_timed_out_during_the_blocklisting_of_an_owner_does_not_break_its_lock(ceph, tmp_path, shim):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first:
        with with_shim(start_target(ceph, tmp_path / "b", "ram:8M"), shim, SILENT=7) as second:
            lock = ceph.rbd("lock", "ls", "--format", "json", image)
            fail_to_steal(ceph, second, image, "open_timeout")
            until(lambda: "although the opening was given up" in second.log.read_text(), 15, "the second target reports it")
            assert ceph.rbd("lock", "ls", "--format", "json", image) == lock
            assert volume(first)["trouble"] == ""


def test_live_client_that_is_renewing_its_watch_is_not_mistaken_for_a_dead_one(ceph, tmp_path, shim):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path / "a", ceph.backend(image)) as first:
        with with_shim(start_target(ceph, tmp_path / "b", "ram:8M"), shim, UNWATCHED=1) as second:
            with pytest.raises(ControlError, match="uses it"):
                ask(second.control, "volume.create", name="other", backend=ceph.backend(image))
        assert volume(first)["trouble"] == ""


def test_error_of_an_opening_that_ceph_does_not_answer_refers_to_the_cluster_status(ceph, tmp_path, shim):
    with with_shim(start_target(ceph, tmp_path, "ram:8M"), shim, LATE=1) as target:
        with pytest.raises(ControlError, match="cannot read the features of the image: .*see ceph -s"):
            ask(target.control, "volume.create", name="image", backend=ceph.backend(ceph.create_image("8M")))


def test_target_stopped_while_it_opens_an_image_leaves_no_lock(ceph, tmp_path, shim):
    image = ceph.create_image("8M")
    held = tmp_path / "held"
    with with_shim(start_target(ceph, tmp_path, "ram:8M"), shim, HELD=held) as target:

        def create() -> None:
            with contextlib.suppress(AssertionError, OSError):
                ask(target.control, "volume.create", name="image", backend=ceph.backend(image, close_timeout=10))

        threading.Thread(target=create, daemon=True).start()
        until(held.exists, 30, "the lock is taken")
        target.process.send_signal(signal.SIGTERM)
        assert target.process.wait(30) == 0, target.log.read_text()
    assert json.loads(ceph.rbd("lock", "ls", "--format", "json", image)) == []


def test_target_does_not_steal_an_image_from_itself_under_another_spelling(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path, ceph.backend(image, steal="true")) as target, RawNbd(nbd(target, "disk").socket) as client:
        with pytest.raises(ControlError, match=f"open already, as rbd:{image} of client.admin"):
            ask(target.control, "volume.create", name="again", backend=ceph.backend(image, steal="true", id="admin"))
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        assert volume(target)["trouble"] == ""
        ask(target.control, "volume.delete", name="disk")
        until(lambda: creates(target, ceph.backend(image, steal="true")), 20, "the target releases the image of the deleted volume")


@pytest.mark.parametrize("first", ["configuration", "state file"])
def test_start_continues_when_a_second_volume_names_the_same_image(ceph, tmp_path, nbd, first):
    image = ceph.create_image("8M")
    elsewhere = tmp_path / "elsewhere.conf"  # the check of a configuration compares paths
    elsewhere.symlink_to(ceph.conf)
    one, other = ceph.backend(image, steal="true"), ceph.backend(image, steal="true", conf=elsewhere)
    more = ["--state", str(tmp_path / "state.json")]
    if first == "state file":
        with start_target(ceph, tmp_path, "ram:8M", *more) as target:
            ask(target.control, "volume.create", name="one", backend=one)
    else:
        more += ["--volume", f"one={one}"]
    with start_target(ceph, tmp_path, "ram:8M", *more, "--volume", f"other={other}") as target:
        states = {entry["name"]: (entry["state"], entry["trouble"]) for entry in ask(target.control, "volume.list")}
        assert states["one"] == ("live", "") and states["other"][0] == "closed" and "one image is one volume" in states["other"][1], states
        with RawNbd(nbd(target, "one").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        ask(target.control, "volume.delete", name="one")
        until(lambda: reopens(target, "other"), 20, "the target releases the image of the deleted volume")


def reopens(target, name: str) -> bool:
    try:
        ask(target.control, "volume.reopen", name=name)
    except ControlError:
        return False
    return True


def creates(target, backend: str) -> bool:
    try:
        ask(target.control, "volume.create", name="again", backend=backend)
    except ControlError:
        return False
    return True


def test_error_names_what_prevents_the_opening_of_an_image(ceph, tmp_path):
    locked = ceph.create_image("8M")
    ceph.rbd("lock", "add", locked, "mine")
    assert f"rbd lock ls {locked}" in refusal(ceph, tmp_path / "a", ceph.backend(locked))
    mirror = ceph.create_image("8M")
    ceph.rbd("mirror", "pool", "enable", "rbd", "image")
    ceph.rbd("mirror", "image", "enable", mirror, "snapshot")
    ceph.rbd("mirror", "image", "demote", mirror)
    assert "not the primary one" in refusal(ceph, tmp_path / "b", ceph.backend(mirror))


def test_target_warns_of_an_away_timeout_longer_than_the_watch_timeout_of_ceph(ceph, tmp_path):
    image = ceph.create_image("8M")
    for seconds, warns in ((24, False), (25, True)):
        with start_target(ceph, tmp_path / str(seconds), ceph.backend(image, away_timeout=seconds)) as target:
            assert ("at most 24 s are safe" in target.log.read_text()) == warns


def test_suspend_of_the_machine_counts_as_silence_of_ceph(ceph, tmp_path, shim):
    image = ceph.create_image("8M")
    slept = tmp_path / "slept"
    with with_shim(start_target(ceph, tmp_path / "a", ceph.backend(image)), shim, SLEPT=slept) as target:
        ceph.hang_all()
        try:
            slept.touch()
            until(lambda: "another client may have taken the image" in volume(target)["trouble"], 5, "the target warns that it may have lost the image")
        finally:
            ceph.go_on()
        ceph.wait_for_osds(3)
        until(lambda: volume(target)["trouble"] == "", 60, "the volume has recovered")


def test_error_from_ceph_is_shown_and_does_not_count_as_silence(ceph, tmp_path, shim):
    image = ceph.create_image("8M")
    refused = tmp_path / "refused"
    with with_shim(start_target(ceph, tmp_path / "a", ceph.backend(image)), shim, REFUSED=refused) as target:
        refused.touch()
        until(lambda: "(Operation not permitted)" in volume(target)["trouble"], 10, "the error is shown")
        refused.unlink()
        until(lambda: volume(target)["trouble"] == "", 10, "the volume has recovered")


def test_error_reports_that_the_host_is_blocklisted(ceph, tmp_path):
    image = ceph.create_image("8M")
    with start_target(ceph, tmp_path, ceph.backend(image)) as target:
        ceph.ceph("osd", "blocklist", "add", "127.0.0.1:0/0")
        try:
            until(lambda: "blocklisted" in volume(target)["trouble"], 20, "the volume is lost")
            with pytest.raises(ControlError, match="blocklisted this client, or all of its host"):
                ask(target.control, "volume.reopen", name="disk")
        finally:
            ceph.ceph("osd", "blocklist", "rm", "127.0.0.1:0/0")
        ask(target.control, "volume.reopen", name="disk")
        assert not volume(target)["trouble"]
