# SPDX-License-Identifier: Apache-2.0
"""Tests hundreds of hosts, with five channels each, on one reactor of one target."""

import subprocess
from pathlib import Path

import pytest

from .cache_cluster import ask
from .programs import BUILD, Target, run

ROOT = Path(__file__).resolve().parents[2]
HOSTS, CHANNELS = 200, 5


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    made = tmp_path_factory.mktemp("hosts") / "many_hosts"
    run("cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", ROOT / "lib/initiator", ROOT / "tests/native/many_hosts.c", "-o", made,
        "-L", BUILD, "-l:libwss.so", f"-Wl,-rpath,{made.parent}")  # fmt: skip
    (made.parent / "libwss.so.0").symlink_to(BUILD / "libwss.so")
    return made


@pytest.fixture
def control(tmp_path):
    return tmp_path / "control"


@pytest.fixture
def one_reactor(tmp_path, control):
    with Target("tcp://127.0.0.1:0", {"disk": "ram:64M"}, tmp_path, "--auth-off", "--reactors", "1", "--control", str(control)) as target:
        yield target


def test_one_reactor_serves_a_thousand_channels(program, one_reactor, control):
    hosts = subprocess.Popen([program, one_reactor.address, "disk", str(HOSTS), str(CHANNELS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)  # fmt: skip
    try:
        said = hosts.stdout.readline()
        assert said == "connected\n", hosts.stderr.read()
        sessions = ask(control, "session.list")["sessions"]
        assert [len(session["peers"]) for session in sessions] == [CHANNELS] * HOSTS
        assert sum(session["counters"]["reads"] for session in sessions) >= HOSTS * CHANNELS
        _, errors = hosts.communicate("\n", timeout=120)
        assert hosts.returncode == 0, errors
    finally:
        hosts.kill()
        hosts.wait()


def test_one_host_cannot_exhaust_the_channels_of_a_target(program, one_reactor):
    done = run(program, one_reactor.address, "disk", "65", "16", check=False)
    assert done.returncode == 1
    assert "host 64" in done.stderr and "at most 1024 channels of one source" in done.stderr
