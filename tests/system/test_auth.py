# SPDX-License-Identifier: Apache-2.0
"""The driver with a target that requires secrets. Tests which logins are accepted, which are refused with
which reason, and that secrets do not leak."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.guest import Process, wait_until
from tests.lab.lab import Lab
from tests.lab.vm import Vm
from tests.system.block_setup import RUN, SESSION, Target, loaded, run_fio
from tests.system.test_block_bad_use import refused

ALICE = "alice:correct-horse-battery-staple"
SECRET = ALICE.split(":")[1]
IMPOSTOR_PORT = 5559
RELAY_PORT = 5560
VOLUMES = {"disk": f"aio:{RUN}/auth.img,size=64M,create"}


def keep(vm: Vm, name: str, *lines: str, mode: str = "600") -> str:
    path = f"{RUN}/{name}"
    text = "\\n".join(lines)
    vm.run(f"mkdir -p {RUN} && printf '{text}\\n' > {path} && chmod {mode} {path}")
    return path


def guarded(vm: Vm) -> Target:
    return Target(vm, VOLUMES, f"--secrets {keep(vm, 'book', ALICE, 'bob:0123456789abcdef0123')} --name vault")


def test_driver_with_the_secret_does_io_on_every_channel_and_reconnects_after_a_restart(vm: Vm) -> None:
    with loaded(vm) as driver, guarded(vm) as target:
        mine = keep(vm, "alice", ALICE)
        device = driver.map(target, "disk", f"--secret-file {mine} queues=2 poll_queues=1")
        assert vm.run(f"cat {SESSION}/initiator").stdout.strip() == "alice"
        assert int(vm.run(f"cat {SESSION}/capabilities").stdout, 16) & 0x10 == 0, "authentication must not be an extension of commands"
        end = run_fio(vm, device, "--rw=randwrite --bs=16k --size=8m --iodepth=8 --verify=crc32c")
        assert end.error == 0 and end.verified > 0
        session = target.ask("session list")["sessions"][0]
        assert (session["name"], session["authenticated"], session["channels"]) == ("alice", True, 3)
        target.process.kill()
        driver.wait_for_state("recovering")
        target.start()
        driver.wait_for_state("live")
        assert run_fio(vm, device, "--rw=write --bs=64k --size=4m --verify=crc32c").error == 0
        assert SECRET not in vm.run("grep -rsh . /sys/class/wss /sys/module/wss/parameters; dmesg; cat /proc/*/cmdline; "
                                    "cat /proc/keys", check=False).stdout
        driver.unmap(device)


def test_target_refuses_a_driver_with_a_wrong_or_missing_secret_with_the_reason(vm: Vm) -> None:
    with loaded(vm) as driver, guarded(vm) as target:
        wrong = keep(vm, "wrong", "alice:0123456789abcdef0123")
        unknown = keep(vm, "unknown", "mallory:0123456789abcdef0123")
        readable = keep(vm, "readable", ALICE, mode="644")
        to = f"wssctl map {target.address} disk"
        refused(vm, to, "requires authentication")
        refused(vm, f"{to} --secret-file {wrong}", "the target 'vault' could not prove that it knows the secret of 'alice'")
        refused(vm, f"{to} --secret-file {unknown}", "the target 'vault' could not prove that it knows the secret of 'mallory'")
        refused(vm, f"{to} --secret-file {readable}", "mode 0644 lets others")
        refused(vm, f"{to} initiator=carol", "there is no logon key 'wss:carol'")
        refused(vm, f"{to} target_name=vault", "target_name= needs initiator=")
        assert "could not prove" in vm.run(f"{to} --secret-file {wrong}; cat /sys/class/wss/last_error", check=False).stdout
        assert target.counters()["refused_logins"] >= 2
        mine = keep(vm, "alice", ALICE)
        device = driver.map(target, "disk", f"--secret-file {mine}")
        assert run_fio(vm, device, "--rw=randrw --bs=4k --size=2m --verify=crc32c").error == 0, "the target must keep serving"


def test_driver_with_a_secret_refuses_a_target_without_authentication(vm: Vm) -> None:
    with loaded(vm), Target(vm, VOLUMES) as anyone:
        mine = keep(vm, "alice", ALICE)
        refused(vm, f"wssctl map {anyone.address} disk --secret-file {mine}", "the target does not authenticate")


@contextmanager
def impostor(vm: Vm) -> Iterator[Process]:
    """A target that does not know the secret, and sends the name of a cache engine at once
    (tests/conformance/verbs_impostor.cc)."""
    process = vm.start("$BUILD/conformance_tests", env={"WSS_TEST_IMPOSTOR": f"rdma://{vm.address}:{IMPOSTOR_PORT}"})
    process.wait_for("listening")
    try:
        yield process
    finally:
        process.kill()


def test_driver_connects_to_no_engine_of_a_target_that_has_not_authenticated_itself(vm: Vm) -> None:
    with loaded(vm), impostor(vm) as other:
        mine = keep(vm, "alice", ALICE)
        refused(vm, f"wssctl map {vm.address}:{IMPOSTOR_PORT} disk --secret-file {mine}",
                "the connection broke during authentication: a message before the target has proved its identity")
        other.wait_for("closed")
        assert "login" in other.stdout and "engine" not in other.stdout


# The impostor sends this name as soon as the connection is established. The driver detects that later.
def test_driver_takes_the_grants_of_a_login_before_the_messages_that_follow_it(pair: Lab) -> None:
    vm, target = pair.vms
    with loaded(vm), impostor(target) as other:
        vm.run("cd /sys/module/wss/parameters && echo 300 > force_delay_ms && echo 1 > force_event")
        mapping = vm.start(f"wssctl map {target.address}:{IMPOSTOR_PORT} disk")
        other.wait_for("^engine")
        mapping.kill()
        mapping.wait()
        assert "invalid CACHE_ENGINE" not in vm.run("cat /sys/class/wss/last_error", check=False).stdout


def test_driver_reports_the_reason_if_a_changed_secret_prevents_reconnection(vm: Vm) -> None:
    with loaded(vm) as driver, guarded(vm) as target:
        mine = keep(vm, "alice", ALICE)
        driver.map(target, "disk", f"--secret-file {mine}")
        keep(vm, "book", "alice:something-else-entirely")
        target.process.kill()
        target.start()
        wait_until(lambda: "could not prove" in vm.run(f"cat {SESSION}/last_error").stdout, "last_error has the reason", 60)
        assert driver.state() == "recovering"


def test_driver_connects_only_to_the_target_of_the_given_name_or_of_the_first_login(vm: Vm) -> None:
    mine = keep(vm, "alice", ALICE)
    with loaded(vm) as driver, guarded(vm) as target:
        refused(vm, f"wssctl map {target.address} disk --secret-file {mine} target_name=safe",
                "the target there is 'vault', but 'safe' is expected")
        device = driver.map(target, "disk", f"--secret-file {mine} target_name=vault")
        assert vm.run(f"cat {SESSION}/target_name").stdout.strip() == "vault"
        driver.unmap(device)
        driver.map(target, "disk", f"--secret-file {mine}")
        assert vm.run(f"cat {SESSION}/target_name").stdout.strip() == "vault"
        target.process.kill()
        with Target(vm, VOLUMES, f"--secrets {keep(vm, 'book', ALICE)} --name safe"):
            wait_until(lambda: "but 'vault' is expected" in vm.run(f"cat {SESSION}/last_error").stdout, "last_error has the reason", 60)
            assert driver.state() == "recovering"
        target.start()
        driver.wait_for_state("live")


def test_relay_cannot_forward_the_login_of_the_driver_or_of_a_program(pair: Lab) -> None:
    vm, server = pair.vms
    mine = keep(vm, "alice", ALICE)
    with loaded(vm) as driver, guarded(server) as target:
        relay = server.start("$BUILD/conformance_tests", env={
            "WSS_TEST_RELAY": f"rdma://{server.address}:{RELAY_PORT},rdma://{target.address.removeprefix('rdma://')}"})
        try:
            relay.wait_for("listening")
            reason = "a relay forwards the login"
            refused(vm, f"wssctl map {server.address}:{RELAY_PORT} disk --secret-file {mine}", reason)
            relay.wait_for("forwarded 2")
            refused(vm, f"wssctl discover {server.address}:{RELAY_PORT} --secret-file {mine}", reason, seconds=120)
            relay.wait_for("forwarded 4")
        finally:
            relay.kill()
        assert target.ask("session list")["sessions"] == []
        driver.map(target, "disk", f"--secret-file {mine}")


def test_access_list_determines_what_the_driver_sees_and_may_write(vm: Vm) -> None:
    volumes = {name: f"aio:{RUN}/{name}.img,size=32M,create" for name in ("open", "fixed", "hidden")}
    book = keep(vm, "book", ALICE, "bob:0123456789abcdef0123")
    rules = "--access fixed:alice=ro --access hidden:bob=rw"
    with loaded(vm) as driver, Target(vm, volumes, f"--secrets {book} {rules}") as target:
        mine = keep(vm, "alice", ALICE)
        to = f"wssctl map {target.address}"
        refused(vm, f"{to} hidden --secret-file {mine}", "unknown volume 'hidden'; the target has: open, fixed")
        driver.map(target, "open", f"--secret-file {mine}")
        driver.map(target, "fixed", f"--secret-file {mine}")
        assert vm.run("lsblk -dno RO /dev/wss0 /dev/wss1").stdout.split() == ["0", "1"]
        assert vm.run("dd if=/dev/zero of=/dev/wss1 bs=4k count=1 oflag=direct", check=False).status != 0
        assert vm.run("dd if=/dev/wss1 of=/dev/null bs=4k count=1 iflag=direct status=none").status == 0
        # The driver keeps the disk read-only. tests/unit/target/access_test.cc tests that the target refuses such writes itself.
        vm.run("blockdev --setrw /dev/wss1", check=False)
        assert vm.run("lsblk -dno RO /dev/wss1").stdout.strip() == "1"
        assert run_fio(vm, "/dev/wss1", "--rw=write --bs=4k --size=4k").error != 0
        # Change the access while the volume is in use: from read-only to read-write, then to no access.
        target.wssctl("volume access fixed alice=rw")
        wait_until(lambda: vm.run("lsblk -dno RO /dev/wss1").stdout.strip() == "0", "the disk is writable", 30)
        assert run_fio(vm, "/dev/wss1", "--rw=write --bs=4k --size=1m --verify=crc32c").error == 0
        target.wssctl("volume access fixed bob=rw")
        wait_until(lambda: vm.run("cat /sys/block/wss1/wss/state").stdout.strip() == "absent", "the disk is absent", 30)
        assert run_fio(vm, "/dev/wss1", "--rw=read --bs=4k --size=4k").error != 0, "the read must fail"
        assert run_fio(vm, "/dev/wss0", "--rw=randrw --bs=4k --size=1m --verify=crc32c").error == 0, "other disks must keep working"
        target.wssctl("volume access fixed alice=rw")
        wait_until(lambda: vm.run("cat /sys/block/wss1/wss/state").stdout.strip() == "live", "the disk is live again", 60)
        assert run_fio(vm, "/dev/wss1", "--rw=read --bs=4k --size=4k").error == 0


def test_disk_of_a_ram_volume_is_dead_after_its_target_restarts(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"r": "ram:16M"}) as target:
        device = driver.map(target, "r")
        assert run_fio(vm, device, "--rw=write --bs=64k --size=1m --verify=crc32c").error == 0
        mark = vm.klog.mark()
        target.process.kill()
        target.start()
        wait_until(lambda: vm.run("cat /sys/block/wss0/wss/state").stdout.strip() == "dead", "the disk is dead", 60)
        assert run_fio(vm, device, "--rw=read --bs=4k --size=4k").error != 0
        vm.sync_klog()
        assert "was recreated on the target; its old contents are lost" in vm.klog.text(mark)
