# SPDX-License-Identifier: Apache-2.0
"""Responses that are late, but in time, change nothing; those that are too late are handled."""

from tests.system.behaviour.rig import Rig


def test_late_answers_hurt_nobody(rig: Rig) -> None:
    device = rig.map("a")
    rig.set("force_delay_ms", 100)
    rig.set("force_delay", 20)
    rig.verify(device, "--bs=16k --iodepth=8", mib=1)
    assert rig.counters()["faults"] > 0 and rig.counters()["timeouts"] == 0
    rig.reset()  # while some responses are held back
    rig.wait_live()
    rig.verify(device, "--bs=16k --iodepth=8", mib=1)
    rig.assert_no_error()
