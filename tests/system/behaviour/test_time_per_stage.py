# SPDX-License-Identifier: Apache-2.0
"""The table of times counts each answered request once per stage. The times of the stages add up to the
total."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from tests.system.behaviour.rig import DEBUGFS, Rig, wait_until


def table(rig: Rig) -> dict[tuple[str, str], tuple[int, int, int]]:
    rows = {}
    for line in rig.vm.run(f"cat {DEBUGFS}/wss/session0/stages").stdout.splitlines():
        kind, stage, count, ns, *buckets = line.split()
        rows[kind, stage] = int(count), int(ns), sum(map(int, buckets))
    return rows


def measure(rig: Rig, value: int) -> None:
    rig.vm.run(f"echo {value} > {DEBUGFS}/wss/measure")


@contextmanager
def outstanding_reads(rig: Rig, device: str, count: int) -> Iterator[None]:
    """Inside this context, `count` reads are outstanding. After it, they have succeeded."""
    before = rig.counters()["requests"]
    rig.target.process.signal(signal.SIGSTOP)
    try:
        readers = [rig.vm.start(f"dd if={device} of=/dev/null bs=4k count=1 skip={i} iflag=direct") for i in range(count)]
        wait_until(lambda: rig.counters()["requests"] == before + count, "the reads are outstanding", 60)
        yield
    finally:
        rig.target.process.signal(signal.SIGCONT)
    for reader in readers:
        result = reader.wait(60)
        assert result.status == 0, result.stderr


def test_times_of_the_stages_add_up_to_the_total(rig: Rig) -> None:
    device = rig.map("a")
    measure(rig, 1)
    rig.dd(f"if={device} of=/dev/null bs=4k count=20 iflag=direct")
    rig.dd(f"if=/dev/zero of={device} bs=64k count=10 oflag=direct")
    measure(rig, 0)
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


def test_requests_that_begin_before_measuring_are_not_counted(rig: Rig) -> None:
    device = rig.map("a", "queues=1 queue_depth=2 keepalive_tmo=off caps=0xb")
    measure(rig, 1)
    with outstanding_reads(rig, device, 2):  # These reads leave time stamps in both slots.
        measure(rig, 0)
    with outstanding_reads(rig, device, 2):
        measure(rig, 1)
    assert table(rig)["read", "total"] == (0, 0, 0)
    rig.dd(f"if={device} of=/dev/null bs=4k count=5 iflag=direct")
    measure(rig, 0)
    assert table(rig)["read", "total"][0] == 5


def test_commands_without_an_answer_are_not_counted(rig: Rig) -> None:
    rig.target.wssctl("volume create slow delay:op=read,us=3000000:ram:8M")
    device = rig.map("slow", "keepalive_tmo=120")
    rig.io_timeout(device, 1000)
    measure(rig, 1)
    rig.dd(f"if={device} of=/dev/null bs=4k count=1 iflag=direct", check=False)
    measure(rig, 0)
    assert rig.counters()["aborts"] == 3
    assert table(rig)["read", "total"] == (0, 0, 0)
    rig.driver.unmap(device)
    rig.target.wssctl("volume delete slow")
