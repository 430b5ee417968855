# SPDX-License-Identifier: Apache-2.0
"""The disk of a resized volume has the new size at once, with a uevent and without a manual rescan."""

from tests.system.behaviour.rig import Rig, wait_until


def test_disk_follows_a_resize_with_a_uevent(rig: Rig) -> None:
    device = rig.map("file")
    monitor = rig.vm.start("timeout 60 udevadm monitor --kernel --property --subsystem-match=block")
    monitor.wait_for("KERNEL - the kernel uevent", 20)
    size = lambda: int(rig.vm.run(f"blockdev --getsize64 {device}").stdout)  # noqa: E731
    rig.target.wssctl("volume resize file 48M")
    wait_until(lambda: size() == 48 << 20, "the disk has grown", 20)
    monitor.wait_for("RESIZE=1", 20)
    rig.target.wssctl("volume resize file 32M")
    wait_until(lambda: size() == 32 << 20, "the disk has shrunk", 20)
    monitor.kill()
