# SPDX-License-Identifier: Apache-2.0
"""Each mistake yields a message that names the object and the remedy, and a nonzero exit status, in bounded time."""

from __future__ import annotations

import pytest

from tests.lab.guest import Result
from tests.lab.rdma import ADD, REMOVE
from tests.lab.vm import Vm
from tests.system.block_setup import MODULE, RUN, Target, loaded

FAILED, USAGE, NOT_REACHABLE = 1, 2, 3
SECONDS = 20  # limit on a loaded machine; the driver gives up on an address after 3 to 10 s


def refused(vm: Vm, command: str, said: str, status: int = FAILED, seconds: float = SECONDS) -> Result:
    result = vm.run(command, seconds, check=False)
    assert result.status == status, f"`{command}` exited with status {result.status}:\n{result.stdout}{result.stderr}"
    assert said in result.stderr, f"`{command}` printed:\n{result.stderr}"
    assert len(result.stderr.strip().splitlines()) <= 3, result.stderr
    return result


def test_every_driver_command_suggests_loading_a_missing_module(vm: Vm) -> None:
    for words in ("map 10.87.0.1:5555 v", "unmap wss0", "unmap --all", "list", "stats --driver"):
        refused(vm, f"wssctl {words}", "module not loaded: modprobe wss", NOT_REACHABLE)
    refused(vm, f"wssctl --control {RUN}/nobody.sock ping", f"no wss-target answers at {RUN}/nobody.sock", NOT_REACHABLE)


MAPS = [
    # The causes of the first four: no listener, no route, no host with this address, not an RDMA address.
    ("10.87.0.1:5599 v", "10.87.0.1:5599: connection refused (invalid service ID): is a target listening there?"),
    ("10.99.0.1:5555 v", "10.99.0.1:5555: no RDMA device has a route to the target"),
    ("10.87.0.77:5555 v", "10.87.0.77:5555: cannot reach the target over RDMA"),
    ("127.0.0.1:5555 v", "use an address of the RDMA network"),
    ("10.87.0.1:5555 " + "x" * 200, "too long"),
    ("10.87.0.1:5555 v queues=0", "queues=0: must be a number from 1 to 32"),
    ("10.87.0.1:5555 v max_imm=1e9", "max_imm=1e9: must be a number from 0 to 16384"),
    ("10.87.0.1:5555 v colour=blue", "unknown key 'colour'"),
    ("10.87.0.1:5555 v fast_io_fail_tmo=700", "fast_io_fail_tmo must be shorter than dev_loss_tmo"),
]


# wssctl rejects these without calling the driver.
NO_ADDRESSES = [
    ("somewhere.invalid:5555 v", "cannot find host 'somewhere.invalid'", NOT_REACHABLE),
    ("10.87.0.1:99999 v", "the port is not a number up to 65535", USAGE),
    ("tcp://10.87.0.1:5555 v", "the driver connects by RDMA", USAGE),
    ("'[::1' v", "the bracket of the IPv6 address is not closed", USAGE),
]


def test_map_names_a_wrong_address_or_option(vm: Vm) -> None:
    with loaded(vm):
        for words, said in MAPS:
            refused(vm, f"wssctl map {words}", said)
        for words, said, status in NO_ADDRESSES:
            refused(vm, f"wssctl map {words}", said, status)
        assert vm.run("ls /sys/class/wss").stdout.split() == ["last_error", "map", "pending", "unmap"], "no session may be left"


def test_failed_insmod_logs_the_reason(vm: Vm) -> None:
    vm.run("modprobe -a rdma_cm ib_core")
    for words, shown, said in (
        ("target=10.87.0.1:5599 volume=v", "Connection refused", "connection refused (invalid service ID)"),
        ("target=10.87.0.1:5599", "Invalid parameters", "target= and volume= are required"),
        ("target=somewhere:5555 volume=v", "Invalid parameters", "target=somewhere:5555: must be a numeric ADDR:PORT"),
        ("target=[::1 volume=v", "Invalid parameters", "']' is missing"),
        ("target=10.87.0.1:5599 volume=v queues=many", "Invalid parameters", "queues=many: must be a number from 1 to 32"),
    ):
        mark = vm.klog.mark()
        refused(vm, f"insmod {MODULE} {words}", shown)
        vm.sync_klog()
        assert said in vm.klog.text(mark)
        vm.run("test ! -d /sys/module/wss")


def test_error_for_an_unknown_volume_or_disk_names_it(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"one": "ram:1M", "two": "ram:1M"}) as target:
        for name in ("nix", "ONE", "lun:99", "naa.zzz", "naa.3000000000000001"):
            said = f"unknown volume '{name}'; the target has: one, two"
            refused(vm, f"wssctl map {target.address} {name}", said)
        refused(vm, f"wssctl map {target.address} one,two", "'one,two' must not be empty or contain blanks, commas", USAGE)
        assert driver.map(target, "lun:1") == "/dev/wss0"
        refused(vm, f"wssctl map {target.address} two", "volume 'two' is mapped already, as /dev/wss0")
        refused(vm, "wssctl unmap wss7", "'wss7' is not a mapped disk")
        refused(vm, "wssctl unmap 'wss0 force'", "must not be empty or contain blanks, commas", USAGE)
        assert vm.run("echo wss0 now > /sys/class/wss/unmap", check=False).status != 0
        assert vm.run("cat /sys/class/wss/last_error").stdout.strip() == "write: wssN [force], or pendingN"
        driver.unmap("wss0")


