# SPDX-License-Identifier: Apache-2.0
"""A unit is missing after a login, or cannot be identified. Its disk waits for the unit, and continues when
the unit returns. Other disks do not wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.guest import wait_until
from tests.lab.vm import Vm
from tests.system.block_setup import SESSION, Driver, loaded
from tests.system.stock_target import DISKS, StockTarget

FORCE = "/sys/module/wss/parameters/force_"
PRESENT, MISSED = "a", "b"  # by LUN


@pytest.fixture
def target(vm: Vm) -> Iterator[StockTarget]:
    with StockTarget(vm, {PRESENT: "64M", MISSED: "64M"}) as target:
        yield target


def state(vm: Vm, device: str) -> str:
    return vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/wss/state").stdout.strip()


def mapped(driver: Driver, target: StockTarget, options: str) -> list[str]:
    return [driver.map(target, f"lun:{lun}", f"{target.login} reconnect_delay=1 {options}") for lun in (0, 1)]


def write(device: str) -> str:
    return f"dd if=/dev/urandom of={device} bs=64k count=1 oflag=direct status=none"


def assert_written(vm: Vm, device: str, name: str) -> None:
    vm.run(f"sync {device}; cmp -n 65536 {device} {DISKS}/{name}")


def test_driver_waits_for_a_unit_that_is_missing_after_a_login(vm: Vm, target: StockTarget) -> None:
    with loaded(vm) as driver:
        present, missed = mapped(driver, target, "fast_io_fail_tmo=300")
        target.hide(1)
        vm.run(f"echo 1 > {SESSION}/reset")
        driver.wait_for_state("live", 60)
        wait_until(lambda: state(vm, missed) == "absent", "the disk is absent", 20)
        vm.run(write(present), 30)
        assert_written(vm, present, PRESENT)
        writer = vm.start(f"exec {write(missed)}")
        wait_until(lambda: "D" in vm.run("ps -C dd -o state=", check=False).stdout, "a request is waiting", 30)
        target.show(1)
        assert writer.wait(90).status == 0, "the request must succeed when the unit returns"
        assert state(vm, missed) == "live"
        assert_written(vm, missed, MISSED)
        counters = driver.counters()
        assert counters["errors"] == 0 and counters["reconnects"] == 1, counters


def test_driver_fails_requests_of_a_missing_unit_in_time_and_uses_it_when_it_returns(vm: Vm, target: StockTarget) -> None:
    with loaded(vm) as driver:
        _, missed = mapped(driver, target, "fast_io_fail_tmo=2")
        vm.klog.allow(r"I/O error, dev wss|Buffer I/O error", "the disk's unit is hidden")
        target.hide(1)
        vm.run(f"echo 1 > {SESSION}/reset")
        driver.wait_for_state("live", 60)
        assert "Input/output error" in vm.run(write(missed), 60, check=False).stderr
        target.show(1)
        wait_until(lambda: state(vm, missed) == "live", "the disk is usable again", 90)
        vm.run(write(missed))
        assert_written(vm, missed, MISSED)
        target.hide(1)
        driver.unmap(missed)


@pytest.mark.parametrize("sense", ["0x02020401", "0x02044400"], ids=["not_ready", "hardware_error"])
def test_unit_that_cannot_be_identified_delays_no_other(vm: Vm, target: StockTarget, sense: str) -> None:
    with loaded(vm) as driver:
        present, missed = mapped(driver, target, "fast_io_fail_tmo=300")
        vm.run(f"echo {sense} > {FORCE}sense; echo 1 > {FORCE}refuse; echo 1 > {SESSION}/reset")
        try:
            driver.wait_for_state("live", 60)
            assert state(vm, missed) == "absent"
            vm.run(write(present), 30)
            writer = vm.start(f"exec {write(missed)}")
        finally:
            vm.run(f"echo 0 > {FORCE}refuse")
        assert writer.wait(90).status == 0
        assert state(vm, missed) == "live"
        assert_written(vm, missed, MISSED)
        assert driver.counters()["errors"] == 0
