# SPDX-License-Identifier: Apache-2.0
"""A disk may be unmapped before it was ever opened."""

from tests.system.behaviour.rig import Rig


def test_unmap_right_after_map(rig: Rig) -> None:
    rig.vm.run(f"""set -e
        for i in 1 2 3 4 5; do
            echo target={rig.target.address} volume=a > /sys/class/wss/map; echo wss0 > /sys/class/wss/unmap
            echo target={rig.target.address} volume=b > /sys/class/wss/map; echo wss0 force > /sys/class/wss/unmap
        done""", 90)
