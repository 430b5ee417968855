# SPDX-License-Identifier: Apache-2.0
"""Served clones whose parents are deleted, migrated or flattened, so that librbd would read zeroes. Long; `make check-ceph` runs them."""

import contextlib
import json
import os
import threading

import pytest

from .cache_cluster import Cluster, ask, until
from .ceph_cluster import CephCluster
from .programs import Target, run
from .rawnbd import FLUSH, READ, WRITE, RawNbd
from .test_ceph import KIB, MIB, volume
from .test_ceph_faults import set_full

pytestmark = pytest.mark.skipif(not os.environ.get("WSS_CEPH_FAULTS"), reason="long: make check-ceph")

BLOCK = 4 * KIB
PATTERN = b"p" * BLOCK
GONE = "is deleted"
REPLACED = "was replaced"


def filled_image(ceph, folder, pool: str = "rbd") -> str:
    """Creates an image with 8 MiB of the pattern."""
    image = ceph.create_image("8M", pool=pool)
    (folder / "content").write_bytes(PATTERN * (8 * MIB // BLOCK))
    ceph.rbd("rm", "--no-progress", image)
    ceph.rbd("import", "--no-progress", folder / "content", image)
    return image


def clone(ceph, image: str, snapshot: str = "then") -> str:
    """Clones a new snapshot of the image."""
    ceph.rbd("snap", "create", "--no-progress", f"{image}@{snapshot}")
    ceph.rbd("snap", "protect", f"{image}@{snapshot}")
    ceph.images += 1
    made = f"rbd/clone{ceph.images}"
    ceph.rbd("clone", f"{image}@{snapshot}", made)
    return made


class Reads:
    """Reads a volume continuously, to detect even brief periods in which it reads as zeroes."""

    def __init__(self, address):
        self.answers, self.stopping = [], threading.Event()
        self.client = RawNbd(address, timeout=120)
        self.thread = threading.Thread(target=self.read)

    def read(self) -> None:
        while not self.stopping.is_set():
            for at in (0, 4 * MIB):
                self.answers.append(self.client.command(READ, at, BLOCK))

    def __enter__(self) -> "Reads":
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join(120)
        self.client.__exit__()
        assert not self.thread.is_alive()
        assert all(data == PATTERN for error, data in self.answers if error == 0), "reads returned zeroes instead of the data"

    @property
    def fails(self) -> bool:
        return self.answers[-1][0] != 0


def migrate(ceph, step: str, image: str, *more) -> None:
    """Runs a step of the migration of an image to an image of the same name."""
    ceph.rbd("migration", step, *([image] if step == "prepare" else ["--no-progress"]), *more, image)


@pytest.mark.parametrize("depth", [1, 2])
def test_clone_whose_parent_pool_is_deleted_never_reads_as_zeroes(ceph, tmp_path, nbd, depth):
    pool = f"parents-{depth}"
    ceph.create_pool(pool)
    image = filled_image(ceph, tmp_path, pool)
    flat = clone(ceph, image, "other")
    for _ in range(depth):
        image = clone(ceph, image)
    volumes = {"disk": ceph.backend(image), "flat": ceph.backend(flat)}
    with Target("tcp://127.0.0.1:0", volumes, tmp_path, "--control", str(tmp_path / "sock")) as target:
        def trouble(name: str) -> str:
            return next(one["trouble"] for one in ask(tmp_path / "sock", "volume.list") if one["name"] == name)

        with RawNbd(nbd(target, "disk").socket, timeout=120) as client, RawNbd(nbd(target, "flat").socket, timeout=120) as flattened:
            assert client.command(READ, 4 * MIB, BLOCK) == (0, PATTERN)
            ceph.rbd("flatten", flat)
            ceph.ceph("osd", "pool", "delete", pool, pool, "--yes-i-really-really-mean-it")
            answers = []
            until(lambda: answers.append(client.command(READ, 4 * MIB, BLOCK)) or GONE in trouble("disk"), 60, "the loss is shown")
            assert all(data == PATTERN for error, data in answers if error == 0), "reads returned zeroes instead of the deleted data"
            assert client.command(READ, 4 * MIB, BLOCK)[0] != 0
            for at in (0, 4 * MIB):
                assert flattened.command(READ, at, BLOCK) == (0, PATTERN)
            assert trouble("flat") == ""


def cannot_watch(ceph, pool: str) -> dict:
    """Options of a user that may only read the pool of the parents and therefore cannot watch them."""
    name = f"reader-{pool}"
    capabilities = ("mon", "profile rbd", "osd", f"profile rbd pool=rbd, profile rbd-read-only pool={pool}")
    return {"id": name, "keyring": ceph.user(name, *capabilities)}


@contextlib.contextmanager
def served_clones(ceph, tmp_path, image: str, options: dict):
    """A target with the volume `disk` on a clone of the image, and the read-only volume `snap` on a snapshot of another clone."""
    head = clone(ceph, image, "for-disk")
    other = clone(ceph, image, "for-snap")
    ceph.rbd("snap", "create", "--no-progress", f"{other}@then")
    volumes = {"disk": ceph.backend(head, **options), "snap": ceph.backend(f"{other}@then", **options) + ",ro"}
    with Target("tcp://127.0.0.1:0", volumes, tmp_path, "--control", str(tmp_path / "sock")) as target:
        yield target


def trouble(target, name: str) -> str:
    return next(one["trouble"] for one in ask(target.log.parent / "sock", "volume.list") if one["name"] == name)


@pytest.mark.parametrize("depth", [1, 2])
def test_parent_of_a_served_clone_cannot_be_migrated(ceph, tmp_path, nbd, depth):
    parent = filled_image(ceph, tmp_path)
    with served_clones(ceph, tmp_path, parent if depth == 1 else clone(ceph, parent), {}) as target:
        def refused() -> bool:
            done = run("rbd", "-c", ceph.conf, "migration", "prepare", parent, check=False)
            assert done.returncode in (0, 16), done.stderr
            return done.returncode == 16

        assert refused()
        assert trouble(target, "disk") == "" and trouble(target, "snap") == ""
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(READ, 4 * MIB, BLOCK) == (0, PATTERN)
    migrate(ceph, "prepare", parent)


@pytest.mark.parametrize("depth", [1, 2])
def test_served_clone_of_a_migrated_parent_never_reads_as_zeroes(ceph, tmp_path, nbd, depth):
    pool = f"only-read-{depth}"
    ceph.create_pool(pool)
    parent = filled_image(ceph, tmp_path, pool)
    direct = parent if depth == 1 else clone(ceph, parent)
    with served_clones(ceph, tmp_path, direct, cannot_watch(ceph, pool)) as target:
        with Reads(nbd(target, "disk").socket) as disk, Reads(nbd(target, "snap").socket) as snap:
            migrate(ceph, "prepare", parent)
            for name in ("disk", "snap"):
                until(lambda name=name: REPLACED in trouble(target, name), 30, "the target detects the change of the parent")
            migrate(ceph, "execute", parent)
            migrate(ceph, "commit", parent, "--force")
            until(lambda: disk.fails and snap.fails, 30, "reads fail")
        target.stop()
        target.start()
        for name in ("disk", "snap"):
            with RawNbd(nbd(target, name).socket) as client:
                assert [client.command(READ, at, BLOCK) for at in (0, 4 * MIB)] == [(0, PATTERN)] * 2
            assert trouble(target, name) == ""


def test_served_clone_never_reads_as_zeroes_after_an_aborted_migration_of_its_parent(ceph, tmp_path, nbd):
    ceph.create_pool("only-read-3")
    parent = filled_image(ceph, tmp_path, "only-read-3")
    head = clone(ceph, parent, "for-disk")
    other = clone(ceph, parent, "for-snap")
    ceph.rbd("snap", "create", "--no-progress", f"{other}@then")
    migrate(ceph, "prepare", parent)
    migrate(ceph, "execute", parent)
    user = cannot_watch(ceph, "only-read-3")
    volumes = {"disk": ceph.backend(head, **user), "snap": ceph.backend(f"{other}@then", **user) + ",ro"}
    with Target("tcp://127.0.0.1:0", volumes, tmp_path, "--control", str(tmp_path / "sock")) as target:
        with Reads(nbd(target, "disk").socket), Reads(nbd(target, "snap").socket):
            migrate(ceph, "abort", parent)
            for name in ("disk", "snap"):
                until(lambda name=name: REPLACED in trouble(target, name), 30, "the target detects the change of the parent")


@pytest.mark.parametrize("meanwhile", ["nothing", "flatten", "shrink"])
def test_acknowledged_writes_are_destaged_after_the_parent_was_migrated(ceph, tmp_path, nbd, meanwhile):
    """Changes of the image before the restart must have the same effect as changes while the target is stopped."""
    pool = f"home-{meanwhile}"
    ceph.create_pool(pool)
    parent = filled_image(ceph, tmp_path, pool)
    image = clone(ceph, clone(ceph, parent))
    with Cluster("tcp", tmp_path, engines=2, volumes={"disk": ceph.backend(image, **cannot_watch(ceph, pool))}) as cluster:
        cluster.policy("write-back")
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            migrate(ceph, "prepare", parent)
            until(lambda: REPLACED in volume(cluster)["trouble"], 30, "the target detects the change of the parent")
            # Data next to a write must not become zeroes, whether the write is acknowledged or not.
            acknowledged = [at for at in range(0, 6 * MIB, MIB) if client.command(WRITE, at, BLOCK, b"w" * BLOCK)[0] == 0]
            migrate(ceph, "execute", parent)
            migrate(ceph, "commit", parent, "--force")
        if meanwhile == "flatten":
            ceph.rbd("flatten", "--no-progress", image)
        elif meanwhile == "shrink":
            ceph.rbd("resize", "--no-progress", "--allow-shrink", "--size", "6M", image)
            ceph.rbd("resize", "--no-progress", "--size", "8M", image)
        assert cluster.target.stop() == 0
        cluster.target.start()
        with RawNbd(nbd(cluster.target, "disk").socket) as client:
            assert client.command(FLUSH, 0, 0)[0] == 0
            for at in range(0, 6 * MIB, MIB):
                if at in acknowledged:
                    assert client.command(READ, at, BLOCK) == (0, b"w" * BLOCK)
                assert client.command(READ, at + BLOCK, BLOCK) == (0, PATTERN)


def hidden_parent(ceph, image: str) -> str:
    """Returns a clone (format 2) of a snapshot in the trash, which Ceph removes with its last clone. Overwrites the image afterwards."""
    made = ceph.images = ceph.images + 1
    ceph.rbd("snap", "create", "--no-progress", f"{image}@hidden")
    ceph.rbd("clone", "--rbd-default-clone-format", "2", f"{image}@hidden", f"rbd/clone{made}")
    ceph.rbd("snap", "rm", "--no-progress", f"{image}@hidden")
    ceph.rbd("bench", "--io-type", "write", "--io-size", "4M", "--io-threads", "1", "--io-total", "8M", "--io-pattern", "seq", image)
    return f"rbd/clone{made}"


def test_flattening_a_clone_in_the_middle_of_a_chain_loses_no_data(ceph, tmp_path, nbd):
    middle = hidden_parent(ceph, filled_image(ceph, tmp_path))
    last = clone(ceph, middle)
    with Target("tcp://127.0.0.1:0", {"disk": ceph.backend(last)}, tmp_path, "--control", str(tmp_path / "sock")) as target:
        with RawNbd(nbd(target, "disk").socket) as client:
            assert client.command(READ, 0, BLOCK) == (0, PATTERN)
        ceph.rbd("flatten", "--no-progress", middle)
        ceph.rbd("flatten", "--no-progress", last)
        target.stop()
        target.start()
        with RawNbd(nbd(target, "disk").socket) as client:
            assert [client.command(READ, at, BLOCK) for at in (0, 4 * MIB)] == [(0, PATTERN)] * 2


def test_clone_whose_parent_in_the_trash_is_removed_by_flattening_remains_served(ceph, tmp_path, nbd):
    image = hidden_parent(ceph, filled_image(ceph, tmp_path))
    with Target("tcp://127.0.0.1:0", {"disk": ceph.backend(image)}, tmp_path, "--control", str(tmp_path / "sock")) as target:
        with Reads(nbd(target, "disk").socket) as disk:
            ceph.rbd("flatten", "--no-progress", image)
            served = len(disk.answers)
            until(lambda: len(disk.answers) > served + 500, 30, "the clone remains served")
            assert all(error == 0 for error, _ in disk.answers)
        assert trouble(target, "disk") == ""


def test_clone_of_a_flattened_clone_is_served_until_the_parent_that_librbd_reads_is_removed(ceph, tmp_path, nbd):
    first = filled_image(ceph, tmp_path)
    middle = clone(ceph, first)
    last = clone(ceph, middle)
    with Target("tcp://127.0.0.1:0", {"disk": ceph.backend(last)}, tmp_path, "--control", str(tmp_path / "sock")) as target:
        with Reads(nbd(target, "disk").socket) as disk:
            ceph.rbd("flatten", "--no-progress", middle)
            served = len(disk.answers)
            until(lambda: len(disk.answers) > served + 500, 30, "the clone remains served")
            assert not disk.fails and trouble(target, "disk") == ""
            ceph.rbd("snap", "unprotect", f"{first}@then")
            ceph.rbd("snap", "rm", "--no-progress", f"{first}@then")
            until(lambda: REPLACED in trouble(target, "disk"), 30, "the target detects the change of the parent")


def test_flattened_clone_remains_served_when_its_parent_is_removed(ceph, tmp_path, nbd):
    parent = filled_image(ceph, tmp_path)
    image = clone(ceph, parent)
    with Target("tcp://127.0.0.1:0", {"disk": ceph.backend(image)}, tmp_path, "--control", str(tmp_path / "sock")) as target:
        with Reads(nbd(target, "disk").socket) as disk:
            ceph.rbd("flatten", "--no-progress", image)
            ceph.rbd("snap", "unprotect", f"{parent}@then")
            ceph.rbd("snap", "rm", "--no-progress", f"{parent}@then")
            ceph.rbd("rm", "--no-progress", parent)
            served = len(disk.answers)
            until(lambda: len(disk.answers) > served + 500, 30, "the clone remains served")
            assert not disk.fails and trouble(target, "disk") == ""
            assert all(error == 0 for error, _ in disk.answers)


@pytest.fixture
def apart(tmp_path_factory):
    """A cluster that keeps the pools of parents and of clones on different OSDs."""
    with CephCluster(tmp_path_factory.mktemp("apart")) as cluster:
        for osd in range(3):
            cluster.ceph("osd", "crush", "rm-device-class", f"osd.{osd}", check=False)
        cluster.ceph("osd", "crush", "set-device-class", "near", "osd.2")
        cluster.ceph("osd", "crush", "set-device-class", "far", "osd.0", "osd.1")
        for pool, kind in (("clones", "near"), ("parents", "far")):
            cluster.ceph("osd", "crush", "rule", "create-replicated", kind, "default", "osd", kind)
            cluster.ceph("osd", "pool", "create", pool, "8", "8", "replicated", kind)
            cluster.rbd("pool", "init", pool)
        yield cluster


def test_flattened_clone_stops_watching_its_parent_in_a_full_pool(apart, tmp_path, nbd):
    parent = filled_image(apart, tmp_path, "parents")
    apart.rbd("snap", "create", "--no-progress", f"{parent}@then")
    apart.rbd("snap", "protect", f"{parent}@then")
    apart.rbd("clone", f"{parent}@then", "clones/disk")
    (tmp_path / "fill").write_bytes(os.urandom(160 * MIB))
    apart.rbd("import", "--no-progress", tmp_path / "fill", "parents/fill")

    def is_full(pool: str) -> bool:
        pools = json.loads(apart.ceph("osd", "dump", "-f", "json"))["pools"]
        return "full" in next(one for one in pools if one["pool_name"] == pool)["flags_names"].split(",")

    with Target("tcp://127.0.0.1:0", {"disk": apart.backend("clones/disk")}, tmp_path, "--control", str(tmp_path / "sock")) as target:
        with RawNbd(nbd(target, "disk").socket, timeout=120) as client:
            assert client.command(READ, 4 * MIB, BLOCK) == (0, PATTERN)
            until(lambda: "watcher=" in apart.rbd("status", parent), 20, "the target watches the parent")
            set_full(apart, 0.12)
            try:
                until(lambda: is_full("parents"), 60, "the pool of the parents is full")
                assert not is_full("clones")
                apart.rbd("flatten", "--no-progress", "clones/disk")
                until(lambda: "watcher=" not in apart.rbd("status", parent), 20, "the parent has no watcher")
                assert client.command(READ, 4 * MIB, BLOCK) == (0, PATTERN)
            finally:
                set_full(apart, 0.95)
