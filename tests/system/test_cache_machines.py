# SPDX-License-Identifier: Apache-2.0
"""Tests the cache over RDMA between machines: a client, a storage engine with an NVMe disk, and one or two
cache engines. Each of them is lost in turn.

WSS_CACHE_ROUNDS=n sets the number of rounds of losses (default 5)."""

from __future__ import annotations

import os
import random

import pytest

from tests.lab.guest import wait_until
from tests.lab.vm import Shape
from tests.system.block_setup import difference
from tests.system.cache_machines import LIMIT, LINE, MIB, PATIENT, Machines, Storage, machines, until_verified

SHAPE = Shape(cpus=1, memory_mib=768, nvme_sizes=(64 * MIB,))
SIZE = 4 * MIB
AREA = f"--size={SIZE} --bs=64k --iodepth=4"
VERIFY = f"{AREA} --rw=write --verify=crc32c --do_verify=1"
READ_BACK = f"{AREA} --rw=read --verify=crc32c --verify_only"
ROUNDS = int(os.environ.get("WSS_CACHE_ROUNDS", "5"))


def warm(it: Machines, device: str) -> None:
    """Reads and verifies repeatedly, until a complete pass reads nothing from real storage. Fills may
    continue after the responses."""
    for _ in range(5):
        before = it.counters()
        it.fio(device, READ_BACK)
        if difference(it.counters(), before)["storage_read_bytes"] == 0:
            return
    raise AssertionError("not all data was in the engines after five passes")


def assert_hits_cross_no_target(it: Machines, device: str) -> None:
    """Reads and verifies the whole area. No byte may pass through the target, and engines must perform one
    RDMA operation per request."""
    before, driver_before = it.counters(), it.driver.counters()
    target_before = it.target.counters()
    moves_before = sum(engine.counters()["moves"] for engine in it.engines)
    it.fio(device, READ_BACK)
    moved = difference(it.counters(), before)
    driver, target = difference(it.driver.counters(), driver_before), difference(it.target.counters(), target_before)
    moves = sum(engine.counters()["moves"] for engine in it.engines) - moves_before
    assert moved["through_target_bytes"] == 0 and moved["storage_read_bytes"] == 0, moved
    assert moved["out_of_band_read_bytes"] == SIZE, moved
    assert driver["engine_bytes"] == SIZE and driver["engine_completions"] == SIZE // LINE, driver
    assert moves == SIZE // LINE, "an engine must do one RDMA per request"
    assert target["rdma_writes"] == target["rdma_reads"] == 0, target


def assert_cold_reading_is_true(it: Machines, device: str) -> None:
    before = it.counters()
    it.fio(device, READ_BACK)
    assert difference(it.counters(), before)["storage_read_bytes"] >= SIZE, "the engines must be empty"


@pytest.mark.parametrize("engines", [1, 2])
def test_hits_come_from_engines_on_other_machines_even_after_the_loss_of_an_engine(make_lab, engines: int) -> None:
    with machines(make_lab(2 + engines, SHAPE)) as it:
        device = it.driver.map(it.target, "v", PATIENT)
        it.wait_for_engines(engines)
        it.fio(device, VERIFY)
        warm(it, device)
        assert_hits_cross_no_target(it, device)
        it.engines[0].kill()
        assert it.seconds_of_read(device) < 2
        for engine in it.engines[1:]:
            engine.kill()
        for engine in it.engines:
            engine.start()
        it.wait_for_engines(engines)
        assert_cold_reading_is_true(it, device)
        warm(it, device)
        assert_hits_cross_no_target(it, device)
        it.driver.assert_nothing_leaks()


def test_io_waits_for_a_restarted_storage_engine_and_dirty_lines_are_destaged(make_lab) -> None:
    with machines(make_lab(3, SHAPE)) as it:
        device = it.driver.map(it.target, "v", PATIENT)
        it.wait_for_engines(1)
        it.policy("write-back --unsafe")
        it.fio(device, f"{AREA} --rw=write --verify=crc32c --do_verify=0")
        assert it.dirty() > 0
        it.target.process.kill()
        load = it.start_fio(device, f"{AREA} --rw=read --verify=crc32c --verify_only")
        it.target.start()
        until_verified(load)
        wait_until(lambda: it.dirty() == 0, "all dirty lines are destaged", LIMIT)
        it.policy("none")
        it.fio(device, f"{AREA} --rw=read --verify=crc32c --verify_only")


