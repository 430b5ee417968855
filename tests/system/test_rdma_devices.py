# SPDX-License-Identifier: Apache-2.0
"""RDMA devices are removed and added while user-space programs use them: a target, a key-value partition, and
clients with libwss.

The machine has two soft RDMA devices: rxe0 on eth0, and rxe1 on a dummy interface. The removal of an rxe
device waits for every process that has opened it. So when the removal returns, all programs have released the
device."""

from __future__ import annotations

import json

import pytest

from tests.lab.guest import Guest, Process, wait_until
from tests.lab.vm import Shape
from tests.support.troubleshooting import assert_holds
from tests.system.block_setup import Target

SECOND = "10.88.0.1"
ADD_SECOND = "rdma link add rxe1 type rxe netdev dummy0"
REMOVE_SECOND = "rdma link delete rxe1"
PLUGIN = "$BUILD/nbdkit-wss-plugin.so"
WAITS = "request-timeout=240 reconnect-timeout=240"  # an emulated machine takes long to restore a lost device
VERIFY = "--name=v --ioengine=nbd --rw=randwrite --bs=4k --iodepth=8 --verify=crc32c --verify_state_save=0"
REMOVAL = 60  # limit for the removal of a device, in seconds


class Everywhere(Target):
    """A target that listens on all devices."""

    def __init__(self, guest: Guest, more: str = "") -> None:
        super().__init__(guest, {"a": "ram:16M", "b": "ram:16M"}, f"--auth-off {more}")
        self._command = self._command.replace("rdma://$LAB_ADDRESS:", "rdma://0.0.0.0:")

    def devices(self) -> dict[str, str]:
        return self.ask("stats --target")["target"]["rdma_devices"]


def start_load(guest: Guest, address: str, volume: str, more: str) -> Process:
    """Starts a client with a load that verifies everything that it writes."""
    fio = f"fio {VERIFY} --uri=\"$uri\" --size=8M {more}"
    return guest.start(f"exec nbdkit -U - {PLUGIN} target=rdma://{address}:5555 volume={volume} {WAITS} --run '{fio}'")


def wait_for_loads(target: Target, count: int) -> None:
    """Waits until this many clients write. fio connects once before it begins, and does not repeat a
    connection attempt that fails."""
    wait_until(lambda: sum(session["counters"].get("writes", 0) > 50 for session in target.ask("session list")["sessions"]) == count,
               "the loads have begun", 60)


def assert_serves(guest: Guest, address: str, volume: str = "a") -> None:
    start_load(guest, address, volume, "--io_size=1M").wait(120).require()


@pytest.fixture
def two(make_lab):
    guest = make_lab(shape=Shape(cpus=2, memory_mib=1536)).vms[0]
    guest.run(f"modprobe dummy numdummies=1; ip link set dummy0 mtu 4200 up; ip address add {SECOND}/24 dev dummy0; {ADD_SECOND}")
    return guest


def test_target_on_all_addresses_serves_every_device(two) -> None:
    with Everywhere(two) as target:
        assert target.devices() == {"rxe0": "serving", "rxe1": "serving"}
        for address in two.address, SECOND:
            assert_serves(two, address)


def test_target_serves_a_device_that_was_added_after_its_start(two) -> None:
    two.run(REMOVE_SECOND)
    with Everywhere(two) as target:
        assert target.devices() == {"rxe0": "serving"}
        two.run(ADD_SECOND)
        assert_serves(two, SECOND)
        assert target.devices()["rxe1"] == "serving"


def test_removal_of_a_device_under_load_ends_only_its_sessions_until_it_returns(two) -> None:
    with Everywhere(two) as target:
        stays = start_load(two, two.address, "a", "--time_based --runtime=25")
        waits = start_load(two, SECOND, "b", "--time_based --runtime=25")
        wait_for_loads(target, 2)
        two.run(REMOVE_SECOND, REMOVAL)
        target.process.wait_for("rxe1: the removed RDMA device is released", 5)
        assert target.devices() == {"rxe0": "serving", "rxe1": "removed"}
        assert stays.running and waits.running
        assert_serves(two, two.address)
        two.run(ADD_SECOND)
        for load in stays, waits:
            load.wait(240).require()
        assert target.devices() == {"rxe0": "serving", "rxe1": "serving"}


