# SPDX-License-Identifier: Apache-2.0
"""After the machine resumes from suspend, the driver checks every connection, and I/O continues."""

from tests.system.behaviour.rig import Rig, wait_until


def test_driver_checks_its_connections_after_a_resume(rig: Rig) -> None:
    """Uses the kernel's suspend test, which freezes processes for five seconds but does not suspend
    devices."""
    device = rig.map("a")
    mark = rig.vm.klog.mark()
    rig.vm.run("echo freezer > /sys/power/pm_test && echo mem > /sys/power/state", 60)
    # The kernel busy-waits on one processor. The connection is lost if the response to a keep-alive must be
    # handled on that processor.
    wait_until(lambda: any(f"resumed: {what}" in rig.said(mark) for what in ("checking the connection", "reconnecting")), "the driver checks the connection", 20)
    rig.wait_live()
    rig.verify(device)
    rig.assert_no_error()
