# SPDX-License-Identifier: Apache-2.0
"""Two hundred hosts with five channels each at one reactor of one target."""

import subprocess
from pathlib import Path

from .cache_cluster import ask
from .programs import BUILD, Target, run

ROOT = Path(__file__).resolve().parents[2]
HOSTS, CHANNELS = 200, 5


def test_a_thousand_channels_log_in_to_one_reactor_and_do_io(tmp_path):
    program = tmp_path / "many_hosts"
    run("cc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", ROOT / "lib/initiator", ROOT / "tests/native/many_hosts.c", "-o", program,
        "-L", BUILD, "-l:libwss.so", f"-Wl,-rpath,{tmp_path}")  # fmt: skip
    (tmp_path / "libwss.so.0").symlink_to(BUILD / "libwss.so")
    control = tmp_path / "control"
    with Target("tcp://127.0.0.1:0", {"disk": "ram:64M"}, tmp_path, "--auth-off", "--reactors", "1", "--control", str(control)) as target:
        hosts = subprocess.Popen([program, target.address, "disk", str(HOSTS), str(CHANNELS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
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
