# SPDX-License-Identifier: Apache-2.0
"""Two sessions of the driver reserve one volume with the ioctls of linux/pr.h. The reservation survives a reconnection."""

from tests.system.behaviour.rig import Rig
from tests.system.persistent_reservations import order

CONFLICT = 0x18
WRITE_EXCLUSIVE_REGISTRANTS = 3  # enum pr_type


def writes(rig: Rig, device: str) -> bool:
    return rig.dd(f"if=/dev/zero of={device} bs=4k count=1 oflag=direct", check=False).status == 0


def test_driver_supports_persistent_reservations(rig: Rig) -> None:
    first, second = rig.map("file"), rig.map("file", "id_ext=0000000000000002")
    assert order(rig.vm, first, "register 0 0x11 0 0") == 0
    assert order(rig.vm, first, f"reserve 0x11 {WRITE_EXCLUSIVE_REGISTRANTS} 0") == 0
    assert order(rig.vm, second, f"reserve 0x22 {WRITE_EXCLUSIVE_REGISTRANTS} 0") == CONFLICT
    assert writes(rig, first) and not writes(rig, second)
    refused = rig.dd(f"if=/dev/zero of={second} bs=4k count=1 oflag=direct", check=False)
    assert "Invalid exchange" in refused.stderr, "the errno of the block layer for a conflict is EBADE"
    rig.reset()
    rig.wait_live()
    assert writes(rig, first), "the reconnected session must be the same initiator"
    assert order(rig.vm, second, "register 0 0x22 0 0") == 0
    assert order(rig.vm, second, f"preempt-abort 0x11 0x22 {WRITE_EXCLUSIVE_REGISTRANTS} 0") == CONFLICT, "the target must not confuse the reservation key with the service action key"
    assert order(rig.vm, second, f"preempt-abort 0x22 0x11 {WRITE_EXCLUSIVE_REGISTRANTS} 0") == 0
    assert writes(rig, second) and not writes(rig, first)
    assert order(rig.vm, second, "clear 0x22 0 0") == 0
    assert writes(rig, first)
