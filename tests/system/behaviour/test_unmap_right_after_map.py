# SPDX-License-Identifier: Apache-2.0
"""A disk can be unmapped immediately after its map."""

from tests.system.behaviour.rig import Rig


def test_disk_can_be_unmapped_right_after_its_map(rig: Rig) -> None:
    rig.vm.run(f"""set -e
        for i in 1 2 3 4 5; do
            echo target={rig.target.address} volume=a > /sys/class/wss/map; echo wss0 > /sys/class/wss/unmap
            echo target={rig.target.address} volume=b > /sys/class/wss/map; echo wss0 force > /sys/class/wss/unmap
        done""", 90)
