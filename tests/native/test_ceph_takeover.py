# SPDX-License-Identifier: Apache-2.0
"""Storage processes that take an image from one another, with dirty data in cache engines. Long; `make check-ceph` runs them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time

import pytest

from .cache_cluster import until
from .programs import Target, build_shim, pause
from .rawnbd import FLUSH, READ, WRITE, RawNbd
from .test_ceph import KIB, volume
from .test_ceph_faults import Writer, storage_elsewhere
from .test_ceph_ownership import bench

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

BLOCK = 4 * KIB
LOST_AFTER = 240  # seconds; more than RemoteQueue::kTakenMax


@contextlib.contextmanager
def second_storage(ceph, tmp_path, cluster, image):
    """A second storage process with the same --join, which takes the image from its owner."""
    (tmp_path / "second").mkdir(exist_ok=True)
    storage = Target(cluster._address("rs2"), {"disk": ceph.backend(image, steal="true")}, tmp_path / "second", "--role", "rs", "--join", cluster.join)
    storage.start_seconds = 50  # the process may wait until Ceph considers a client dead
    storage.start()
    try:
        yield storage
    finally:
        storage.kill()


@contextlib.contextmanager
def first_storage(ceph, tmp_path, image):
    """A volume under write-back, and the storage process that owns its image."""
    with storage_elsewhere(ceph, tmp_path, image, "8M", engines=2) as (cluster, first):
        until(lambda: cluster.status()["volumes"], 30, "the volume is served")
        cluster.policy("write-back")
        yield cluster, first


@contextlib.contextmanager
def dirty_with_a_paused_process(ceph, tmp_path, nbd, image):
    """Cache engines hold a write of "1" that is not in the image, because the storage process is paused."""
    with first_storage(ceph, tmp_path, image) as (cluster, first), RawNbd(nbd(cluster.target, "disk").socket) as client:
        until(lambda: client.command(WRITE, 0, BLOCK, b"0" * BLOCK)[0] == 0, 30, "a write")
        pause(first.process)
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        assert cluster.dirty() > 0
        yield cluster, first, client


def takeovers(cluster) -> int:
    return len(re.findall(r"the process at \S+ took its real storage", cluster.target.log.read_text()))


def test_volume_continues_with_a_storage_process_that_took_its_image_from_a_running_one(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with first_storage(ceph, tmp_path, image) as (cluster, first):
        with Writer(nbd(cluster.target, "disk").socket) as writer:
            until(lambda: len(writer.acknowledged) == Writer.BLOCKS, 30, "the load runs")
            with second_storage(ceph, tmp_path, cluster, image):
                until(lambda: takeovers(cluster) == 1, 30, "the second process serves the volume")
                number = writer.number
                until(lambda: writer.number > number + Writer.BLOCKS, 30, "the load continues")
                # The first process takes the image back. It is restarted as a service manager would do it.
                first.kill()
                first.start()
                until(lambda: takeovers(cluster) == 2, 30, "the first process serves the volume")
                number = writer.number
                until(lambda: writer.number > number + Writer.BLOCKS, 30, "the load continues")
        assert writer.errors == 0
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            writer.check(client)
            assert client.command(FLUSH, 0, 0)[0] == 0
        assert cluster.target.stop() == 0
        ceph.rbd("export", image, tmp_path / "out")
        stored = (tmp_path / "out").read_bytes()
        for block, number in writer.acknowledged.items():
            found = int.from_bytes(stored[block * BLOCK : block * BLOCK + 8], "little")
            assert number <= found <= writer.attempted[block], (block, number, found)


def fail_start(ceph, tmp_path, cluster, image) -> str:
    """Starts a process that takes the image but cannot create the file of its second volume. Returns its log."""
    volumes = {"disk": ceph.backend(image, steal="true"), "more": f"aio:{tmp_path}/more.img,size=1G,create"}
    (tmp_path / "failing").mkdir()
    failing = Target(cluster._address("rs3"), volumes, tmp_path / "failing", "--role", "rs", "--join", cluster.join)
    failing.command = ["prlimit", "--fsize=1048576", *failing.command]
    with pytest.raises(AssertionError, match="did not become ready"):
        failing.start()
    return failing.log.read_text()


# Kills the process once it has opened the image.
LOOKS = r"""
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

