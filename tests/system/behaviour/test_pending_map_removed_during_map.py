# SPDX-License-Identifier: Apache-2.0
"""The removal of a pending map does not affect another map that is connecting to the same target."""

import signal

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig


def test_removal_of_a_pending_map_affects_no_other_map(rig: Rig) -> None:
    rig.target.stop()
    rig.vm.run(f"echo target={rig.target.address} volume=a retry=on reconnect_delay=300 > /sys/class/wss/map", 30)
    assert "pending0 " in rig.vm.run("cat /sys/class/wss/pending").stdout
    rig.target.start()
    rig.target.process.signal(signal.SIGSTOP)
    try:
        other = rig.vm.start(f"wssctl map rdma://{rig.target.address} b")
        wait_until(lambda: in_sysfs_write(rig), "the other map is waiting for the target", 20)
        rig.vm.run("echo pending0 > /sys/class/wss/unmap", 30)
    finally:
        rig.target.process.signal(signal.SIGCONT)
    result = other.wait(60)
    assert result.status == 0, result.stderr
    rig.assert_no_error()


def test_removed_pending_map_creates_no_disk(rig: Rig) -> None:
    rig.target.stop()
    rig.vm.run(f"echo target={rig.target.address} volume=a retry=on reconnect_delay=5 > /sys/class/wss/map", 30)
    rig.target.start()
    rig.target.process.signal(signal.SIGSTOP)
    try:
        other = rig.vm.start(f"wssctl map rdma://{rig.target.address} b")
        wait_until(lambda: in_sysfs_write(rig), "the other map is waiting for the target", 20)
        wait_until(lambda: rig.vm.run("grep -l wss_pending_work /proc/[0-9]*/stack", check=False).stdout,
                   "the pending map is waiting for the connection of the other", 30)
        removal = rig.vm.start("echo pending0 > /sys/class/wss/unmap")
        wait_until(lambda: not rig.vm.run("cat /sys/class/wss/pending").stdout, "the list of pending maps is empty", 20)
    finally:
        rig.target.process.signal(signal.SIGCONT)
    # On a slow machine the other map may have timed out by now. Without its removal, the pending map would
    # then connect by itself.
    others = 1 if other.wait(60).status == 0 else 0
    assert removal.wait(60).status == 0
    assert rig.vm.run("ls /sys/class/block | grep -c '^wss[0-9]*$'", check=False).stdout.strip() == str(others)
    # If the other map is gone, there is neither a session nor its counters.
    if others:
        rig.assert_no_error()


def in_sysfs_write(rig: Rig) -> bool:
    """Returns whether a `wssctl map` is inside the driver, waiting for its connection."""
    return "wss_" in rig.vm.run("cat /proc/$(pgrep -n wssctl)/stack", check=False).stdout
