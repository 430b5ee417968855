# SPDX-License-Identifier: Apache-2.0
"""The driver repeats a command that ends with ABORTED COMMAND. If that happens every time, the request fails."""

from tests.system.behaviour.rig import Rig


def test_driver_repeats_aborted_commands(rig: Rig) -> None:
    device = rig.map("a")
    rig.set("force_error", 7)
    rig.verify(device, "--bs=16k --iodepth=8")
    counters = rig.counters()
    assert counters["retries"] > 0, counters
    rig.assert_no_error()
    rig.set("force_error", 1)
    assert "Input/output error" in rig.dd(f"if={device} of=/dev/null bs=4k count=1 iflag=direct", check=False).stderr
