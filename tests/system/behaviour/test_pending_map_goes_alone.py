# SPDX-License-Identifier: Apache-2.0
"""Taking a pending map away does not end another map that is connecting to the same target at that time."""

import signal

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig


def test_pending_map_goes_alone(rig: Rig) -> None:
    rig.target.stop()
    rig.vm.run(f"echo target={rig.target.address} volume=a retry=on reconnect_delay=300 > /sys/class/wss/map", 30)
    assert "pending0 " in rig.vm.run("cat /sys/class/wss/pending").stdout
    rig.target.start()
    rig.target.process.signal(signal.SIGSTOP)
    try:
        other = rig.vm.start(f"wssctl map rdma://{rig.target.address} b")
        wait_until(lambda: in_sysfs_write(rig), "the other map waits for the target", 20)
        rig.vm.run("echo pending0 > /sys/class/wss/unmap", 30)
    finally:
        rig.target.process.signal(signal.SIGCONT)
    result = other.wait(60)
    assert result.status == 0, result.stderr
    rig.assert_no_error()


def in_sysfs_write(rig: Rig) -> bool:
    """Is a `wssctl map` inside the driver, waiting for its connection?"""
    return "wss_" in rig.vm.run("cat /proc/$(pgrep -n wssctl)/stack", check=False).stdout
