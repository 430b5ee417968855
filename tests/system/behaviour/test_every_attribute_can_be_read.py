# SPDX-License-Identifier: Apache-2.0
"""Every sysfs file of the driver can be read, both in a live session and during recovery."""

from tests.system.behaviour.rig import Rig


def test_every_attribute_can_be_read(rig: Rig) -> None:
    rig.map("a")
    read = ("cat /sys/class/wss/map /sys/class/wss/unmap /sys/class/wss/last_error /sys/class/wss/session0/stats/* /sys/block/wss0/wss/* "
            "$(find /sys/class/wss/session0/ -maxdepth 1 -type f -perm -444) > /dev/null")
    rig.vm.run(read)
    rig.target.process.kill()
    rig.driver.wait_for_state("recovering", 30)
    rig.vm.run(read)
    assert rig.last_error() != ""
