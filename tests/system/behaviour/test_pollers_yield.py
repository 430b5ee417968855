# SPDX-License-Identifier: Apache-2.0
"""A poller that finds no completion yields the processor to other tasks."""

from tests.system.behaviour.rig import Rig


def test_poller_without_completions_yields_the_processor(rig: Rig) -> None:
    device = rig.map("a", "queues=1 poll_queues=1")
    polled = f"fio --name=p --filename={device} --ioengine=io_uring --hipri --direct=1 --bs=4k --size=1m --rw=randread"
    busy = rig.vm.start("exec taskset -c 0 sh -c 'while :; do :; done'")
    try:
        rig.vm.run(f"taskset -c 0 {polled}", 180)
    finally:
        busy.kill()
    assert rig.counters()["polls_yielded"] > 0, rig.counters()
    rig.assert_no_error()