def test_driver_refuses_to_unmap_or_unload_a_mounted_disk(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"v": "ram:16M"}) as target:
        device = driver.map(target, "v")
        vm.run(f"mkfs.ext4 -q {device} && mkdir -p {RUN}/mnt && mount {device} {RUN}/mnt")
        refused(vm, f"wssctl unmap {device}", f"{device} is in use (mounted or open)")
        refused(vm, "wssctl unmap --all", f"{device} is in use (mounted or open)")
        refused(vm, "rmmod wss", "in use")
        vm.run(f"echo works > {RUN}/mnt/file && sync {RUN}/mnt/file && umount {RUN}/mnt")
        driver.unmap(device)


# The exit status USAGE means that the start can succeed only with another configuration.
TARGETS = [
    ("--listen rdma://10.99.0.1:5556 --volume v=ram:1M", "no RDMA device of this machine (1 found) has or reaches this address", FAILED),
    ("--listen rdma://10.87.0.1:99999 --volume v=ram:1M", "the port is not a number up to 65535", USAGE),
    (f"--listen rdma://10.87.0.1:5556 --volume v=aio:{RUN}/missing", f"cannot open {RUN}/missing", FAILED),
    (f"--listen rdma://10.87.0.1:5556 --volume v=aio:{RUN}", f"cannot open {RUN}: Is a directory", FAILED),
    (f"--listen rdma://10.87.0.1:5556 --volume v=aio:{RUN}/empty", f"{RUN}/empty is empty: specify the size", FAILED),
    ("--listen rdma://10.87.0.1:5556 --volume v=floppy:1", "unknown backend 'floppy:1'", FAILED),
    ("--listen rdma://10.87.0.1:5556 --volume 'a b=ram:1M'", "invalid volume name 'a b'", USAGE),
    ("--listen rdma://10.87.0.1:5556 --volume v=ram:1T", "larger than this machine's memory", FAILED),
    (f"--config {RUN}/missing.toml", f"cannot read {RUN}/missing.toml", USAGE),
]


def test_target_that_cannot_start_reports_the_reason(vm: Vm) -> None:
    vm.run(f"mkdir -p {RUN} && touch {RUN}/empty {RUN}/secret && chmod 600 {RUN}/secret")
    for words, said, status in TARGETS:
        refused_target(vm, words, said, status)
    disk = vm.disk_device(0)
    vm.run(f"mkfs.ext4 -q -F {disk} && mkdir -p {RUN}/mnt && mount {disk} {RUN}/mnt")
    refused_target(vm, f"--listen rdma://10.87.0.1:5556 --volume v=aio:{disk}", f"{disk} is in use: mounted")
    vm.run(f"umount {RUN}/mnt")
    secret = f"setpriv --reuid 65534 --clear-groups wss-target --control '' --volume v=aio:{RUN}/secret,size=1M"
    refused(vm, f"{secret} --listen rdma://10.87.0.1:5556", f"cannot open {RUN}/secret: Permission denied")


def refused_target(vm: Vm, words: str, said: str, status: int = FAILED) -> None:
    """Starts a target that must fail. The last line must state the reason. Earlier lines are warnings."""
    result = vm.run(f"wss-target --control '' {words}", SECONDS, check=False)
    assert result.status == status, f"{words}: {result}"
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("wss-target: ") and said in last, f"{words}: {result.stderr}"


def test_target_names_a_resource_that_another_target_uses(vm: Vm) -> None:
    disk = vm.disk_device(0)
    with Target(vm, {"file": f"aio:{RUN}/one.img,size=1M,create", "disk": f"aio:{disk}"}) as target:
        other = f"--listen rdma://{vm.address}:5556"
        refused_target(vm, f"--listen rdma://{target.address} --volume v=ram:1M", f"{target.address}: another program uses the port")
        refused_target(vm, f"{other} --volume v=aio:{RUN}/one.img", f"{RUN}/one.img is in use by another")
        refused_target(vm, f"{other} --volume v=aio:{disk}", f"{disk} is in use")
        refused(vm, f"wss-target {other} --volume v=ram:1M --control {target.control}", "is in use: wss-target, process")
        refused(vm, f"wssctl --control {target.control} volume create again aio:{RUN}/one.img", f"{RUN}/one.img is in use")
    vm.run(f"rm {RUN}/one.img")


TOML = [
    ('listen = ["rdma://10.87.0.1:5556"\nreactors = 1\n', ":2: "),
    ('listen = "rdma://10.87.0.1:5556"\nreactorz = 3\n', ":2: reactorz: unknown key, did you mean 'reactors'?"),
    ("# nothing\nlisten = 5\n", ":2: listen: must be a string"),
    ('[[volume]]\nname = "v"\nbackend = 7\n', ":3: volume[0].backend: must be a string"),
    ('\n[[volume]]\nname = "v"\n', ":2: volume[0].backend: is missing"),
    ('[[volume]]\nname = "v"\nbackend = "ram:1M"\nsize = "many"\n', ":4: volume[0].size: "),
    ("reactors = -1\n", ":1: reactors: must be a number"),
]


def test_target_names_the_file_line_and_key_of_malformed_toml(vm: Vm) -> None:
    path = f"{RUN}/bad.toml"
    vm.run(f"mkdir -p {RUN}")
    for text, said in TOML:
        vm.write(path, text)
        refused(vm, f"wss-target --control '' --config {path}", f"wss-target: {path}{said}", USAGE)


@pytest.fixture
def no_rdma(vm: Vm):
    vm.run(REMOVE)
    yield
    vm.run(ADD)


def test_both_ends_report_a_missing_rdma_device(vm: Vm, no_rdma) -> None:
    refused_target(vm, "--listen rdma://10.87.0.1:5556 --volume v=ram:1M", "this machine has no RDMA device; install")
    with loaded(vm):
        refused(vm, "wssctl map 10.87.0.1:5555 v", "check the address and `rdma link`")
    vm.sync_klog()
    refused(vm, f"insmod {MODULE} target=10.87.0.1:5555 volume=v", "No such device")
