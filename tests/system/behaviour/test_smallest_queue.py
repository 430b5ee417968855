# SPDX-License-Identifier: Apache-2.0
"""A queue of two commands is slow but works."""

from tests.system.behaviour.rig import Rig


def test_smallest_queue(rig: Rig) -> None:
    device = rig.map("a", "queues=1 queue_depth=2")
    rig.verify(device, "--bs=4k --iodepth=32", mib=1)
    rig.verify(device, "--bs=256k --iodepth=32", mib=4)
    rig.assert_no_error()