int rbd_lock_get_owners(void* image, int* mode, char** owners, size_t* count)
{
    return kill(getpid(), SIGKILL);
}
"""


def look_and_die(ceph, tmp_path, cluster, image) -> None:
    """Starts a process that is killed once it has opened the image, before it takes the lock. Ceph lists its watch for 30 s."""
    (tmp_path / "killed").mkdir()
    killed = Target(cluster._address("rs3"), {"disk": ceph.backend(image, steal="true")}, tmp_path / "killed", "--role", "rs", "--join", cluster.join)
    shim = build_shim(tmp_path / "killed", LOOKS)
    done = subprocess.run(killed.command, env=os.environ | {"LD_PRELOAD": str(shim)}, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert ceph.rbd("status", image).count("watcher=") > 1


def stop_unused(ceph, tmp_path, cluster, image) -> None:
    """Starts and stops a storage process while the target is paused, so that the target never uses it."""
    pause(cluster.target.process)
    with second_storage(ceph, tmp_path, cluster, image) as second:
        assert second.stop() == 0
    cluster.target.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("between", ["fails", "killed", "looks", "unused"])
def test_volume_continues_with_the_successor_of_a_storage_process_that_took_its_image_and_exited(ceph, tmp_path, nbd, between):
    image = ceph.create_image("8M")
    with dirty_with_a_paused_process(ceph, tmp_path, nbd, image) as (cluster, first, client):
        if between == "fails":
            log = fail_start(ceph, tmp_path, cluster, image)
            assert "its lock is broken" in log, log
        elif between == "killed":
            with second_storage(ceph, tmp_path, cluster, image) as second:
                second.kill()
        elif between == "looks":
            look_and_die(ceph, tmp_path, cluster, image)
        else:
            stop_unused(ceph, tmp_path, cluster, image)
        with second_storage(ceph, tmp_path, cluster, image):
            first.process.send_signal(signal.SIGCONT)
            until(lambda: cluster.dirty() == 0, 30, "the dirty lines are destaged")
            assert volume(cluster)["trouble"] == ""
            until(lambda: client.command(FLUSH, 0, 0)[0] == 0, 10, "a flush")
            assert client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK)


def test_storage_process_takes_no_image_before_the_watches_of_dead_clients_on_all_its_images_end(ceph, tmp_path, nbd):
    image, more = ceph.create_image("8M"), ceph.create_image("8M")
    with first_storage(ceph, tmp_path, image) as (cluster, first), Writer(nbd(cluster.target, "disk").socket) as writer:
        with bench(ceph, more, tmp_path / "bench"):
            pass  # the process was killed, but Ceph considers it alive for 30 s
        volumes = {"disk": ceph.backend(image, steal="true"), "more": ceph.backend(more)}
        (tmp_path / "second").mkdir()
        second = Target(cluster._address("rs2"), volumes, tmp_path / "second", "--role", "rs", "--join", cluster.join)
        second.start_seconds = 50
        starter = threading.Thread(target=second.start)
        starter.start()
        try:
            until(lambda: len(ceph.rbd("status", more).split("watcher=")) == 3, 10, "the second process checks its second image")
            time.sleep(5)
            assert "blocklisted" not in second.log.read_text(), "the first process keeps its image while the second one waits"
            number = writer.number
            until(lambda: writer.number > number + Writer.BLOCKS, 10, "the load continues")
            until(lambda: takeovers(cluster) == 1, 50, "the second process serves the volume")
            number = writer.number
            until(lambda: writer.number > number + Writer.BLOCKS, 30, "the load continues")
            assert writer.errors == 0
        finally:
            starter.join(60)
            second.kill()


# Pauses a start at the first call of the kind SHIM_AT, until the file SHIM_GO exists:
#   watchers  the process reads the image's watchers, just before it breaks the lock
#   owners    the process reads the lock's owner, just after it has broken the lock
#   acquire   the process takes the lock that it has broken
STEPS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int listed, broken;
static void* of(const char* library, const char* name) { return dlsym(dlopen(library, RTLD_NOW), name); }
static void step(const char* name)
{
    static int stopped;
    if (stopped || strcmp(name, getenv("SHIM_AT")) != 0) return;
    stopped = 1;
    close(open(getenv("SHIM_WAITS"), O_CREAT | O_WRONLY, 0600));
    for (int i = 0; i < 400 && access(getenv("SHIM_GO"), F_OK) != 0; i++) usleep(50000);
}
long rados_list_lockers(void* io, const char* object, const char* name, int* exclusive, char* tag, size_t* tag_size, char* clients, size_t* clients_size,
                        char* cookies, size_t* cookies_size, char* addresses, size_t* addresses_size)
{
    long (*real)(void*, const char*, const char*, int*, char*, size_t*, char*, size_t*, char*, size_t*, char*, size_t*) =
        of("librados.so.2", "rados_list_lockers");
    listed = 1;
    return real(io, object, name, exclusive, tag, tag_size, clients, clients_size, cookies, cookies_size, addresses, addresses_size);
}
int rados_break_lock(void* io, const char* object, const char* name, const char* client, const char* cookie)
{
    int (*real)(void*, const char*, const char*, const char*, const char*) = of("librados.so.2", "rados_break_lock");
    broken = 1;
    return real(io, object, name, client, cookie);
}
int rbd_watchers_list(void* image, void* watchers, size_t* count)
{
    int (*real)(void*, void*, size_t*) = of("librbd.so.1", "rbd_watchers_list");
    if (listed && !broken) step("watchers");
    return real(image, watchers, count);
}
int rbd_lock_get_owners(void* image, int* mode, char** owners, size_t* count)
{
    int (*real)(void*, int*, char**, size_t*) = of("librbd.so.1", "rbd_lock_get_owners");
    if (broken) step("owners");
    return real(image, mode, owners, count);
}
int rbd_lock_acquire(void* image, int mode)
{
    int (*real)(void*, int) = of("librbd.so.1", "rbd_lock_acquire");
    if (broken) step("acquire");
    return real(image, mode);
}
"""


