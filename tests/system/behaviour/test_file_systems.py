# SPDX-License-Identifier: Apache-2.0
"""ext4 and xfs can be created, filled and checked, and their discards reach the target."""

import pytest

from tests.system.behaviour.rig import RUN, Rig


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_file_system_works_on_a_disk(rig: Rig, kind: str) -> None:
    rig.target.wssctl("volume create fs ram:320M")
    device = rig.map("fs")
    make, check = {"ext4": ("mkfs.ext4 -q", "fsck.ext4 -fn"), "xfs": ("mkfs.xfs -q -f", "xfs_repair -n")}[kind]
    rig.vm.run(f"{make} {device} && mkdir -p {RUN}/mnt && mount {device} {RUN}/mnt", 120)
    rig.vm.run(f"cp -r tests/lab {RUN}/mnt && sync -f {RUN}/mnt && rm -r {RUN}/mnt/lab/inside && fstrim {RUN}/mnt", 120)
    rig.vm.run(f"diff -r -x inside -x __pycache__ tests/lab {RUN}/mnt/lab && umount {RUN}/mnt", 120)
    rig.vm.run(f"{check} {device}", 120)
    assert rig.target.ask("stats --target")["target"]["volumes"]["fs"]["discards"] > 0
    rig.assert_no_error()
    rig.driver.unmap(device)
    rig.target.wssctl("volume delete fs")
