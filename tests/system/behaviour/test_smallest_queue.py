# SPDX-License-Identifier: Apache-2.0
"""The driver works with a queue depth of two, although slowly."""

from tests.system.behaviour.rig import Rig


def test_driver_works_with_the_smallest_queue_depth(rig: Rig) -> None:
    device = rig.map("a", "queues=1 queue_depth=2")
    rig.verify(device, "--bs=4k --iodepth=32", mib=1)
    rig.verify(device, "--bs=256k --iodepth=32", mib=4)
    rig.assert_no_error()
