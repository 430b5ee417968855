# SPDX-License-Identifier: Apache-2.0
"""The target sends one response for writes that it completes in the same turn of its reactor."""

from tests.system.behaviour.rig import Rig

ROUNDS = 20


def test_target_batches_completions_of_writes(rig: Rig) -> None:
    device = rig.map("a", "queues=1")
    # Which writes complete in the same turn depends on timing. With 64 in flight, some do.
    for _ in range(ROUNDS):
        rig.vm.run(f"fio --name=w --filename={device} --ioengine=libaio --direct=1 --bs=4k --iodepth=64 --size=4m --rw=randwrite", 180)
        if rig.counters()["batched_completions"] > 0:
            break
    counters = rig.counters()
    assert counters["batched_completions"] > 1, counters
    rig.verify(device, "--bs=4k --iodepth=64", mib=2)
    rig.assert_no_error()
