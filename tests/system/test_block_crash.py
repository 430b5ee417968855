# SPDX-License-Identifier: Apache-2.0
"""Crash consistency: the client's or the target's machine loses power during writes to a file system on
/dev/wss0. Every file that was fsynced must be complete, and the file system must be consistent. If the
target's machine loses power, its unflushed data is lost. The driver then fails one flush, and the file system
stops before it relies on the lost data. With WSS_THOROUGH=1 there are ten rounds of each kind."""

from __future__ import annotations

import os

import pytest

from tests.lab.guest import Process, wait_until
from tests.lab.lab import Lab
from tests.lab.vm import Vm
from tests.system.block_setup import RUN, Driver, Target

THOROUGH = os.environ.get("WSS_THOROUGH", "0") not in ("", "0")
ROUNDS = 10 if THOROUGH else 1
FILES_PER_ROUND = 40
MOUNT = f"{RUN}/mnt"
PATIENT = "fast_io_fail_tmo=off reconnect_delay=1"
KINDS = {"ext4": ("mkfs.ext4 -q -F", "fsck.ext4 -fn"), "xfs": ("mkfs.xfs -q -f", "xfs_repair -n")}


def start_target(server: Vm) -> Target:
    """Starts a target that serves the machine's disk, which keeps written data. The state file with the
    volumes' identities must survive as well."""
    return Target(server, {"v": f"aio:{server.disk_device(0)}"}, state="/lab/crash-state.json").start()


def mount(client: Vm, target: Target) -> str:
    driver = Driver(client)
    driver.load()
    device = driver.map(target, "v", PATIENT)
    client.run(f"mkdir -p {MOUNT}")
    return device


def start_writing(client: Vm, first: int) -> Process:
    return client.start(f"python3 -B tests/system/block_files.py write {MOUNT} {first}")


def acknowledged(writer: Process, first: int) -> int:
    """Returns the number after that of the last file that the writer reported as stable."""
    numbers = [int(line) for line in writer.stdout.split("\n")[:-1] if line]
    return numbers[-1] + 1 if numbers else first


def wait_for_files(writer: Process, first: int, more: int) -> None:
    wait_until(lambda: acknowledged(writer, first) >= first + more or not writer.running, f"{more} files are written", 180)
    assert writer.running, writer.stdout[-500:] + writer.stderr


def check(client: Vm, kind: str, device: str, upto: int) -> None:
    """Mounts the file system, which replays the journal, and checks that all files are correct."""
    client.run(f"mount {device} {MOUNT}", 120)
    client.run(f"python3 -B tests/system/block_files.py check {MOUNT} 0 {upto}", 180)
    client.run(f"umount {MOUNT} && {KINDS[kind][1]} {device}", 180)


@pytest.mark.parametrize("kind", KINDS)
def test_fsynced_files_survive_a_power_cut_of_the_client(pair: Lab, kind: str) -> None:
    if not THOROUGH and kind == "xfs":
        pytest.skip("the short run tests xfs with a power cut of the target")
    client, server = pair.vms
    target = start_target(server)
    device = mount(client, target)
    client.run(f"{KINDS[kind][0]} {device}", 120)
    upto = 0
    for _ in range(ROUNDS):
        client.run(f"mount {device} {MOUNT}", 120)
        writer = start_writing(client, upto)
        wait_for_files(writer, upto, FILES_PER_ROUND)
        client.power_cut()
        upto = acknowledged(writer, upto)
        client.power_on()
        client.wait_ready()
        device = mount(client, target)
        check(client, kind, device, upto)
    Driver(client).unmap(device)
    Driver(client).unload()
    target.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_fsynced_files_survive_a_power_cut_of_the_target(pair: Lab, kind: str) -> None:
    if not THOROUGH and kind == "ext4":
        pytest.skip("the short run tests ext4 with a power cut of the client")
    client, server = pair.vms
    client.klog.allow(r"task .* blocked for more than", "it waits until the target's machine has booted")
    target = start_target(server)
    device = mount(client, target)
    client.run(f"{KINDS[kind][0]} {device} && mount {device} {MOUNT}", 120)
    writer, first, told = start_writing(client, 0), 0, 0
    for _ in range(ROUNDS):
        wait_for_files(writer, first, FILES_PER_ROUND)
        mark = client.klog.mark()
        server.power_cut()
        server.power_on()
        server.wait_ready()
        target = start_target(server)
        reached = acknowledged(writer, first)
        # The writer continues, unless a flush reports that earlier writes may be lost. In that case the file
        # system stops.
        wait_until(lambda: acknowledged(writer, first) >= reached + 3 or not writer.running, "the writer has continued or received an error", 240)
        if not writer.running:
            assert "the target, or a storage machine behind it, restarted" in client.klog.text(mark), writer.stderr
            told += 1
            first = acknowledged(writer, first)
            client.run(f"umount {MOUNT}", 120)
            check(client, kind, device, first)
            client.run(f"mount {device} {MOUNT}", 120)
            writer = start_writing(client, first)
    writer.kill()
    upto = acknowledged(writer, first)
    print(f"{ROUNDS} power cuts, {upto} files, {told} losses reported to the file system")
    driver = Driver(client)
    assert told or driver.counters()["errors"] == 0
    client.run(f"umount {MOUNT}", 120)
    check(client, kind, device, upto)
    driver.assert_nothing_leaks()
    driver.unmap(device)
    driver.unload()
    target.stop()
