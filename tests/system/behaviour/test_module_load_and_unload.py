# SPDX-License-Identifier: Apache-2.0
"""The module is repeatedly loaded together with a mapped disk, used, and unloaded."""

from tests.system.behaviour.rig import THOROUGH, Rig
from tests.system.block_setup import MODULE

LOOPS = 100 if THOROUGH else 4


def test_module_can_be_loaded_and_unloaded_repeatedly(rig: Rig) -> None:
    rig.vm.run(f"""set -e
        for i in $(seq {LOOPS}); do
            rmmod wss
            insmod {MODULE} target={rig.target.address} volume=a queue_depth=16
            dd if=/dev/wss0 of=/dev/null bs=64k count=2 iflag=direct status=none
        done""", 60 + 5 * LOOPS)
