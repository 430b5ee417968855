# SPDX-License-Identifier: Apache-2.0
"""Two stock initiators use persistent reservations with sg_persist, also across a restart of the target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.guest import wait_until
from tests.lab.vm import Vm
from tests.system.block_setup import Target
from tests.system.test_block_stock_initiator import LOGIN, PORTS, scsi_disks

CONFLICT = 24  # exit status of sg_persist
ATTENTIONS_MAX = 16  # the target reports each unit attention once to every channel of a session


@contextmanager
def two_initiators(vm: Vm, target: Target) -> Iterator[tuple[str, str]]:
    """Provides one volume as a disk to each of two initiators."""
    vm.run("modprobe -a ib_srp sd_mod sg")
    try:
        disks: list[str] = []
        for number in (1, 2):
            vm.write("/sys/class/infiniband_srp/srp-rxe0-1/add_target",
                     LOGIN.format(target.address) + f",initiator_ext=000000000000000{number}")
            wait_until(lambda: len(scsi_disks(vm)) == number, f"disk {number} exists", 30)  # noqa: B023
            disks += [disk for disk in scsi_disks(vm) if disk not in disks]
        yield disks[0], disks[1]
    finally:
        vm.run(f"for p in $(ls {PORTS} 2>/dev/null); do echo 1 > {PORTS}/$p/delete; done", 60)
        wait_until(lambda: not scsi_disks(vm), "the disks are gone", 30)
        vm.run("modprobe -r ib_srp sd_mod sg", 60, check=False)


def persist(vm: Vm, disk: str, words: str, status: int = 0) -> str:
    result = vm.run(f"sg_persist {words} {disk}", check=False)
    assert result.status == status, f"sg_persist {words} {disk}: {result.status}\n{result.stdout}{result.stderr}"
    return result.stdout


def writes(vm: Vm, disk: str) -> bool:
    """Returns False if the reservation forbids a write. A write that gets a unit attention is retried. Any
    other error fails the test."""
    for _ in range(ATTENTIONS_MAX):
        result = vm.run(f"sg_dd if=/dev/zero of={disk} bs=512 count=8 blk_sgio=1 oflag=sgio", check=False)
        output = result.stderr.lower()
        if result.status == 0 or "reservation conflict" in output:
            return result.status == 0
        assert "unit attention" in output, f"sg_dd of {disk}: {result.status}\n{result.stdout}{result.stderr}"
    raise AssertionError(f"{disk} keeps reporting unit attentions:\n{result.stderr}")


def test_target_enforces_and_keeps_reservations_of_two_stock_initiators(vm: Vm) -> None:
    with Target(vm, {"v": f"aio:{vm.disk_device(0)}"}) as target:
        with two_initiators(vm, target) as (first, second):
            assert "PTPL_C): 1" in persist(vm, first, "--in --report-capabilities")
            persist(vm, first, "--out --register --param-aptpl --param-sark=0x11")
            persist(vm, second, "--out --register --param-aptpl --param-sark=0x22")
            persist(vm, first, "--out --reserve --param-rk=0x11 --prout-type=1")
            persist(vm, second, "--out --reserve --param-rk=0x22 --prout-type=1", CONFLICT)
            keys = persist(vm, second, "--in --read-keys")
            assert "0x11" in keys and "0x22" in keys, keys
            assert "Write Exclusive" in persist(vm, second, "--in --read-reservation")
            assert "Key=0x11" in persist(vm, second, "--in --read-full-status")
            assert writes(vm, first) and not writes(vm, second)
        target.stop()
        target.start()
        with two_initiators(vm, target) as (first, second):
            assert writes(vm, first) and not writes(vm, second), "the reservation must survive the restart (APTPL)"
            persist(vm, second, "--out --preempt-abort --param-rk=0x22 --param-sark=0x11 --prout-type=5")
            assert writes(vm, second) and not writes(vm, first)
            persist(vm, second, "--out --clear --param-rk=0x22")
            assert writes(vm, first)
