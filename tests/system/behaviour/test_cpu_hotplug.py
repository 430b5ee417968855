# SPDX-License-Identifier: Apache-2.0
"""A processor is taken offline and online again under load."""

from tests.system.behaviour.rig import Rig


def test_driver_tolerates_cpu_hotplug(rig: Rig) -> None:
    device = rig.map("a")
    load = rig.start_verifying(device, 6)
    for _ in range(2):
        rig.vm.run("echo 0 > /sys/devices/system/cpu/cpu1/online")
        rig.dd(f"if={device} of=/dev/null bs=64k count=16 iflag=direct skip=300")
        rig.vm.run("echo 1 > /sys/devices/system/cpu/cpu1/online")
    rig.end_verified(load)
    rig.assert_no_error()
