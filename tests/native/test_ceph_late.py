# SPDX-License-Identifier: Apache-2.0
"""Requests that reach Ceph after their time limit, and images that have changed by then. Long; `make check-ceph` runs them."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from .cache_cluster import Cluster, ControlError, ask, until
from .ceph_cluster import CephCluster
from .programs import build_shim, run
from .rawnbd import FLUSH, READ, TRIM, WRITE, RawNbd
from .test_ceph import KIB, MIB, refusal, start_target, volume
from .test_ceph_lock import remove_the_lock_alone

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

BLOCK = 4 * KIB
OBJECT = 4 * MIB


# Redirects connections from the port FROM to the port TO.
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
    """The network between one process and one OSD. While it is cut, it buffers sent data and delivers it later, even if the sender has exited, as TCP does."""

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
            time.sleep(1)  # the OSD reads the data before the end of the connection
            sink.shutdown(socket.SHUT_WR)


def acting(ceph, name: str) -> int:
    return json.loads(ceph.ceph("osd", "map", "rbd", name, "-f", "json"))["acting_primary"]


def port_of(ceph, number: int) -> int:
    osd = next(osd for osd in json.loads(ceph.ceph("osd", "dump", "-f", "json"))["osds"] if osd["osd"] == number)
    return int(next(a["addr"] for a in osd["public_addrs"]["addrvec"] if a["type"] == "v2").split(":")[1])


def far_from_its_header(ceph) -> tuple[str, int, int] | None:
    image = ceph.create_image("64M")
    number = json.loads(ceph.rbd("info", "--format", "json", image))["id"]
    near = {acting(ceph, f"rbd_{kind}.{number}") for kind in ("header", "object_map")}
    return next(((image, at, osd) for at in range(16) if (osd := acting(ceph, f"rbd_data.{number}.{at:016x}")) not in near), None)


@pytest.fixture
def cut_off(ceph, shim):
    """An image, an offset in it, and the `Way` to the OSD of that offset, which has neither the header nor the object map."""
    image, at, osd = next(found for _ in range(20) if (found := far_from_its_header(ceph)))
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


def target_behind(way, ceph, directory, image: str):
    target = start_target(ceph, directory, ceph.backend(image, osd_timeout=5))
    target.command = [*way.environment, *target.command]
    return target


def next_owner(ceph, directory, image: str, how: str):
    """Starts another target on the image. With "delete", the process of the former client still runs, so a target without steal=true
    is refused. Otherwise the process has exited, and with steal=true the next owner does not wait for the former one to time out."""
    if how == "delete":
        assert "uses it" in refusal(ceph, directory / "refused", ceph.backend(image))
    return start_target(ceph, directory / "next", ceph.backend(image, steal="true"))


def check_that_nothing_comes_late(client, at: int, way) -> None:
    """Checks that no late write overwrites flushed data of the next owner."""
    assert client.command(WRITE, at, BLOCK, b"2" * BLOCK)[0] == 0
    assert client.command(FLUSH, 0, 0)[0] == 0
    way.heal()
    time.sleep(4)
    assert client.command(READ, at, BLOCK) == (0, b"2" * BLOCK)


@pytest.mark.parametrize("engines", [0, 2])
@pytest.mark.parametrize("how", ["stop", "delete"])
def test_timed_out_write_does_not_overwrite_a_write_of_the_next_owner(ceph, tmp_path, nbd, cut_off, engines, how):
    image, at, way = cut_off
    with cluster_behind(way, tmp_path, engines) as cluster:
        ask(cluster.control, "volume.create", name="disk", backend=ceph.backend(image, osd_timeout=5))
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, at, BLOCK, b"0" * BLOCK)[0] == 0
            way.cut()
            assert client.command(WRITE, at, BLOCK, b"1" * BLOCK)[0] != 0
            assert way.kept > BLOCK
        end(cluster, how)
        with next_owner(ceph, tmp_path, image, how) as second, RawNbd(nbd(second, "disk").socket) as client:
            check_that_nothing_comes_late(client, at, way)


@pytest.mark.parametrize("how", ["stop", "delete"])
def test_shrink_for_another_client_removes_no_data_of_the_next_owner(ceph, tmp_path, nbd, cut_off, how):
    """The target's librbd executes the shrink, without a request from the target."""
    image, at, way = cut_off
    with cluster_behind(way, tmp_path) as cluster:
        ask(cluster.control, "volume.create", name="disk", backend=ceph.backend(image, osd_timeout=5))
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(WRITE, at, BLOCK, b"0" * BLOCK)[0] == 0
        way.cut()
        shrink = subprocess.Popen(["rbd", "-c", str(ceph.conf), "resize", "--no-progress", "--allow-shrink", "--size", f"{at // MIB}M", image])
        time.sleep(12)
        shrink.kill()
        shrink.wait()
        end(cluster, how)
        with next_owner(ceph, tmp_path, image, how) as second, RawNbd(nbd(second, "disk").socket) as client:
            check_that_nothing_comes_late(client, at, way)


