# SPDX-License-Identifier: Apache-2.0
"""The RDMA device is removed during I/O and returns. The driver releases it at once, and requests wait and then continue.

The removal in rxe waits for user processes that use the device, which is the target here. So the target is
stopped after the driver has released the device."""

from tests.lab.rdma import ADD, REMOVE
from tests.system.behaviour.rig import Rig


def test_driver_releases_a_removed_device_and_continues_when_it_returns(rig: Rig) -> None:
    device = rig.map("file", "reconnect_delay=1 fast_io_fail_tmo=120")
    load = rig.start_verifying(device, 8)
    mark = rig.vm.klog.mark()
    removal = rig.vm.start(REMOVE)
    rig.driver.wait_for_state("recovering", 30)
    rig.target.process.kill()
    assert removal.wait(30).status == 0
    assert "connection lost (the RDMA device is being removed)" in rig.said(mark)
    rig.vm.run(ADD)
    rig.target.start()
    rig.wait_live()
    rig.end_verified(load)
    rig.assert_no_error()


def test_driver_releases_a_removed_device_without_io(rig: Rig) -> None:
    device = rig.map("a", "reconnect_delay=1")
    rig.target.process.kill()
    rig.vm.run(REMOVE, 30)
    rig.driver.wait_for_state("recovering", 30)
    rig.vm.run(f"{ADD}; {REMOVE}", 30)
    rig.driver.unmap(device)
    rig.vm.run(ADD)
