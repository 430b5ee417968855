# SPDX-License-Identifier: Apache-2.0
"""A target assigns the LUN of a mapped volume to another unit. No request may reach the other unit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.guest import wait_until
from tests.lab.vm import Vm
from tests.system.block_setup import loaded
from tests.system.persistent_reservations import order
from tests.system.stock_target import DISKS, LIO, StockTarget

UNITS = "a", "b"  # by LUN


@pytest.fixture
def target(vm: Vm) -> Iterator[StockTarget]:
    with StockTarget(vm, dict.fromkeys(UNITS, "64M")) as target:
        yield target


def lun(vm: Vm, device: str) -> int:
    return int(vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/wss/lun").stdout[:4], 16)


def write(vm: Vm, device: str, name: str) -> None:
    """Writes to the disk. The data must reach the unit with this name, and no other unit."""
    vm.run(f"yes {name} | dd of={device} bs=64k count=1 iflag=fullblock oflag=direct status=none; sync {device}", 60)
    for unit in UNITS:
        found = vm.run(f"head -c 65536 {DISKS}/{unit} | tr -d '\\0' | sort -u").stdout.split()
        assert found in ([unit], [] if unit != name else [unit]), f"unit {unit} holds {found}"


@pytest.mark.parametrize("keepalive", ["off", "1"], ids=["request_brings_the_report", "keep_alive_brings_the_report"])
def test_driver_follows_swapped_units_before_it_repeats_a_command(vm: Vm, target: StockTarget, keepalive: str) -> None:
    with loaded(vm) as driver:
        devices = [driver.map(target, f"lun:{number}", f"{target.login} reconnect_delay=1 keepalive_tmo={keepalive}")
                   for number in range(len(UNITS))]
        assert [lun(vm, device) for device in devices] == [0, 1]
        target.exchange(0, 1)
        if keepalive != "off":
            wait_until(lambda: [lun(vm, device) for device in devices] == [1, 0], "the disks have followed their units", 30)
        for device, name in zip(devices, UNITS):
            write(vm, device, name)
        assert [lun(vm, device) for device in devices] == [1, 0]
        counters = driver.counters()
        assert counters["errors"] == counters["reconnects"] == 0, counters


def test_driver_registers_a_key_with_the_right_volume_after_its_lun_has_changed(vm: Vm, target: StockTarget) -> None:
    vm.run("mkdir -p /etc/target/pr /var/target/pr")  # where LIO stores registrations
    with loaded(vm) as driver:
        device, _ = (driver.map(target, f"lun:{number}", f"{target.login} reconnect_delay=1 keepalive_tmo=off") for number in range(len(UNITS)))
        target.exchange(0, 1)
        assert order(vm, device, "register 0 0x11 0 0") == 0, "the driver must repeat the command after the report of changed units"
        registered = [vm.run(f"cat {LIO}/core/fileio_0/{unit}/pr/res_pr_registered_i_pts").stdout for unit in UNITS]
        assert ["Key: 0x0000000000000011" in keys for keys in registered] == [True, False], registered
