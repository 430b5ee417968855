# SPDX-License-Identifier: Apache-2.0
"""Writes that the target completes in one turn are answered by one message."""

from tests.system.behaviour.rig import Rig

ROUNDS = 20


def test_writes_done_together(rig: Rig) -> None:
    device = rig.map("a", "queues=1")
    # It depends on timing which writes complete in one turn, but with so many in flight some will.
    for _ in range(ROUNDS):
        rig.vm.run(f"fio --name=w --filename={device} --ioengine=libaio --direct=1 --bs=4k --iodepth=64 --size=4m --rw=randwrite", 180)
        if rig.counters()["batched_completions"] > 0:
            break
    counters = rig.counters()
    assert counters["batched_completions"] > 1, counters
    rig.verify(device, "--bs=4k --iodepth=64", mib=2)
    rig.assert_no_error()
