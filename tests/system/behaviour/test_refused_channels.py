# SPDX-License-Identifier: Apache-2.0
"""The driver repeats a refused login until it succeeds."""

from tests.system.behaviour.rig import Rig


def test_driver_repeats_refused_logins(rig: Rig) -> None:
    device = rig.map("a", "queues=2 reconnect_delay=1")
    load = rig.start_verifying(device, 6)
    rig.set("force_reject", 2)
    for _ in range(2):
        rig.reset()
        rig.wait_live()
    rig.set("force_reject", 1)
    rig.reset()
    rig.driver.wait_for_state("recovering")
    rig.vm.run("sleep 2")
    assert "login rejected" in rig.last_error()
    rig.set("force_reject", 0)
    rig.wait_live()
    rig.end_verified(load)
    rig.assert_no_error()
