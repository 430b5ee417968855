# SPDX-License-Identifier: Apache-2.0
"""The target refuses a command that was changed in transit, closes the connection and logs the reason. No data is damaged."""

from tests.system.behaviour.rig import Rig, wait_until


def test_target_refuses_tampered_commands(rig: Rig) -> None:
    device, other = rig.map("a", "reconnect_delay=1"), rig.map("b")
    load = rig.start_verifying(device, 10)
    before = rig.target.counters()["violations"]
    rig.set("force_tamper", 1)
    wait_until(lambda: rig.target.counters()["violations"] > before, "the target has refused the command", 30)
    rig.target.process.wait_for("closing the channel, the peer broke the protocol: a message of an unknown type", 30)
    # All messages of the new connection are damaged as well, so nothing gets through.
    wait_until(lambda: "refused a message of unknown type" in rig.last_error(), "the driver reports the reason", 30)
    rig.set("force_tamper", 0)
    rig.wait_live()
    rig.end_verified(load)
    rig.verify(other)
    rig.assert_no_error()
