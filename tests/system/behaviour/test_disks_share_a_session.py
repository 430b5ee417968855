# SPDX-License-Identifier: Apache-2.0
"""Two disks of one target share the queue pairs of a session. Neither disk starves."""

from tests.system.behaviour.rig import Rig


def test_disks_of_a_target_share_a_session(rig: Rig) -> None:
    first, second = rig.map("a", "queues=1 queue_depth=4"), rig.map("b")
    loads = [rig.start_verifying(device, 5, "--numjobs=1") for device in (first, second)]
    for load in loads:
        rig.end_verified(load)
    assert len(rig.target.ask("session list")["sessions"]) == 1
    rig.assert_no_error()
