# SPDX-License-Identifier: Apache-2.0
"""Requests of 4 and 8 MiB, direct and buffered, are far larger than one command can be, and are split."""

from tests.system.behaviour.rig import Rig


def test_driver_executes_requests_larger_than_a_command(rig: Rig) -> None:
    device = rig.map("a")
    rig.vm.run("head -c 8M /dev/urandom > /tmp/large")
    for flags, size in (("oflag=direct", 4), ("oflag=direct", 8), ("conv=fsync", 8)):
        rig.dd(f"if=/tmp/large of={device} bs={size}M count=1 {flags}")
        rig.vm.run("echo 1 > /proc/sys/vm/drop_caches")
        rig.vm.run(f"head -c {size}M {device} | cmp -n {size << 20} - /tmp/large")
    rig.vm.run("rm /tmp/large")
    rig.assert_no_error()
