# SPDX-License-Identifier: Apache-2.0
"""After a sleep of the machine every connection is checked, and continues."""

from tests.system.behaviour.rig import Rig, wait_until


def test_waking_up(rig: Rig) -> None:
    """The kernel's own test: processes are frozen for five seconds, devices are left alone."""
    device = rig.map("a")
    mark = rig.vm.klog.mark()
    rig.vm.run("echo freezer > /sys/power/pm_test && echo mem > /sys/power/state", 60)
    # The kernel waits in a loop on one processor. If that one should handle the answer to a keep-alive, the connection is lost.
    wait_until(lambda: any(f"resumed: {what}" in rig.said(mark) for what in ("checking the connection", "reconnecting")), "it looks", 20)
    rig.wait_live()
    rig.verify(device)
    rig.assert_no_error()
