# SPDX-License-Identifier: Apache-2.0
"""A map creates a disk with the size of its volume, and an unmap removes it."""

from tests.system.behaviour.rig import Rig


def test_map_creates_a_disk_and_unmap_removes_it(rig: Rig) -> None:
    device = rig.map("a")
    assert rig.vm.run(f"blockdev --getsize64 {device}").stdout.strip() == str(32 << 20)
    rig.dd(f"if={device} of=/dev/null bs=64k count=4 iflag=direct")
    rig.driver.unmap(device)
    assert rig.vm.run(f"test ! -e {device}").ok
