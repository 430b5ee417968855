# SPDX-License-Identifier: Apache-2.0
"""What Ceph gets later than anybody waits for it, and images that are not what they were. Long; `make check-ceph` runs them."""

import contextlib
import json
import os
import signal
import socket
import threading
import time

import pytest

from .cache_cluster import Cluster, ControlError, ask, until
from .ceph_cluster import CephCluster
from .programs import build_shim, run
from .rawnbd import FLUSH, READ, WRITE, RawNbd
from .test_ceph import KIB, MIB, start_target

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

BLOCK = 4 * KIB
OBJECT = 4 * MIB


@pytest.fixture(scope="module")
def ceph(tmp_path_factory):
    with CephCluster(tmp_path_factory.mktemp("ceph")) as cluster:
        yield cluster


# Connects to the port TO instead of FROM.
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
int connect(int fd, const struct sockaddr* address, socklen_t bytes) {
    int (*next)(int, const struct sockaddr*, socklen_t) = (int (*)(int, const struct sockaddr*, socklen_t))dlsym(RTLD_NEXT, "connect");
    struct sockaddr_in other = *(const struct sockaddr_in*)address;
    if (address->sa_family != AF_INET || ntohs(other.sin_port) != atoi(getenv("FROM"))) return next(fd, address, bytes);
    other.sin_port = htons(atoi(getenv("TO")));
    return next(fd, (struct sockaddr*)&other, sizeof other);
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"), SHIM)


class Way:
    """The network between one process and one OSD. While it is cut it keeps what was sent, as TCP does, also when the sender has ended."""

    def __init__(self, port: int, shim):
        self.port = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.environment = ["env", f"LD_PRELOAD={shim}", f"FROM={port}", f"TO={self.listener.getsockname()[1]}"]
        self.is_open = threading.Event()
        self.is_open.set()
        self.kept = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.is_open.clear()

    def heal(self) -> None:
        self.is_open.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                far = socket.create_connection(("127.0.0.1", self.port))
                threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, to_osd: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                if to_osd and not self.is_open.is_set():
                    self.kept += len(data)
                self.is_open.wait()
                sink.sendall(data)
            self.is_open.wait()
            time.sleep(1)  # the OSD has read it before it sees the end
            sink.shutdown(socket.SHUT_WR)


def acting(ceph, name: str) -> int:
    return json.loads(ceph.ceph("osd", "map", "rbd", name, "-f", "json"))["acting_primary"]


def port_of(ceph, number: int) -> int:
    osd = next(osd for osd in json.loads(ceph.ceph("osd", "dump", "-f", "json"))["osds"] if osd["osd"] == number)
    return int(next(a["addr"] for a in osd["public_addrs"]["addrvec"] if a["type"] == "v2").split(":")[1])


@pytest.fixture
def cut_off(ceph, shim):
    """An image, an offset in it, and the way to the OSD of that offset, which has neither the header nor the object map."""
    image = ceph.create_image("64M")
    number = json.loads(ceph.rbd("info", "--format", "json", image))["id"]
    others = {acting(ceph, f"rbd_{kind}.{number}") for kind in ("header", "object_map")}
    at, osd = next((at, osd) for at in range(16) if (osd := acting(ceph, f"rbd_data.{number}.{at:016x}")) not in others)
    way = Way(port_of(ceph, osd), shim)
    yield image, at * OBJECT, way
    way.heal()
    way.listener.close()


def end(cluster, how: str) -> None:
    if how == "delete":
        ask(cluster.control, "volume.delete", name="disk")
    else:
        cluster.target.process.send_signal(signal.SIGTERM)
        assert cluster.target.process.wait(60) == 0


def cluster_behind(way, directory, engines: int = 0) -> Cluster:
    cluster = Cluster("tcp", directory, engines=engines, volumes={"other": "ram:1M"})
    cluster.target.command = [*way.environment, *cluster.target.command]
    return cluster


@pytest.mark.parametrize("engines", [0, 2])
@pytest.mark.parametrize("how", ["stop", "delete"])
def test_a_write_that_timed_out_does_not_undo_one_of_the_next_owner(ceph, tmp_path, nbd, cut_off, engines, how):
    image, at, way = cut_off
    with cluster_behind(way, tmp_path, engines) as cluster:
        ask(cluster.control, "volume.create", name="disk", backend=ceph.backend(image, osd_timeout=5))
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, at, BLOCK, b"0" * BLOCK)[0] == 0
            way.cut()
            assert client.command(WRITE, at, BLOCK, b"1" * BLOCK)[0] != 0
            assert way.kept > BLOCK
        end(cluster, how)
        assert "is blocklisted before it lets go" in cluster.target.log.read_text()
        with start_target(ceph, tmp_path / "next", ceph.backend(image)) as second, RawNbd(nbd(second, "disk").socket) as client:
            assert client.command(WRITE, at, BLOCK, b"2" * BLOCK)[0] == 0
            assert client.command(FLUSH, 0, 0)[0] == 0
            way.heal()
            time.sleep(3)
            assert client.command(READ, at, BLOCK) == (0, b"2" * BLOCK)