class StoppedStart:
    """The start of a storage process that takes an image and pauses at a step until go_on() is called."""

    def __init__(self, ceph, tmp_path, cluster, image, step: str, **options):
        folder = tmp_path / "stopped"
        folder.mkdir()
        self.waits, self._go = folder / "waits", folder / "go"
        self.process = Target(cluster._address("rs4"), {"disk": ceph.backend(image, steal="true", **options)}, folder, "--role", "rs", "--join", cluster.join)
        self.process.start_seconds = 50
        shim = build_shim(folder, STEPS)
        self.process.command = ["env", f"LD_PRELOAD={shim}", f"SHIM_AT={step}", f"SHIM_WAITS={self.waits}", f"SHIM_GO={self._go}", *self.process.command]
        self._thread = threading.Thread(target=self._start)

    def _start(self) -> None:
        with contextlib.suppress(AssertionError):  # the start may fail
            self.process.start()

    def __enter__(self) -> StoppedStart:
        self._thread.start()
        until(self.waits.exists, 20, "the start pauses")
        return self

    def go_on(self) -> None:
        self._go.touch()

    def wait(self) -> None:
        """Waits until the process is ready or has failed."""
        self._thread.join(60)

    def __exit__(self, *_) -> None:
        self.go_on()
        self.wait()
        self.process.kill()


def test_volume_is_lost_when_a_program_owned_its_image_during_a_takeover(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with (
        dirty_with_a_paused_process(ceph, tmp_path, nbd, image) as (cluster, first, _),
        StoppedStart(ceph, tmp_path, cluster, image, "acquire") as start,
    ):
        ceph.rbd("bench", "--io-type", "write", "--io-size", "4K", "--io-threads", "1", "--io-total", "4K", image)
        start.go_on()
        start.wait()
        first.process.send_signal(signal.SIGCONT)
        until(lambda: "others may have written it in between" in volume(cluster)["trouble"], LOST_AFTER, "the volume is lost")
        assert cluster.dirty() > 0, "dirty lines must not overwrite the data of the program"


def header_osd(ceph, image) -> int:
    about = json.loads(ceph.rbd("info", "--format", "json", image))
    return ceph.acting(f"rbd_header.{about['id']}")[0]


@pytest.mark.parametrize("step", ["watchers", "owners"])
def test_volume_continues_when_ceph_is_silent_while_another_storage_process_breaks_the_lock(ceph, tmp_path, nbd, step):
    image = ceph.create_image("8M")
    with dirty_with_a_paused_process(ceph, tmp_path, nbd, image) as (cluster, first, client):
        with StoppedStart(ceph, tmp_path, cluster, image, step, osd_timeout=5, open_timeout=60) as start:
            ceph.hang(header_osd(ceph, image))
            start.go_on()
            time.sleep(8)
            ceph.go_on()
            start.wait()
            with second_storage(ceph, tmp_path, cluster, image):
                first.process.send_signal(signal.SIGCONT)
                until(lambda: cluster.dirty() == 0, 60, "the dirty lines are destaged")
                assert volume(cluster)["trouble"] == ""
                until(lambda: client.command(FLUSH, 0, 0)[0] == 0, 10, "a flush")
                assert client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK)