def test_timed_out_write_has_no_effect_after_the_lock_was_removed(ceph, tmp_path, nbd, cut_off):
    """An operator removes the lock without blocklisting its client."""
    image, at, way = cut_off
    with target_behind(way, ceph, tmp_path, image) as target:
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(WRITE, at, BLOCK, b"0" * BLOCK)[0] == 0
            way.cut()
            assert client.command(WRITE, at, BLOCK, b"1" * BLOCK)[0] != 0
        remove_the_lock_alone(ceph, image)
        until(lambda: "was taken away" in volume(target)["trouble"], 15, "the volume is lost")
        with start_target(ceph, tmp_path / "next", ceph.backend(image, steal="true")) as second, RawNbd(nbd(second, "disk").socket) as client:
            until(lambda: "gives up the image and is blocklisted" in target.log.read_text(), 15, "the first target is blocklisted")
            check_that_nothing_comes_late(client, at, way)


def test_write_waits_for_an_earlier_write_of_its_block_that_timed_out(ceph, tmp_path, nbd, cut_off):
    image, at, way = cut_off
    with target_behind(way, ceph, tmp_path, image) as target:
        with RawNbd(nbd(target, "disk").socket) as client, RawNbd(nbd(target, "disk").socket) as other:
            assert client.command(WRITE, at, BLOCK, b"0" * BLOCK)[0] == 0
            way.cut()
            assert client.command(WRITE, at, BLOCK, b"1" * BLOCK)[0] != 0
            assert "Ceph has not answered 1 requests, which failed after 5 s (osd_timeout)" in volume(target)["trouble"]
            # A read must not return data while the outcome of the write is unknown.
            assert client.command(READ, at, BLOCK)[0] != 0
            later = threading.Timer(2, way.heal)
            later.start()
            assert client.command(WRITE, at, BLOCK, b"2" * BLOCK)[0] == 0
            later.join()
            assert client.command(READ, at, BLOCK) == (0, b"2" * BLOCK)
            until(lambda: volume(target)["trouble"] == "", 10, "Ceph has answered all requests")
            assert other.command(READ, at, BLOCK) == (0, b"2" * BLOCK)


@pytest.mark.parametrize("kind", [TRIM, READ])
def test_long_request_that_timed_out_delays_only_requests_to_objects_of_the_silent_osd(ceph, tmp_path, nbd, shim, kind):
    image = ceph.create_image("8M", "--object-size", "16K", "--image-feature", "exclusive-lock")
    number = json.loads(ceph.rbd("info", "--format", "json", image))["id"]
    header = acting(ceph, f"rbd_header.{number}")
    owners = {n: acting(ceph, f"rbd_data.{number}.{n:016x}") for n in range(16)}
    # There are few placement groups, so an OSD may have none of these objects.
    cut = next(osd for osd in range(3) if osd != header and 0 < list(owners.values()).count(osd) < len(owners))
    way = Way(port_of(ceph, cut), shim)
    places = {silent: next(n for n, osd in owners.items() if (osd == cut) == silent) * 16 * KIB for silent in (True, False)}
    with target_behind(way, ceph, tmp_path, image) as target, RawNbd(nbd(target, "disk").socket) as client:
        assert client.command(WRITE, 0, MIB, b"0" * MIB)[0] == 0
        way.cut()
        assert client.command(kind, 0, MIB)[0] != 0
        assert client.command(WRITE, places[True], BLOCK, b"2" * BLOCK)[0] != 0
        assert client.command(WRITE, places[False], BLOCK, b"2" * BLOCK)[0] == 0
        assert client.command(READ, places[False], BLOCK) == (0, b"2" * BLOCK)
        way.heal()
        until(lambda: volume(target)["trouble"] == "", 20, "Ceph has answered all requests")
        rest = b"0" if kind == READ else b"\0"
        assert client.command(READ, places[False] + BLOCK, BLOCK) == (0, rest * BLOCK)
    way.listener.close()


