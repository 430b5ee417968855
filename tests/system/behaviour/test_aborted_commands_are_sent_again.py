# SPDX-License-Identifier: Apache-2.0
"""A command that ends with ABORTED COMMAND is repeated, and fails if it always does."""

from tests.system.behaviour.rig import Rig


def test_aborted_commands_are_sent_again(rig: Rig) -> None:
    device = rig.map("a")
    rig.set("force_error", 7)
    rig.verify(device, "--bs=16k --iodepth=8")
    counters = rig.counters()
    assert counters["retries"] > 0, counters
    rig.assert_no_error()
    rig.set("force_error", 1)
    assert "Input/output error" in rig.dd(f"if={device} of=/dev/null bs=4k count=1 iflag=direct", check=False).stderr
