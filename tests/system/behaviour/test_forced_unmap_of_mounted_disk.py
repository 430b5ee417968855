# SPDX-License-Identifier: Apache-2.0
"""After a forced unmap of the disk below a mounted file system, the file system gets errors and can be
unmounted. The disk can be mapped again."""

from tests.system.behaviour.rig import RUN, Rig


def test_mounted_file_system_can_be_unmounted_after_a_forced_unmap(rig: Rig) -> None:
    for _ in range(2):
        device = rig.map("a")
        rig.vm.run(f"mkfs.ext4 -q -F {device} && mkdir -p {RUN}/mnt && mount {device} {RUN}/mnt")
        rig.vm.klog.allow(r"EXT4-fs|JBD2|Buffer I/O error|I/O error, dev wss|Aborting journal", "the test removes the disk")
        rig.vm.run(f"dd if=/dev/zero of={RUN}/mnt/f bs=64k count=8 status=none")
        rig.driver.unmap(device, force=True)
        rig.vm.run(f"sync; umount {RUN}/mnt", 60, check=False)
        assert not rig.vm.run(f"mountpoint -q {RUN}/mnt", check=False).ok