def test_blocks_of_other_osds_are_served_even_if_hundreds_of_timed_out_requests_remain_in_librbd(ceph, tmp_path, nbd, shim):
    image = ceph.create_image("32M", "--object-size", "4K", "--image-feature", "exclusive-lock")
    number = json.loads(ceph.rbd("info", "--format", "json", image))["id"]
    header = acting(ceph, f"rbd_header.{number}")
    way = Way(port_of(ceph, next(osd for osd in range(3) if osd != header)), shim)
    with target_behind(way, ceph, tmp_path, image) as target, contextlib.ExitStack() as stack:
        path = nbd(target, "disk").socket
        clients = [stack.enter_context(RawNbd(path)) for _ in range(48)]
        pool = stack.enter_context(ThreadPoolExecutor(len(clients)))

        def write_all(places) -> dict[int, int]:
            parts = [places[n::len(clients)] for n in range(len(clients))]
            answers = pool.map(lambda one: one[0].write_all(one[1], b"1" * BLOCK), zip(clients, parts))
            return {place: error for part in answers for place, error in part.items()}

        with RawNbd(path) as client:
            # Each write goes to a different object. About a third of the objects are on the OSD that is cut off.
            errors, objects = {}, iter(range(0, 32 * MIB, BLOCK))
            assert client.write_all(range(0, 32 * BLOCK, BLOCK), b"0" * BLOCK) == {n * BLOCK: 0 for n in range(32)}
            way.cut()
            while sum(error != 0 for error in errors.values()) <= 256:
                errors |= write_all([next(objects) for _ in range(16 * len(clients))])
            failed = [place for place, error in errors.items() if error != 0]
            assert 0 not in write_all(failed).values(), "only writes to the OSD that is cut off fail"
            elsewhere = next(place for place, error in errors.items() if error == 0)
            assert f"Ceph has not answered {len(failed)} requests" in volume(target)["trouble"]
            assert client.command(WRITE, elsewhere, BLOCK, b"2" * BLOCK)[0] == 0
            assert client.command(READ, elsewhere, BLOCK) == (0, b"2" * BLOCK)
            way.heal()
            until(lambda: volume(target)["trouble"] == "", 20, "Ceph has answered all requests")
            assert client.command(READ, failed[-1], BLOCK) == (0, b"1" * BLOCK)
    way.listener.close()


def test_timed_out_destaging_does_not_overwrite_data_flushed_after_a_restart(ceph, tmp_path, nbd, cut_off):
    image, at, way = cut_off
    with cluster_behind(way, tmp_path, 2) as cluster:
        ask(cluster.control, "volume.create", name="disk", backend=ceph.backend(image, osd_timeout=5, steal="true"))
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
            until(lambda: client.command(FLUSH, 0, 0)[0] == 0, 60, "the line is destaged")
            assert client.command(WRITE, at, BLOCK, b"3" * BLOCK)[0] == 0
            assert client.command(FLUSH, 0, 0)[0] == 0
            way.heal()
            time.sleep(3)
            cluster.policy("none")
            assert client.command(READ, at, BLOCK) == (0, b"3" * BLOCK)


