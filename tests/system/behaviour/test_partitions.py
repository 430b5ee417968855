# SPDX-License-Identifier: Apache-2.0
"""The kernel reads the partition table of a disk, and each partition is a block device."""

from tests.system.behaviour.rig import Rig

# A master boot record with two Linux partitions of 8 MiB.
TABLE = """
import struct, sys
entries = [struct.pack("<BBBBBBBBII", 0, 0, 0, 0, 0x83, 0, 0, 0, start, 16384) for start in (2048, 18432)]
sector = bytes(446) + b"".join(entries).ljust(64, bytes(1)) + bytes([0x55, 0xaa])
open(sys.argv[1], "r+b").write(sector)
"""


def test_disk_has_a_device_for_each_partition(rig: Rig) -> None:
    device = rig.map("a")
    rig.vm.write("/tmp/table.py", TABLE)
    rig.vm.run(f"python3 -B /tmp/table.py {device} && sync {device} && blockdev --rereadpt {device}; rm /tmp/table.py")
    rig.vm.run("test -b /dev/wss0p1 && test -b /dev/wss0p2")
    rig.dd("if=/dev/zero of=/dev/wss0p2 bs=64k count=8 oflag=direct")
    rig.driver.unmap(device)
    device = rig.map("a")
    assert rig.vm.run("ls /sys/block/wss0 | grep -c ^wss0p").stdout.strip() == "2"
    rig.dd(f"if=/dev/zero of={device} bs=64k count=1 oflag=direct")
