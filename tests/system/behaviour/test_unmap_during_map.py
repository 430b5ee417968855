# SPDX-License-Identifier: Apache-2.0
"""Neither a map that waits for the partition table nor an unmap that waits for requests delays other operations."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig

OPTIONS = "keepalive_tmo=off reconnect_delay=1 fast_io_fail_tmo=off dev_loss_tmo=off"


def disks(rig: Rig) -> list[str]:
    return rig.vm.run("cd /sys/block; ls -d wss* 2> /dev/null || true").stdout.split()


def test_driver_unmaps_a_disk_whose_partition_table_cannot_be_read(rig: Rig) -> None:
    rig.vm.klog.allow(r"I/O error, dev wss|Buffer I/O error|unable to read", "the read is never answered")
    rig.set("force_drop", 1)
    mapping = rig.vm.start(f"exec wssctl map rdma://{rig.target.address} a {OPTIONS}")
    wait_until(lambda: disks(rig), "the disk exists", 30)
    rig.driver.unmap(f"/dev/{disks(rig)[0]}", force=True)
    mapping.wait(60)
    assert disks(rig) == []


def test_driver_unmaps_a_disk_while_another_unmap_waits_for_requests(rig: Rig) -> None:
    rig.vm.klog.allow(r"I/O error, dev wss|Buffer I/O error", "the disk is removed while it is being read")
    waited_for, other = rig.map("a", OPTIONS), rig.map("b")
    rig.io_timeout(waited_for, 30000)
    rig.set("force_drop", 1)
    reader = rig.vm.start(f"exec dd if={waited_for} of=/dev/null bs=4k count=1 iflag=direct")
    wait_until(lambda: rig.counters()["faults"] > 0, "its request has been sent", 30)
    rig.set("force_drop", 0)
    unmapping = rig.vm.start(f"exec wssctl unmap {waited_for} --force")
    wait_until(lambda: "D" in rig.vm.run("ps -C wssctl -o state=", check=False).stdout, "the unmap is waiting", 20)
    rig.driver.unmap(other)
    assert unmapping.running, "the other unmap must not wait for it"
    assert unmapping.wait(90).status == 0
    reader.wait(30)
    assert disks(rig) == []
