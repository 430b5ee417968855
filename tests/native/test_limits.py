# SPDX-License-Identifier: Apache-2.0
"""Tests that the limits of a volume hold approximately, delay no other volume, can be changed at run time,
and survive a restart."""

import json
import time

import pytest

from .cache_cluster import ControlError, ask
from .programs import BUILD, Target, run
from .rawnbd import READ, RawNbd

MIB = 1 << 20


def test_limit_holds_approximately_and_delays_no_other_volume(listen, nbd, tmp_path):
    control = tmp_path / "control.sock"
    volumes = {"limited": "ram:16M,bandwidth=2M", "free": "ram:16M"}
    with Target(listen, volumes, tmp_path, "--control", str(control)) as target:
        slow, fast = nbd(target, "limited"), nbd(target, "free")
        with RawNbd(slow.socket) as limited, RawNbd(fast.socket) as free:
            began = time.monotonic()
            for number in range(4):
                assert limited.command(READ, number * MIB, MIB)[0] == 0
                for other in range(20):
                    assert free.command(READ, other * 4096, 4096)[0] == 0
            assert time.monotonic() - began >= 1.2, "4 MiB at 2 MiB/s, of which 1 MiB may pass at once"
            began = time.monotonic()
            ask(control, "volume.set", name="limited", bandwidth="none")
            for number in range(8):
                assert limited.command(READ, number * MIB, MIB)[0] == 0
        totals = json.loads(run(BUILD / "wssctl", "--control", control, "stats", "--json").stdout)["target"]["volumes"]
        assert totals["limited"]["delayed"] >= 2 and totals["limited"]["delayed_ns"] > 500_000_000
        assert totals["free"]["delayed"] == 0


def test_statistics_count_sessions_and_channels_and_show_their_limits(tmp_path, nbd):
    control = tmp_path / "control.sock"
    with Target(f"shm://{tmp_path}/serve", {"disk": "ram:1M"}, tmp_path, "--control", str(control), "--auth-off") as target:
        server = nbd(target, "disk")
        with RawNbd(server.socket) as client:
            assert client.command(READ, 0, 4096)[0] == 0
            use = json.loads(run(BUILD / "wssctl", "--control", control, "stats", "--json").stdout)["target"]["sessions"]
            assert use["sessions"] == 1 and use["channels"] >= 1
            assert use["sessions_per_name_max"] == use["sessions_per_source_max"] == 256
            assert use["refused_name_sessions"] == use["refused_source_sessions"] == 0


def test_limits_can_be_changed_and_survive_a_restart_and_invalid_ones_are_refused(tmp_path):
    control, state = tmp_path / "control.sock", tmp_path / "state.json"
    target = Target(f"shm://{tmp_path}/serve", {"disk": "ram:1M,iops=500,bandwidth=100M"}, tmp_path, "--control", str(control),
                    "--auth-off", "--state", str(state))

    def wssctl(*words, check=True):
        return run(BUILD / "wssctl", "--control", control, "volume", *words, check=check)

    def limits():
        volume = ask(control, "volume.list")[0]
        return volume["iops"], volume["bandwidth"]

    with target:
        assert limits() == (500, 100 * MIB)
        assert "500/s 100 MiB/s" in wssctl("list").stdout
        wssctl("set", "disk", "--iops", "none", "--bandwidth", "200M")
        assert limits() == (0, 200 * MIB)
        wssctl("set", "disk", "--iops", "9")
        for words in (["--iops", "-1"], ["--iops", str(1 << 64)], ["--bandwidth", str(1 << 64)], ["--bandwidth", "1"], []):
            assert wssctl("set", "disk", *words, check=False).returncode != 0, words
        for wrong in ({"iops": -1}, {"iops": 1 << 64}, {"iops": 1.5}, {"bandwidth": [1]}, {"iops": None}, {}):
            with pytest.raises(ControlError):
                ask(control, "volume.set", name="disk", **wrong)
        assert limits() == (9, 200 * MIB)
        wssctl("create", "more", "ram:1M", "--iops", "11")
    with target:
        assert limits() == (9, 200 * MIB), "the limits that the operator set must override the configuration"
        assert ask(control, "volume.list")[1]["iops"] == 11
