# SPDX-License-Identifier: Apache-2.0
"""After a loss of the connection, the route to the target may use a different RDMA device. The driver does
not use a device whose request limit is below that of the disks. It logs the reason, and requests wait. The
session continues over a device whose limit is high enough."""

from tests.lab.guest import wait_until
from tests.lab.rdma import DEVICE
from tests.system.behaviour.rig import Rig


def test_driver_refuses_a_device_with_lower_limits_than_its_disks_need(rig: Rig) -> None:
    device = rig.map("a", "reconnect_delay=1 fast_io_fail_tmo=off")
    load = rig.start_verifying(device, 20, "--bs=256k --bssplit=256k/100")
    mark = rig.vm.klog.mark()
    rig.set("force_segments", 15)
    rig.reset()
    wait_until(lambda: "registers at most 15 segments at once, but the session's disks need 256" in rig.last_error(), "the device has been refused", 30)
    assert rig.driver.state() == "recovering" and load.running
    assert f"cannot reconnect: RDMA device {DEVICE} registers at most 15 segments at once" in rig.said(mark)
    rig.set("force_segments", 0)
    rig.wait_live()
    rig.end_verified(load)
    rig.assert_no_error()


def test_driver_maps_disks_with_the_limits_of_the_device(rig: Rig) -> None:
    rig.set("force_segments", 15)
    device = rig.map("a")
    assert rig.vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/queue/max_segments").stdout.strip() == "15"
    rig.verify(device, "--bs=256k --iodepth=4")
    rig.set("force_segments", 0)
    rig.reset()
    rig.wait_live()
    rig.verify(device, "--bs=256k --iodepth=4")
    rig.assert_no_error()
