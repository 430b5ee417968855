# SPDX-License-Identifier: Apache-2.0
"""The driver refuses a login response with the old session's epoch, because writes of that session may still
be in flight."""

from tests.system.behaviour.rig import Rig, wait_until


def test_driver_refuses_a_login_response_with_the_old_epoch(rig: Rig) -> None:
    device = rig.map("a", "reconnect_delay=1")
    rig.set("force_stale", 1)
    rig.reset()
    wait_until(lambda: "did not end the previous session" in rig.last_error(), "the login has been refused for its epoch", 30)
    assert rig.driver.state() == "recovering"
    rig.set("force_stale", 0)
    rig.wait_live()
    rig.verify(device)
    rig.assert_no_error()
