# SPDX-License-Identifier: Apache-2.0
"""Responses that are delayed, but arrive before the timeout, have no effect, not even during a reset."""

from tests.system.behaviour.rig import Rig


def test_driver_tolerates_late_responses(rig: Rig) -> None:
    device = rig.map("a")
    rig.set("force_delay_ms", 100)
    rig.set("force_delay", 20)
    rig.verify(device, "--bs=16k --iodepth=8", mib=1)
    assert rig.counters()["faults"] > 0 and rig.counters()["timeouts"] == 0
    rig.reset()  # at this time some responses are delayed
    rig.wait_live()
    rig.verify(device, "--bs=16k --iodepth=8", mib=1)
    rig.assert_no_error()
