# SPDX-License-Identifier: Apache-2.0
"""A target is killed and restarted twice. Requests wait and then continue."""

from tests.system.behaviour.rig import Rig


def test_requests_survive_a_killed_and_restarted_target(rig: Rig) -> None:
    device = rig.map("file", "reconnect_delay=1 fast_io_fail_tmo=120")
    load = rig.start_verifying(device, 10)
    for _ in range(2):
        rig.target.process.kill()
        rig.driver.wait_for_state("recovering", 30)
        rig.target.start()
        rig.wait_live()
    rig.end_verified(load)
    rig.assert_no_error()