def test_volume_continues_after_a_start_that_was_stopped_once_it_had_broken_the_lock(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with dirty_with_a_paused_process(ceph, tmp_path, nbd, image) as (cluster, first, client):
        with StoppedStart(ceph, tmp_path, cluster, image, "owners") as start:
            start.process.process.send_signal(signal.SIGTERM)
            time.sleep(4)  # longer than a stop waits for an opening that has no lock
            start.go_on()
            start.wait()
        with second_storage(ceph, tmp_path, cluster, image):
            first.process.send_signal(signal.SIGCONT)
            until(lambda: cluster.dirty() == 0, 60, "the dirty lines are destaged")
            assert volume(cluster)["trouble"] == ""
            assert client.command(READ, 0, BLOCK) == (0, b"1" * BLOCK)


def test_volume_is_lost_when_a_program_owned_its_image_between_two_storage_processes(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    with dirty_with_a_paused_process(ceph, tmp_path, nbd, image) as (cluster, first, _):
        lock = json.loads(ceph.rbd("lock", "ls", "--format", "json", image))[0]
        ceph.rbd("lock", "rm", image, lock["id"], lock["locker"])
        with bench(ceph, image, tmp_path / "bench"):
            pass
        first.process.send_signal(signal.SIGCONT)
        until(lambda: "waits for the process that took its real storage" in volume(cluster)["trouble"], 30, "the loss is reported")
        with second_storage(ceph, tmp_path, cluster, image):
            until(lambda: "waits for" not in volume(cluster)["trouble"], LOST_AFTER, "the volume is lost")
            time.sleep(2)
            assert cluster.dirty() > 0, "dirty lines must not overwrite the data of the program"


def alone(tmp_path, volumes: dict[str, str]) -> Target:
    """A storage process whose target is not running."""
    tmp_path.mkdir(exist_ok=True)
    storage = Target("tcp://127.0.0.1:0", volumes, tmp_path, "--role", "rs", "--join", "tcp://127.0.0.1:1")
    storage.start_seconds = 60
    return storage


def kill_in_look(ceph, tmp_path, image) -> None:
    tmp_path.mkdir()
    shim = build_shim(tmp_path, LOOKS)
    killed = alone(tmp_path, {"disk": ceph.backend(image, steal="true")})
    done = subprocess.run(killed.command, env=os.environ | {"LD_PRELOAD": str(shim)}, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_chain_continues_although_starts_fail_while_ceph_lists_a_dead_client(ceph, tmp_path):
    image = ceph.create_image("8M")
    with alone(tmp_path / "a", {"disk": ceph.backend(image)}):
        series, term, since, _ = ceph.rbd("image-meta", "get", image, "wss_holder").split()
        kill_in_look(ceph, tmp_path / "killed", image)
        second = alone(tmp_path / "b", {"disk": ceph.backend(image, steal="true", open_timeout=18)})
        with pytest.raises(AssertionError, match="Ceph still lists it"):
            second.start()
        until(lambda: ceph.rbd("status", image).count("watcher=") == 1, 60, "the watch of the killed start ends")
        with second:
            after = ceph.rbd("image-meta", "get", image, "wss_holder").split()
            assert after[:3] == [series, f"{int(term, 16) + 1:x}", since]


def test_start_that_is_stopped_while_it_waits_for_a_dead_client_closes_the_image(ceph, tmp_path):
    image = ceph.create_image("8M")
    with alone(tmp_path / "a", {"disk": ceph.backend(image)}):
        kill_in_look(ceph, tmp_path / "killed", image)
        second = alone(tmp_path / "b", {"disk": ceph.backend(image, steal="true")})
        with second.log.open("wb") as log, subprocess.Popen(second.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL) as process:
            until(lambda: "waiting until Ceph ends the watch" in second.log.read_text(), 20, "the start waits")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        assert ceph.rbd("status", image).count("watcher=") == 2, "the watches of the first process and of the killed start remain"


def test_storage_process_that_serves_a_clone_and_its_parent_succeeds_another_one(ceph, tmp_path):
    parent, child = ceph.create_image("8M"), "rbd/child"
    ceph.rbd("snap", "create", f"{parent}@s")
    ceph.rbd("snap", "protect", f"{parent}@s")
    ceph.rbd("clone", f"{parent}@s", child)

    def marks() -> list[str]:
        return [ceph.rbd("image-meta", "get", image, "wss_holder").split() for image in (child, parent)]

    with alone(tmp_path / "a", {"child": ceph.backend(child), "parent": ceph.backend(parent)}):
        before = marks()
        with alone(tmp_path / "b", {"child": ceph.backend(child, steal="true"), "parent": ceph.backend(parent, steal="true")}):
            after = marks()
    assert [(series, int(term, 16) - 1, since) for series, term, since, _ in after] == [
        (series, int(term, 16), since) for series, term, since, _ in before
    ]