def test_misses_and_writes_go_directly_between_the_client_and_the_storage_machine(make_lab) -> None:
    lab = make_lab(3, SHAPE)
    with machines(lab, f"rs:disk,size={64 * MIB}") as it:
        storage = Storage(lab.vms[2], lab.vms[1].address).start()
        device = it.driver.map(it.target, "v", PATIENT)
        it.wait_for_engines(1)
        it.wait_for_engines(1, "storage")
        it.wait_until_reached()

        def assert_nothing_passes_through_the_target(words: str, counter: str) -> None:
            before, target_before, engine_before = it.counters(), it.target.counters(), it.driver.counters()["engine_bytes"]
            it.fio(device, f"{AREA} {words}")
            moved, target = difference(it.counters(), before), difference(it.target.counters(), target_before)
            assert moved["through_target_bytes"] == moved["upkeep_through_target_bytes"] == 0, moved
            # Lines that were read ahead count as hits.
            assert moved[counter] > 0 and moved[counter] + moved["read_hits"] == SIZE // LINE, moved
            assert target["rdma_writes"] == target["rdma_reads"] == 0, target
            assert (it.driver.counters()["engine_bytes"] - engine_before == SIZE) == ("read" in words)

        it.policy("write-around")
        assert_nothing_passes_through_the_target("--rw=write --verify=crc32c --do_verify=0", "direct_writes")
        it.policy("none")  # nothing is cached, so each read is a miss
        it.fio(device, f"{AREA} --rw=read --verify=crc32c --verify_only")
        it.policy("write-through")
        assert_nothing_passes_through_the_target("--rw=randread", "direct_reads")
        warm(it, device)
        assert it.counters()["upkeep_direct_bytes"] > 0, "the engine must fill its lines directly from storage"
        assert_hits_cross_no_target(it, device)
        lose_storage_under_load(it, device, storage)
        cut_machine_of_storage(it, device, storage)
        it.driver.assert_nothing_leaks()
        storage.kill()


def lose_storage_under_load(it: Machines, device: str, storage: Storage) -> None:
    """Kills the storage process during writes and restarts it at once. The load must wait, and no block may
    be lost."""
    begin = it.written(device)
    load = it.start_fio(device, VERIFY)
    wait_until(lambda: it.written(device) >= begin + 8 or not load.running, "some writes have completed", LIMIT)
    storage.kill()
    storage.start()
    until_verified(load)
    it.wait_for_engines(1, "storage")


def cut_machine_of_storage(it: Machines, device: str, storage: Storage) -> None:
    """Cuts the power of the machine that has the disk and an engine. Flushed data must survive."""
    it.fio(device, f"{AREA} --rw=write --verify=crc32c --do_verify=0 --end_fsync=1 --randseed=5")
    storage.guest.power_cut()
    storage.guest.power_on()
    storage.guest.wait_ready()
    it.engines[0].start()
    storage.start()
    it.wait_for_engines(1, "storage")
    it.fio(device, f"{READ_BACK} --randseed=5")


def lose(it: Machines, who: str, engine: int) -> None:
    """Kills and restarts a process or a machine."""
    machine = it.lab.vms[1] if who.startswith("target") else it.engines[engine].guest
    if who.endswith("machine"):
        machine.power_cut()
        machine.power_on()
        machine.wait_ready()
    elif who == "target process":
        it.target.process.kill()
    else:
        it.engines[engine].kill()
    if who.startswith("target"):
        it.target.start()
    else:
        it.engines[engine].start()


def test_loss_of_an_engine_or_the_target_loses_no_acknowledged_write_under_write_back(make_lab) -> None:
    chance = random.Random(7)
    roles = ["engine process", "engine machine", "target process", "target machine"]
    with machines(make_lab(4, SHAPE)) as it:
        device = it.driver.map(it.target, "v", PATIENT)
        it.wait_for_engines(2)
        it.policy("write-back")
        for number in range(ROUNDS):
            begin = it.written(device)
            load = it.start_fio(device, f"{VERIFY} --offset={number % 8 * SIZE} --randseed={number}")
            after = chance.randrange(1, SIZE // LINE)
            wait_until(lambda: it.written(device) >= begin + after or not load.running, "some writes have completed", LIMIT)
            lose(it, roles[number % len(roles)], chance.randrange(2))
            until_verified(load)
            it.wait_for_engines(2)
            it.target.wssctl("cache drain")
        assert_lines_are_whole(it, device)
        it.driver.assert_nothing_leaks()


def test_acknowledged_writes_survive_a_power_cut_of_the_client_under_write_back(make_lab) -> None:
    with machines(make_lab(4, SHAPE)) as it:
        device = it.driver.map(it.target, "v", PATIENT)
        it.wait_for_engines(2)
        it.policy("write-back")
        it.fio(device, f"{AREA} --rw=write --verify=crc32c --do_verify=0")
        assert it.dirty() > 0
        begin = it.written(device)
        load = it.start_fio(device, f"{AREA} --rw=write --verify=crc32c --do_verify=0 --offset={SIZE} --randseed=3")
        wait_until(lambda: it.written(device) >= begin + SIZE // LINE // 4 or not load.running, "some writes have completed", LIMIT)
        it.client.power_cut()
        it.client.power_on()
        it.client.wait_ready()
        it.driver.load()
        device = it.driver.map(it.target, "v", PATIENT)  # the target still has the old connection
        it.wait_for_engines(2)
        it.fio(device, f"{AREA} --rw=read --verify=crc32c --verify_only")
        it.fio(device, f"{VERIFY} --offset={SIZE} --randseed=3")
        it.target.wssctl("cache drain")
        it.policy("none")
        it.fio(device, f"{AREA} --rw=read --verify=crc32c --verify_only")
        it.fio(device, f"{AREA} --rw=read --verify=crc32c --verify_only --offset={SIZE} --randseed=3")
        it.driver.assert_nothing_leaks()


def assert_lines_are_whole(it: Machines, device: str) -> None:
    """Verifies the data through the cache, and then from real storage only."""
    for policy in ("write-back", "none"):
        it.policy(policy)
        for number in range(min(ROUNDS, 8)):
            it.fio(device, f"{AREA} --rw=read --verify=crc32c --verify_only --offset={number % 8 * SIZE}")