def test_pool_restored_from_a_copy_receives_no_dirty_lines_of_its_former_images(ceph, tmp_path, nbd):
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
    """Stops all OSDs for at least `seconds` and calls `meanwhile`. The stop is clean: an OSD answers every request that it executes."""
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
def test_data_written_after_a_long_outage_survives_a_restart(ceph, tmp_path, nbd, policy):
    """librbd must add the new object to the object map, but the OSDs stop before they execute that update."""
    image = ceph.create_image("64M")
    with Cluster("tcp", tmp_path, engines=2, volumes={"disk": ceph.backend(image, osd_timeout=4)}) as cluster:
        cluster.policy(policy)
        with RawNbd(nbd(cluster.target, "disk").socket, timeout=90) as client:
            without_osds(ceph, 20, lambda: client.command(WRITE, OBJECT, BLOCK, b"1" * BLOCK))
            until(lambda: client.command(WRITE, OBJECT, BLOCK, b"2" * BLOCK)[0] == 0, 60, "a write")
            until(lambda: client.command(FLUSH, 0, 0)[0] == 0, 60, "a flush")
        assert "object map invalid" not in ceph.rbd("info", image)
        cluster.target.process.send_signal(signal.SIGTERM)
        assert cluster.target.process.wait(60) == 0
        cluster.target.start()
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(READ, OBJECT, BLOCK) == (0, b"2" * BLOCK)


def hold_back(ceph, number: str, pool: str) -> int:
    """Stops an OSD of the image's header and object map, so that Ceph answers for neither. The image's data is in another pool."""
    ceph.ceph("osd", "pool", "set", "rbd", "min_size", "2")
    both = (set(json.loads(ceph.ceph("osd", "map", pool, f"rbd_{kind}.{number}", "-f", "json"))["acting"]) for kind in ("header", "object_map"))
    osd = next(iter(set.intersection(*both)))
    ceph.stop_osd(osd)
    until(lambda: json.loads(ceph.ceph("osd", "stat", "-f", "json"))["num_up_osds"] == 2, 30, "the OSD is down")
    return osd


def test_data_written_while_another_client_flattens_the_image_survives_a_kill(ceph, tmp_path, nbd):
    """While the header's OSD does not answer, librbd copies objects that are not in the object map yet."""
    size = 64 * KIB
    ceph.create_pool("flat")
    (tmp_path / "base").write_bytes(b"p" * (32 * MIB))
    ceph.rbd("import", "--no-progress", "--object-size", "64K", tmp_path / "base", "flat/parent")
    ceph.rbd("snap", "create", "--no-progress", "flat/parent@s")
    ceph.rbd("clone", "--rbd-default-clone-format", "2", "--object-size", "64K", "--data-pool", "flat", "flat/parent@s", "rbd/child")
    number = json.loads(ceph.rbd("info", "--format", "json", "rbd/child"))["id"]
    # At its end, a flatten holds back all writes until the header's OSD answers. It is slowed down, so that the OSD stops before that.
    ceph.rbd("config", "image", "set", "rbd/child", "rbd_concurrent_management_ops", "1")

    def copied() -> set[int]:
        names = run("rados", "-c", ceph.conf, "-p", "flat", "ls").stdout.split()
        return {int(name.rsplit(".", 1)[1], 16) for name in names if f".{number}." in name}

    with start_target(ceph, tmp_path, ceph.backend("rbd/child", osd_timeout=4, steal="true")) as target:
        with RawNbd(nbd(target, "disk").socket, timeout=120) as client:
            flatten = subprocess.Popen(["rbd", "-c", str(ceph.conf), "flatten", "--no-progress", "rbd/child"])
            until(lambda: len(copied()) > 20, 60, "the flattening has begun")
            osd = hold_back(ceph, number, "rbd")
            before = copied()
            assert len(before) < 32 * MIB // size, "the flattening has ended"
            time.sleep(12)
            # Some objects that were copied before that time, and some that have been copied since, if there are any.
            places = sorted(before)[:4] + sorted(copied() - before)[:4]
            acknowledged = [n for n in places if client.command(WRITE, n * size, BLOCK, b"Z" * BLOCK)[0] == 0]
            assert acknowledged
            target.process.kill()
            target.process.wait()
        ceph.ceph("osd", "pool", "set", "rbd", "min_size", "1")
        ceph.start_osd(osd)
        ceph.wait_for_osds(3)
        flatten.kill()
        flatten.wait()
        target.start()
        with RawNbd(nbd(target, "disk").socket, timeout=60) as client:
            assert [n for n in acknowledged if client.command(READ, n * size, BLOCK) != (0, b"Z" * BLOCK)] == []


