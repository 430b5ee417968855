# SPDX-License-Identifier: Apache-2.0
"""Scatterlists that cannot be mapped, and full send queues, delay requests but have no other effect."""

from tests.system.behaviour.rig import Rig


def test_driver_requeues_requests_of_a_busy_device(rig: Rig) -> None:
    device = rig.map("a")
    for fault in ("force_map", "force_post"):
        before = rig.counters()["faults"]
        rig.set(fault, 5)
        rig.verify(device, "--bs=16k --iodepth=8", mib=1)
        rig.verify(device, "--bs=64k --iodepth=1", mib=1)
        rig.set(fault, 0)
        assert rig.counters()["faults"] > before
    rig.assert_no_error()
