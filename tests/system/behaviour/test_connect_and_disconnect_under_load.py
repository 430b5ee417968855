# SPDX-License-Identifier: Apache-2.0
"""A disk is mapped and unmapped repeatedly, in its own session, during a load on another disk of the same target."""

from tests.system.behaviour.rig import THOROUGH, Rig

LOOPS = 1000 if THOROUGH else 8


def test_sessions_connect_and_disconnect_under_load(rig: Rig) -> None:
    device = rig.map("a")
    load = rig.start_verifying(device, 10 if not THOROUGH else 1200)
    rig.vm.run(f"""set -e
        for i in $(seq {LOOPS}); do
            echo target={rig.target.address} volume=b id_ext=00000000000000aa queues=1 queue_depth=16 > /sys/class/wss/map
            dd if=/dev/wss1 of=/dev/null bs=64k count=2 iflag=direct status=none
            echo wss1 > /sys/class/wss/unmap
        done""", 60 + 3 * LOOPS)
    if THOROUGH:
        load.signal(2)
    rig.end_verified(load, 180, interrupted=THOROUGH)
    rig.assert_no_error()
