# SPDX-License-Identifier: Apache-2.0
"""Repeated mapping and unmapping leaks no RDMA resources."""

from tests.lab.guest import wait_until
from tests.lab.rdma import DEVICE
from tests.system.behaviour.rig import THOROUGH, Rig

LOOPS = 1000 if THOROUGH else 12


def map_and_unmap(rig: Rig, loops: int) -> None:
    rig.vm.run(f"""set -e
        for i in $(seq {loops}); do
            echo target={rig.target.address} volume=a queues=2 queue_depth=16 > /sys/class/wss/map
            dd if=/dev/wss0 of=/dev/null bs=64k count=2 iflag=direct status=none
            echo wss0 > /sys/class/wss/unmap
        done""", 60 + 3 * loops)


def test_repeated_map_and_unmap_leaks_no_rdma_resources(rig: Rig) -> None:
    def resources() -> str:
        return rig.vm.run(f"rdma resource show {DEVICE}").stdout

    def no_queue_pair() -> bool:
        return " qp 1 " in resources()  # that of the connection manager

    # The target keeps the completion queue that it creates for its first connection.
    map_and_unmap(rig, 1)
    wait_until(no_queue_pair, "the target has closed its side of the first connection", 30)
    before = resources()
    map_and_unmap(rig, LOOPS)
    wait_until(lambda: resources() == before, "the resources of all connections are free", 30)
