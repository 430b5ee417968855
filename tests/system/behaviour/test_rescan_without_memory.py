# SPDX-License-Identifier: Apache-2.0
"""A driver without memory to rescan its volumes keeps the connection and rescans later."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig


def test_driver_without_memory_for_a_rescan_repeats_it_later(rig: Rig) -> None:
    device = rig.map("a")
    faults = rig.counters()["faults"]
    rig.set("force_map", 1)
    rig.target.wssctl("volume resize a 48M")
    try:
        wait_until(lambda: rig.counters()["faults"] > faults + 1, "the driver has tried to rescan more than once", 60)
    finally:
        rig.set("force_map", 0)
    size = lambda: int(rig.vm.run(f"blockdev --getsize64 {device}").stdout)  # noqa: E731
    wait_until(lambda: size() == 48 << 20, "the disk has the new size", 30)
    assert rig.counters()["reconnects"] == 0, rig.counters()
    rig.target.wssctl("volume resize a 32M")
    wait_until(lambda: size() == 32 << 20, "the disk has the old size again", 30)
    rig.assert_no_error()
