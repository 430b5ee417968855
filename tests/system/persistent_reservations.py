# SPDX-License-Identifier: Apache-2.0
"""Calls the ioctls of linux/pr.h in a machine of the lab."""

from tests.lab.vm import Vm

# Prints what the ioctl returns: 0, or a SAM status.
PR = """
import fcntl, os, struct, sys
path, order, *numbers = sys.argv[1:]
numbers = [int(number, 0) for number in numbers]
code, layout = {"register": (200, "QQII"), "reserve": (201, "QII"), "release": (202, "QII"),
                "preempt-abort": (204, "QQII"), "clear": (205, "QII")}[order]
number = 1 << 30 | struct.calcsize(layout) << 16 | ord("p") << 8 | code
fd = os.open(path, os.O_RDWR)
print(fcntl.ioctl(fd, number, bytearray(struct.pack(layout, *numbers))))
"""


def order(vm: Vm, device: str, words: str) -> int:
    return int(vm.run(["python3", "-S", "-c", PR, device, *words.split()]).stdout)
