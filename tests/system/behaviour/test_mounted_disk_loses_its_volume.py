# SPDX-License-Identifier: Apache-2.0
"""Forced unmap under a mounted file system: it gets errors, can be unmounted, and the number is free again."""

from tests.system.behaviour.rig import RUN, Rig


def test_mounted_disk_loses_its_volume(rig: Rig) -> None:
    for _ in range(2):
        device = rig.map("a")
        rig.vm.run(f"mkfs.ext4 -q -F {device} && mkdir -p {RUN}/mnt && mount {device} {RUN}/mnt")
        rig.vm.klog.allow(r"EXT4-fs|JBD2|Buffer I/O error|I/O error, dev wss|Aborting journal", "its disk is taken away on purpose")
        rig.vm.run(f"dd if=/dev/zero of={RUN}/mnt/f bs=64k count=8 status=none")
        rig.driver.unmap(device, force=True)
        rig.vm.run(f"sync; umount {RUN}/mnt", 60, check=False)
        assert not rig.vm.run(f"mountpoint -q {RUN}/mnt", check=False).ok