def test_a_destaging_that_timed_out_does_not_undo_what_was_flushed_after_a_restart(ceph, tmp_path, nbd, cut_off):
    image, at, way = cut_off
    with cluster_behind(way, tmp_path, 2) as cluster:
        ask(cluster.control, "volume.create", name="disk", backend=ceph.backend(image, osd_timeout=5))
        cluster.policy("write-back")
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, at, BLOCK, b"0" * BLOCK)[0] == 0
            assert client.command(FLUSH, 0, 0)[0] == 0
            way.cut()
            assert client.command(WRITE, at, BLOCK, b"1" * BLOCK)[0] == 0
            assert client.command(FLUSH, 0, 0)[0] != 0
            assert way.kept > BLOCK
            assert client.command(WRITE, at, BLOCK, b"2" * BLOCK)[0] == 0
        cluster.target.process.send_signal(signal.SIGTERM)
        cluster.target.process.wait(60)
        cluster.target.command = cluster.target.command[len(way.environment):]
        cluster.target.start()
        cluster.wait_for_engines(2, 60)
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            until(lambda: client.command(FLUSH, 0, 0)[0] == 0, 60, "the line is home")
            assert client.command(WRITE, at, BLOCK, b"3" * BLOCK)[0] == 0
            assert client.command(FLUSH, 0, 0)[0] == 0
            way.heal()
            time.sleep(3)
            cluster.policy("none")
            assert client.command(READ, at, BLOCK) == (0, b"3" * BLOCK)


def test_a_target_whose_monitors_are_silent_keeps_the_lock_of_what_may_come_late(ceph, tmp_path, nbd, cut_off):
    image, at, way = cut_off
    with cluster_behind(way, tmp_path) as cluster:
        ask(cluster.control, "volume.create", name="disk", backend=ceph.backend(image, osd_timeout=5))
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            way.cut()
            assert client.command(WRITE, at, BLOCK, b"1" * BLOCK)[0] != 0
        ceph.daemons["mon.a"].send_signal(signal.SIGSTOP)
        try:
            end(cluster, "delete")
        finally:
            ceph.go_on()
        way.heal()
        assert json.loads(ceph.rbd("lock", "ls", "--format", "json", image))
        with pytest.raises(ControlError, match="uses it"):
            ask(cluster.control, "volume.create", name="disk", backend=ceph.backend(image))
        ask(cluster.control, "volume.create", name="disk", backend=ceph.backend(image, steal="true"))


