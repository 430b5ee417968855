# SPDX-License-Identifier: Apache-2.0
"""A volume in use is switched to read-only and back."""

from tests.system.behaviour.rig import Rig, wait_until


def test_disk_follows_a_switch_of_its_volume_to_read_only_and_back(rig: Rig) -> None:
    device = rig.map("a")
    read_only = lambda: rig.vm.run(f"blockdev --getro {device}").stdout.strip() == "1"  # noqa: E731
    write = f"if=/dev/zero of={device} bs=4k count=1 oflag=direct"
    rig.dd(write)
    rig.target.wssctl("volume set a --read-only on")
    wait_until(read_only, "the disk is read-only", 20)
    assert rig.dd(write, check=False).status == 1
    rig.dd(f"if={device} of=/dev/null bs=4k count=1 iflag=direct")
    rig.target.wssctl("volume set a --read-only off")
    wait_until(lambda: not read_only(), "the disk is writable", 20)
    rig.dd(write)
