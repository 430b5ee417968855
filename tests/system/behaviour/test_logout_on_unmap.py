# SPDX-License-Identifier: Apache-2.0
"""The driver logs out on unmap, so that the target reports no failure."""

from tests.system.behaviour.rig import Rig, Target


def test_driver_logs_out_on_unmap(rig: Rig) -> None:
    with Target(rig.vm, {"v": "ram:1M"}, "--log-level debug", port=5556) as talkative:
        rig.driver.unmap(rig.driver.map(talkative, "v"))
        talkative.process.wait_for("closing the channel: the initiator logged out", 20)
