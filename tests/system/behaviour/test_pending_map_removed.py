# SPDX-License-Identifier: Apache-2.0
"""A pending map is removed by its name or by unloading the module. A map with wrong arguments never becomes pending."""

from tests.system.behaviour.rig import Rig


def test_pending_map_can_be_removed(rig: Rig) -> None:
    nowhere = "target=10.87.0.1:5599 volume=v retry=on"
    for volume in ("v", "w"):
        rig.vm.run(f"echo {nowhere.replace('volume=v', 'volume=' + volume)} > /sys/class/wss/map", 30)
    assert len(rig.vm.run("cat /sys/class/wss/pending").stdout.splitlines()) == 2
    rig.vm.run("echo pending0 > /sys/class/wss/unmap", 30)
    assert not rig.vm.run("echo pending0 > /sys/class/wss/unmap", check=False).ok
    assert "'pending0' is not pending" in rig.vm.run("cat /sys/class/wss/last_error").stdout
    assert not rig.vm.run(f"echo {nowhere} queues=0 > /sys/class/wss/map", check=False).ok
    rig.vm.run("rmmod wss", 30)
    rig.driver.load()