def test_a_pool_that_was_restored_from_a_copy_gets_no_dirty_line_of_its_former_images(ceph, tmp_path, nbd):
    ceph.create_pool("former")
    ceph.create_pool("copy")
    image = ceph.create_image("8M", pool="former")
    with Cluster("tcp", tmp_path, engines=2, volumes={"other": "ram:1M"}) as cluster:
        ask(cluster.control, "volume.create", name="disk", backend=ceph.backend(image, steal="true"))
        cluster.policy("write-back")
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, 0, BLOCK, b"0" * BLOCK)[0] == 0
            assert client.command(FLUSH, 0, 0)[0] == 0
            for pool, direction in (("former", "export"), ("copy", "import")):
                run("rados", "-c", ceph.conf, "-p", pool, direction, tmp_path / "pool")
            ceph.hang_all()
            assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
            cluster.target.kill()
        ceph.go_on()
        ceph.wait_for_osds(3)
        ceph.ceph("osd", "pool", "delete", "former", "former", "--yes-i-really-really-mean-it")
        ceph.ceph("osd", "pool", "rename", "copy", "former")
        cluster.target.start()
        cluster.wait_for_engines(2, 60)
        until(lambda: any("another owner" in one["trouble"] for one in ask(cluster.control, "volume.list")), 30, "the volume is refused")
        ceph.rbd("export", "--no-progress", image, tmp_path / "out")
        assert (tmp_path / "out").read_bytes()[:BLOCK] == b"0" * BLOCK


def without_osds(ceph, seconds: float, meanwhile) -> None:
    """All are stopped for so long at least, in an orderly way: what they have not answered is not done."""
    for number in range(3):
        ceph.stop_osd(number)
    ended = time.monotonic() + seconds
    meanwhile()
    time.sleep(max(0, ended - time.monotonic()))
    for number in range(3):
        ceph.start_osd(number)
    ceph.wait_for_osds(3)
    ceph.wait_until_clean()


@pytest.mark.parametrize("policy", ["none", "write-back"])
def test_what_was_written_after_a_long_outage_is_there_after_a_restart(ceph, tmp_path, nbd, policy):
    """The object did not exist before: librbd notes such a one in a map, which Ceph did not take."""
    image = ceph.create_image("64M")
    with Cluster("tcp", tmp_path, engines=2, volumes={"disk": ceph.backend(image, osd_timeout=4)}) as cluster:
        cluster.policy(policy)
        with RawNbd(nbd(cluster.target, "disk").socket, timeout=90) as client:
            without_osds(ceph, 20, lambda: client.command(WRITE, OBJECT, BLOCK, b"1" * BLOCK))
            until(lambda: client.command(WRITE, OBJECT, BLOCK, b"2" * BLOCK)[0] == 0, 60, "a write")
            until(lambda: client.command(FLUSH, 0, 0)[0] == 0, 60, "a flush")
        assert "object map invalid" in ceph.rbd("info", image)
        cluster.target.process.send_signal(signal.SIGTERM)
        assert cluster.target.process.wait(60) == 0
        cluster.target.start()
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(READ, OBJECT, BLOCK) == (0, b"2" * BLOCK)


def test_an_object_map_that_was_rebuilt_is_used_again(ceph, tmp_path, nbd):
    image = ceph.create_image("64M")
    with start_target(ceph, tmp_path, ceph.backend(image, osd_timeout=4)) as target:
        with RawNbd(nbd(target, "disk").socket, timeout=90) as client:
            for byte in (b"1", b"2"):
                without_osds(ceph, 15, lambda: client.command(WRITE, OBJECT, BLOCK, byte * BLOCK))
                until(lambda: client.command(WRITE, OBJECT, BLOCK, byte * BLOCK)[0] == 0, 60, "a write")
                until(lambda: "object map invalid" in ceph.rbd("info", image), 10, "it is marked")
                ceph.rbd("object-map", "rebuild", "--no-progress", image)
                assert "object map invalid" not in ceph.rbd("info", image)
                assert client.command(READ, OBJECT, BLOCK) == (0, byte * BLOCK)
                time.sleep(2)  # the target looks at it each second


def test_librbds_cache_is_not_used_by_whoever_asks_for_it(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    target = start_target(ceph, tmp_path, ceph.backend(image, cache="true")).start()
    with RawNbd(nbd(target, "disk").socket) as client:
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        target.kill()
    assert "cache=true has no effect" in target.log.read_text()
    ceph.rbd("export", "--no-progress", image, tmp_path / "out")
    assert (tmp_path / "out").read_bytes()[:BLOCK] == b"1" * BLOCK
