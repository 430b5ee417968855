# SPDX-License-Identifier: Apache-2.0
"""The table of times counts each request once per stage, and the times of the stages add up to the total."""

from tests.system.behaviour.rig import DEBUGFS, Rig


def table(rig: Rig) -> dict[tuple[str, str], tuple[int, int, int]]:
    rows = {}
    for line in rig.vm.run(f"cat {DEBUGFS}/wss/session0/stages").stdout.splitlines():
        kind, stage, count, ns, *buckets = line.split()
        rows[kind, stage] = int(count), int(ns), sum(map(int, buckets))
    return rows


def test_times_of_the_stages_add_up_to_the_total(rig: Rig) -> None:
    device = rig.map("a")
    rig.vm.run(f"echo 1 > {DEBUGFS}/wss/measure")
    rig.dd(f"if={device} of=/dev/null bs=4k count=20 iflag=direct")
    rig.dd(f"if=/dev/zero of={device} bs=64k count=10 oflag=direct")
    rig.vm.run(f"echo 0 > {DEBUGFS}/wss/measure")
    rig.dd(f"if={device} of=/dev/null bs=4k count=5 iflag=direct")
    rows = table(rig)
    for kind, count in (("read", 20), ("write", 10)):
        stages = [rows[kind, stage] for stage in ("block", "map", "post", "remote", "finish")]
        total = rows[kind, "total"]
        assert {row[0] for row in stages} == {total[0]} == {count}, rows
        assert all(row[0] == row[2] for row in stages)
        assert abs(sum(row[1] for row in stages) - total[1]) < total[1] * 0.05, rows
    rig.vm.run(f"echo > {DEBUGFS}/wss/session0/stages")
    assert table(rig)["read", "total"] == (0, 0, 0)
