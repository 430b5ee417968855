# SPDX-License-Identifier: Apache-2.0
"""The creation and deletion of volumes on the target have no effect on users of another volume."""

from tests.system.behaviour.rig import Rig


def test_creation_and_deletion_of_volumes_do_not_disturb_a_load_on_another(rig: Rig) -> None:
    device = rig.map("a")
    load = rig.start_verifying(device, 6)
    for number in range(6):
        rig.target.wssctl(f"volume create t{number % 2} ram:1M")
        rig.target.wssctl(f"volume delete t{number % 2}")
    rig.end_verified(load)
    rig.assert_no_error()
