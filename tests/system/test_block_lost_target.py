# SPDX-License-Identifier: Apache-2.0
"""A target is killed, hangs, is cut off or loses power. Requests are repeated or fail in bounded time, no data is wrong, and the
driver can always be unloaded."""

from __future__ import annotations

import os
import signal

import pytest

from tests.lab.guest import Process, wait_until
from tests.lab.lab import Lab
from tests.lab.rdma import ADD, DEVICE, REMOVE
from tests.lab.vm import Vm
from tests.system.block_setup import RUN, Driver, FioEnd, Stopwatch, Target, fio_command, fio_end, loaded, run_fio

EIO = 5
THOROUGH = os.environ.get("WSS_THOROUGH", "0") not in ("", "0")
FAIL_TMO = 2
# Seconds beyond fast_io_fail_tmo for the detection (by a keep-alive or RDMA's retries) and for the request,
# on a loaded machine.
NOTICE = 25
PATIENT = "fast_io_fail_tmo=120"
HASTY = f"fast_io_fail_tmo={FAIL_TMO} reconnect_delay=1"
VERIFY = ("--rw=randwrite --verify=crc32c --verify_fatal=1 --iodepth=16 --bssplit=4k/40:16k/30:64k/20:256k/10 --size=48m "
          "--verify_backlog=32 --time_based --runtime={}")


def image(name: str) -> dict[str, str]:
    return {"v": f"aio:{RUN}/{name}.img,size=48M,create"}


def start_verifying(vm: Vm, driver: Driver, device: str, seconds: int, requests: int = 200) -> Process:
    """Starts fio, which writes and verifies, and waits until it has sent some requests."""
    before = driver.counters()["requests"]
    load = vm.start(fio_command(device, VERIFY.format(seconds)))
    wait_until(lambda: driver.counters()["requests"] > before + requests or not load.running, "fio has sent requests", 60)
    assert load.running, load.stdout + load.stderr
    return load


def end_of(load: Process, timeout: float) -> FioEnd:
    result = load.wait(timeout)
    return fio_end(result.stdout, result.status)


def assert_verified(end: FioEnd) -> None:
    assert end.status == 0 and end.error == 0, end
    assert end.verified > 0, end


def assert_usable(vm: Vm, driver: Driver, device: str) -> None:
    driver.wait_for_state("live", 60)
    assert_verified(run_fio(vm, device, "--rw=randwrite --verify=crc32c --verify_fatal=1 --bs=16k --iodepth=4 --size=2m"))
    driver.assert_nothing_leaks()


@pytest.fixture
def clean(vm: Vm):
    yield
    vm.run(f"rm -f {RUN}/*.img")


def test_io_fails_with_eio_in_time_after_its_target_is_killed(vm: Vm, clean) -> None:
    with loaded(vm) as driver, Target(vm, image("killed")) as target:
        device = driver.map(target, "v", HASTY)
        load = start_verifying(vm, driver, device, 120)
        clock = Stopwatch()
        target.process.kill()
        end = end_of(load, FAIL_TMO + NOTICE)
        assert end.error == EIO, end
        assert clock.seconds >= FAIL_TMO * 0.8, "requests must wait for the target to return"
        # From now on requests fail at once, including those for an open.
        failing = vm.run(f"dd if={device} of=/dev/null bs=4k count=1 iflag=direct", 10, check=False)
        assert failing.status == 1 and "Input/output error" in failing.stderr, failing
        driver.assert_nothing_leaks()
        # The device and the data of its volume can be used again after the target has returned.
        target.start()
        assert_usable(vm, driver, device)
        assert driver.counters()["reconnects"] == 1


def test_unmap_and_rmmod_work_while_the_target_is_gone(vm: Vm, clean) -> None:
    target = Target(vm, image("gone")).start()
    with loaded(vm) as driver:
        # fast_io_fail_tmo is long. So requests wait, but the removal must not wait.
        device = driver.map(target, "v", PATIENT)
        load = start_verifying(vm, driver, device, 120)
        target.process.kill()
        driver.wait_for_state("recovering", NOTICE)
        busy = vm.run(f"wssctl unmap {device}", 20, check=False)
        assert busy.status == 1 and "is in use" in busy.stderr, busy
        driver.unmap(device, force=True)
        assert end_of(load, 30).error != 0
        assert vm.run("ls /sys/class/wss").stdout.split() == ["last_error", "map", "pending", "unmap"]

        target.start()
        device = driver.map(target, "v", PATIENT)
        target.process.kill()
        vm.run("rmmod wss", 30)
        vm.run(f"test ! -e {device}")
        driver.load()


def test_target_that_restarts_in_time_fails_no_request(vm: Vm, clean) -> None:
    with loaded(vm) as driver, Target(vm, image("restarted")) as target:
        device = driver.map(target, "v", PATIENT)
        load = start_verifying(vm, driver, device, 12)
        for times, end in enumerate((target.process.kill, target.stop), 1):  # first SIGKILL, then an orderly stop
            end()
            driver.wait_for_state("recovering", NOTICE)
            target.start()
            driver.wait_for_state("live", 60)
            assert driver.counters()["reconnects"] == times
        assert_verified(end_of(load, 120))
        counters = driver.counters()
        assert counters["errors"] == 0 and counters["protocol_errors"] == 0, counters
        driver.assert_nothing_leaks()


def test_driver_detects_a_hung_target_and_ends_its_requests(vm: Vm, clean) -> None:
    with loaded(vm) as driver, Target(vm, image("hung")) as target:
        device = driver.map(target, "v", f"keepalive_tmo=5 {HASTY}")
        load = start_verifying(vm, driver, device, 120)
        target.process.signal(signal.SIGSTOP)
        try:
            end = end_of(load, 60)
            assert end.error == EIO, end
            assert driver.state() == "recovering"
            driver.assert_nothing_leaks()
        finally:
            target.process.signal(signal.SIGCONT)
        assert_usable(vm, driver, device)


