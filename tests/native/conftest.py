# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a target over each fabric, nbdkit with the WSS plugin for it, and a Ceph cluster."""

import pytest

from .ceph_cluster import CephCluster
from .programs import Nbd, Target


@pytest.fixture(params=["tcp", "shm"])
def listen(request, tmp_path):
    """An address at which a target can listen, for each fabric that needs no hardware."""
    return "tcp://127.0.0.1:0" if request.param == "tcp" else f"shm://{tmp_path}/wss.sock"


@pytest.fixture
def target(listen, tmp_path):
    """A target with a RAM volume and a file volume. The file is on the disk of the source tree, because /tmp
    may be in memory."""
    with Target(listen, {"ram": "ram:1536M", "file": f"aio:{tmp_path}/file.img,size=256M,create"}, tmp_path) as running:
        yield running


@pytest.fixture
def nbd(tmp_path):
    """Starts nbdkit servers, which end with the test."""
    started = []

    def start(target, volume, **options):
        server = Nbd(target.address, volume, tmp_path / f"nbd-{len(started)}", options)
        started.append(server)
        return server.start()

    yield start
    for server in reversed(started):
        # This is shown if the test fails.
        print(f"--- {server.log}\n{server.log.read_text(errors='replace')}")
        server.stop()


@pytest.fixture(scope="module")
def ceph(tmp_path_factory):
    """One cluster for all tests of a file."""
    with CephCluster(tmp_path_factory.mktemp("ceph")) as cluster:
        yield cluster