def test_no_write_is_acknowledged_while_the_object_map_lacks_its_object(tmp_path_factory, tmp_path, nbd):
    """A user may still write the data pool but not the header's pool: librbd can neither add objects to the map nor mark it as invalid."""
    def capabilities(of_header: str) -> list[str]:
        return ["mon", "profile rbd", "osd", f"profile {of_header} pool=rbd, profile rbd pool=data"]

    with CephCluster(tmp_path_factory.mktemp("ceph"), settings="auth mon ticket ttl = 8\nauth service ticket ttl = 8\n") as ceph:
        ceph.create_pool("data")
        image = ceph.create_image("256M", "--data-pool", "data")
        keyring = ceph.user("u", *capabilities("rbd"))

        def connect_anew() -> None:
            """Makes the target connect again, with the user's current capabilities."""
            time.sleep(12)
            for number in range(3):
                ceph.stop_osd(number)
                ceph.start_osd(number)
                ceph.wait_for_osds(3)

        with start_target(ceph, tmp_path, ceph.backend(image, id="u", keyring=keyring, osd_timeout=4, steal="true")) as target:
            with RawNbd(nbd(target, "disk").socket, timeout=120) as client:
                ceph.ceph("auth", "caps", "client.u", *capabilities("rbd-read-only"))
                connect_anew()
                until(lambda: client.command(WRITE, 0, BLOCK, b"A" * BLOCK)[0] != 0, 30, "a write is refused")
                assert [client.command(WRITE, n * OBJECT, BLOCK, b"A" * BLOCK)[0] == 0 for n in range(1, 4)] == [False] * 3
                with pytest.raises(ControlError, match="does not permit"):
                    ask(target.control, "volume.resize", name="disk", size="128M")
                assert volume(target)["size"] == 256 * MIB, "a shrink that is refused changes nothing"
                ceph.ceph("auth", "caps", "client.u", *capabilities("rbd"))
                connect_anew()
                until(lambda: client.command(WRITE, 4 * OBJECT, BLOCK, b"B" * BLOCK)[0] == 0, 60, "a write is permitted")
                assert "object map invalid" in ceph.rbd("info", image)
                ceph.rbd("object-map", "rebuild", "--no-progress", image)
                until(lambda: "object map invalid" in ceph.rbd("info", image), 30, "the rebuilt map is marked again")
                assert client.command(WRITE, 5 * OBJECT, BLOCK, b"C" * BLOCK)[0] == 0
                target.process.kill()
                target.process.wait()
            target.start()
            with RawNbd(nbd(target, "disk").socket, timeout=60) as client:
                assert client.command(READ, 4 * OBJECT, BLOCK) == (0, b"B" * BLOCK)
                assert client.command(READ, 5 * OBJECT, BLOCK) == (0, b"C" * BLOCK)


def test_target_does_not_use_the_cache_of_librbd_even_if_the_configuration_enables_it(ceph, tmp_path, nbd):
    image = ceph.create_image("8M")
    target = start_target(ceph, tmp_path, ceph.backend(image, cache="true")).start()
    with RawNbd(nbd(target, "disk").socket) as client:
        assert client.command(WRITE, 0, BLOCK, b"1" * BLOCK)[0] == 0
        target.kill()
    assert "cache=true has no effect" in target.log.read_text()
    ceph.rbd("export", "--no-progress", image, tmp_path / "out")
    assert (tmp_path / "out").read_bytes()[:BLOCK] == b"1" * BLOCK
