# SPDX-License-Identifier: Apache-2.0
"""If a response is lost, the driver aborts the command and repeats it. The connection stays."""

from tests.system.behaviour.rig import Rig


def test_driver_aborts_and_repeats_a_command_whose_response_is_lost(rig: Rig) -> None:
    device = rig.map("a")
    rig.io_timeout(device, 1000)
    rig.set("force_drop", 40)
    rig.verify(device, "--bs=16k --iodepth=4", mib=2)
    rig.set("force_drop", 0)
    counters = rig.counters()
    assert counters["timeouts"] > 0 and counters["aborts"] > 0 and counters["faults"] > 0, counters
    assert counters["reconnects"] == counters["resets"] == 0, counters
    rig.assert_no_error()
