# SPDX-License-Identifier: Apache-2.0
"""A map stays pending until its target has started, and then becomes a disk."""

from tests.system.behaviour.rig import Rig, wait_until


def pending(rig: Rig) -> str:
    return rig.vm.run("cat /sys/class/wss/pending").stdout


def test_pending_map_becomes_a_disk_when_its_target_starts(rig: Rig) -> None:
    rig.target.stop()
    line = f"target={rig.target.address} volume=a retry=on reconnect_delay=1"
    rig.vm.run(f"echo {line} > /sys/class/wss/map")
    assert pending(rig).startswith(f"pending0 {rig.target.address} a tries=1 "), pending(rig)
    assert "is a target listening there?" in pending(rig)
    wait_until(lambda: "tries=1" not in pending(rig), "the driver has tried again", 30)
    rig.target.start()
    wait_until(lambda: rig.vm.run("ls /dev/wss0", check=False).ok, "the disk exists", 30)
    assert pending(rig) == ""
    rig.verify("/dev/wss0")