def test_volume_can_be_mapped_again_after_the_driver_has_given_up_its_target(vm: Vm, clean) -> None:
    with loaded(vm) as driver, Target(vm, image("given-up")) as target:
        device = driver.map(target, "v", "fast_io_fail_tmo=1 dev_loss_tmo=3 reconnect_delay=1")
        target.process.kill()
        driver.wait_for_state("failed", NOTICE)
        target.start()
        assert driver.map(target, "v", PATIENT) != device, "the new disk must have a new session"
        driver.unmap(device)
        assert_usable_session(vm, driver)


def assert_usable_session(vm: Vm, driver: Driver) -> None:
    [disk] = vm.run("ls /sys/block | grep ^wss").stdout.split()
    session = vm.run(f"cat /sys/block/{disk}/wss/session").stdout.strip()
    assert driver.state(f"/sys/class/wss/{session}") == "live"
    vm.run(f"dd if=/dev/{disk} of=/dev/null bs=64k count=4 iflag=direct")


def test_io_fails_in_time_after_the_targets_machine_loses_power(pair: Lab) -> None:
    client, server = pair.vms
    target = Target(server, image("power")).start()
    with loaded(client) as driver:
        device = driver.map(target, "v", HASTY)
        load = start_verifying(client, driver, device, 120)
        server.power_cut()
        end = end_of(load, 90)
        assert end.error == EIO, end
        driver.assert_nothing_leaks()
        driver.unmap(device)
        driver.unload()
        driver.load()
        # The machine returns with a new target process, which the same driver can use.
        server.power_on()
        server.wait_ready()
        with Target(server, image("power")) as again:
            assert driver.map(again, "v") == device
            assert_usable(client, driver, device)


@pytest.mark.parametrize("seconds", [1, 5, 30] if THOROUGH else [5])
def test_link_that_is_cut_for_seconds_fails_no_request(pair: Lab, seconds: int) -> None:
    client, server = pair.vms
    with loaded(client) as driver, Target(server, image("link")) as target:
        device = driver.map(target, "v", PATIENT)
        load = start_verifying(client, driver, device, 25 + seconds, requests=40)
        before = driver.counters()["requests"]
        pair.cut_link(server)
        # The time passes on the machine's clock, without any traffic.
        client.run(["sleep", str(seconds)])
        pair.restore_link(server)
        wait_until(lambda: driver.counters()["requests"] > before + 300 or not load.running, "requests have continued", 90)
        assert_verified(end_of(load, 120))
        assert driver.counters()["errors"] == 0
        driver.assert_nothing_leaks()
        server.run(f"rm -f {RUN}/*.img", check=False)


FAR = "far0"  # a second network interface of the client, with its own RDMA device
FAR_ADDRESS = "10.87.0.101"


def test_target_fences_the_old_session_when_recovery_uses_another_device(pair: Lab) -> None:
    """The first device disappears and its last messages are lost, so the target does not detect the loss. The
    new login uses the second device. The target must recognise the same initiator and end the old session
    before it accepts the new one."""
    client, server = pair.vms
    client.run(f"sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.rp_filter=0; modprobe macvlan; "
               f"ip link add {FAR} link eth0 type macvlan mode bridge && ip address add {FAR_ADDRESS}/32 dev {FAR} && "
               f"ip link set {FAR} up && rdma link add rxe1 type rxe netdev {FAR}", 60)
    try:
        # Without keep-alive, the target does not end a silent session.
        with loaded(client) as driver, Target(server, image("paths")) as target:
            device = driver.map(target, "v", "reconnect_delay=1 fast_io_fail_tmo=120 keepalive_tmo=off caps=0xb")
            load = start_verifying(client, driver, device, 12, requests=40)
            sessions = target.ask("session list")["sessions"]
            assert len(sessions) == 1, sessions
            client.run(f"ip neighbour replace {server.address} lladdr 02:00:00:00:00:99 nud permanent dev eth0 && "
                       f"ip route add {server.address}/32 dev {FAR} src {FAR_ADDRESS} && {REMOVE}", 60)
            driver.wait_for_state("live", 90)
            after = target.ask("session list")["sessions"]
            assert len(after) == 1, f"the old session still exists: {after}"
            assert after[0]["initiator"] == sessions[0]["initiator"] and after[0]["epoch"] > sessions[0]["epoch"], (sessions, after)
            assert_verified(end_of(load, 120))
            counters = driver.counters()
            assert counters["errors"] == 0 and counters["reconnects"] >= 1, counters
            driver.assert_nothing_leaks()
    finally:
        client.run(f"ip route del {server.address}/32 dev {FAR}; ip neighbour del {server.address} dev eth0; "
                   f"rdma link delete rxe1; ip link del {FAR}; rmmod macvlan; rdma link show {DEVICE} || {ADD}; rm -f {RUN}/*.img", 60, check=False)
        server.run(f"rm -f {RUN}/*.img", check=False)


def test_machine_shuts_down_although_its_target_is_gone(make_lab) -> None:
    vm = make_lab().vms[0]
    Driver(vm).load()
    target = Target(vm, image("down")).start()
    device = Driver(vm).map(target, "v", "fast_io_fail_tmo=off dev_loss_tmo=off")
    load = start_verifying(vm, Driver(vm), device, 600)
    target.process.kill()
    Driver(vm).wait_for_state("recovering", NOTICE)
    assert load.running, "the requests must be waiting for the target"
    vm.power_off(60)
