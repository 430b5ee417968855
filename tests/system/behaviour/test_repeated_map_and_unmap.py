# SPDX-License-Identifier: Apache-2.0
"""Repeated mapping and unmapping leaks no RDMA resources."""

from tests.lab.rdma import DEVICE
from tests.system.behaviour.rig import THOROUGH, Rig

LOOPS = 1000 if THOROUGH else 12


def test_repeated_map_and_unmap_leaks_no_rdma_resources(rig: Rig) -> None:
    before = rig.vm.run(f"rdma resource show {DEVICE}").stdout
    rig.vm.run(f"""set -e
        for i in $(seq {LOOPS}); do
            echo target={rig.target.address} volume=a queues=2 queue_depth=16 > /sys/class/wss/map
            dd if=/dev/wss0 of=/dev/null bs=64k count=2 iflag=direct status=none
            echo wss0 > /sys/class/wss/unmap
        done""", 60 + 3 * LOOPS)
    assert rig.vm.run(f"rdma resource show {DEVICE}").stdout == before
