# SPDX-License-Identifier: Apache-2.0
"""The driver first aborts a command of a hung target, then resets the unit, and then drops the connection."""

import signal

from tests.system.behaviour.rig import Rig


def test_driver_aborts_and_resets_before_it_drops_the_connection_to_a_hung_target(rig: Rig) -> None:
    device = rig.map("a", "keepalive_tmo=off caps=0xb fast_io_fail_tmo=120 reconnect_delay=1")
    rig.io_timeout(device, 1000)
    mark = rig.vm.klog.mark()
    rig.target.process.signal(signal.SIGSTOP)
    try:
        reader = rig.vm.start(f"dd if={device} of=/dev/null bs=4k count=1 iflag=direct")
        rig.driver.wait_for_state("recovering", 40)
    finally:
        rig.target.process.signal(signal.SIGCONT)
    assert reader.wait(60).status == 0, "the repeated read must succeed"
    counters = rig.counters()
    assert counters["resets"] == 1 and counters["aborts"] == 0 and counters["reconnects"] == 1, counters
    said = rig.said(mark)
    steps = [said.index(words) for words in ("aborting it", "ABORT TASK did not end the command: resetting the logical unit",
                                             "neither answers commands nor ends them")]
    assert steps == sorted(steps), said
    rig.assert_no_error()
