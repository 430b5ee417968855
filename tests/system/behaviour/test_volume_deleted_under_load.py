# SPDX-License-Identifier: Apache-2.0
"""After a volume in use is deleted, its requests fail and other disks keep working."""

from tests.system.behaviour.rig import Rig, wait_until


def test_deletion_of_a_volume_under_load_fails_only_its_own_requests(rig: Rig) -> None:
    rig.target.wssctl("volume create gone ram:16M")
    gone, stays = rig.map("gone"), rig.map("a")
    load = rig.start_verifying(gone, 60)
    rig.target.wssctl("volume delete gone")
    assert load.wait(60).status != 0
    wait_until(lambda: rig.vm.run("cat /sys/block/wss0/wss/state").stdout.strip() == "absent", "the disk is absent", 20)
    assert "Input/output error" in rig.dd(f"if={gone} of=/dev/null bs=4k count=1 iflag=direct", check=False).stderr
    rig.verify(stays)
    rig.driver.assert_nothing_leaks()