def test_target_returns_to_service_after_the_removal_of_its_only_device(make_lab) -> None:
    guest = make_lab().vms[0]
    with Target(guest, {"a": "ram:16M"}, "--auth-off") as target:
        for _ in range(2):
            load = start_load(guest, guest.address, "a", "--time_based --runtime=10")
            wait_for_loads(target, 1)
            guest.run("rdma link delete rxe0", REMOVAL)
            guest.run("rdma link add rxe0 type rxe netdev eth0")
            load.wait(240).require()
        assert target.ask("stats --target")["target"]["rdma_devices"] == {"rxe0": "serving"}


def test_programs_release_a_device_that_they_use_without_a_connection(two) -> None:
    with Everywhere(two) as target:
        two.run("rdma link delete rxe0", REMOVAL)
        two.run(REMOVE_SECOND, REMOVAL)
        assert target.devices() == {"rxe0": "removed", "rxe1": "removed"}
        two.run(f"rdma link add rxe0 type rxe netdev eth0; {ADD_SECOND}")
        for address in two.address, SECOND:
            assert_serves(two, address)


def test_device_is_released_although_user_verbs_are_removed_before_the_connection_manager(make_lab) -> None:
    """A device is removed from its kernel users in the reverse order of their loading, and the kernel waits
    for user verbs."""
    guest = make_lab(shape=Shape(rdma=False)).vms[0]
    guest.run("modprobe rdma_cm && ! test -e /sys/module/ib_uverbs")
    guest.run("modprobe -a rdma_rxe rdma_ucm; rdma link add rxe0 type rxe netdev eth0")
    with Target(guest, {"a": "ram:16M"}, "--auth-off") as target:
        load = start_load(guest, guest.address, "a", "--time_based --runtime=10")
        wait_for_loads(target, 1)
        guest.run("rdma link delete rxe0", REMOVAL)
        guest.run("rdma link add rxe0 type rxe netdev eth0")
        load.wait(240).require()


def test_sessions_of_a_port_end_when_it_goes_down_and_return_when_it_is_up(two) -> None:
    with Everywhere(two) as target:
        load = start_load(two, SECOND, "b", "--time_based --runtime=15")
        wait_for_loads(target, 1)
        two.run("ip link set dummy0 down")
        target.process.wait_for("rxe1: port 1 is down", 30)
        assert target.devices() == {"rxe0": "serving", "rxe1": "port-down"}
        assert_serves(two, two.address)
        two.run("ip link set dummy0 up")
        wait_until(lambda: target.devices() == {"rxe0": "serving", "rxe1": "serving"}, "the port is up", 10)
        # After a management packet that rxe could not send, it sends no further ones. So no client can
        # connect (hardware.md).
        two.run(REMOVE_SECOND, REMOVAL)
        target.process.wait_for("rxe1: the RDMA device was removed", 10)
        two.run(ADD_SECOND)
        load.wait(240).require()
        assert target.devices() == {"rxe0": "serving", "rxe1": "serving"}
        assert_holds("RDMA device removed or down", target.process.stderr)


def test_key_value_partition_serves_every_device_and_survives_a_removal(two) -> None:
    target = two.start(f"exec wss-target --role kv --listen rdma://0.0.0.0:5701 --kv-map rdma://{SECOND}:5701 --kv-memory 64M --control /run/kv.sock")
    target.wait_for("ready", 60)

    def kvctl(words: str) -> str:
        return two.run(f"kvctl --target rdma://{SECOND}:5701 --timeout 30 {words}", 90).stdout

    kvctl("put a 1")
    two.run(REMOVE_SECOND, REMOVAL)
    assert json.loads(two.run("wssctl --control /run/kv.sock --json stats --target").stdout)["target"]["rdma_devices"]["rxe1"] == "removed"
    two.run(ADD_SECOND)
    assert "1" in kvctl("--one-sided on get a")
    assert target.stop(60).status == 0
