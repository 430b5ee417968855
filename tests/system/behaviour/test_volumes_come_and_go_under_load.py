# SPDX-License-Identifier: Apache-2.0
"""Volumes are created and deleted on the target without any effect on users of another volume."""

from tests.system.behaviour.rig import Rig


def test_volumes_come_and_go_under_load(rig: Rig) -> None:
    device = rig.map("a")
    load = rig.start_verifying(device, 6)
    for number in range(6):
        rig.target.wssctl(f"volume create t{number % 2} ram:1M")
        rig.target.wssctl(f"volume delete t{number % 2}")
    rig.end_verified(load)
    rig.assert_no_error()
