# SPDX-License-Identifier: Apache-2.0
"""A request uses one region, however its memory is segmented, and the target moves its data with one RDMA
operation."""

from __future__ import annotations

import json

import pytest

from tests.lab.vm import Vm
from tests.system.block_setup import RUN, Target, difference, loaded, run_fio

PAGES = (1, 2, 3, 8, 16, 32, 64, 128, 255, 256)
SEGMENTS = (1, 2, 3, 8, 9, 64, 255, 256)  # numbers of segments of 512 bytes
RAGGED = (0, 1, 7, 100, 254)  # numbers of whole pages between two partial pages
IMMEDIATE_BYTES = 16384


def shapes(way: str) -> list[tuple[str, int]]:
    """Returns each shape with its length in bytes."""
    whole = [(f"{way}:pages:{count}", count * 4096) for count in PAGES]
    small = [(f"{way}:segments:{count}", count * 512) for count in SEGMENTS]
    return whole + small + [(f"{way}:ragged:{count}", count * 4096 + 1024) for count in RAGGED]


def scatter(vm: Vm, device: str, target: Target, wanted: list[tuple[str, int]]) -> list[dict]:
    words = " ".join(shape for shape, _ in wanted)
    said = vm.run(f"python3 -B tests/system/block_scatter.py {device} {target.control} {words}", 240).stdout
    results = [json.loads(line) for line in said.splitlines()]
    assert [result["shape"] for result in results] == [shape for shape, _ in wanted]
    return results


def assert_one_region_and_one_rdma(result: dict, rdma: str) -> None:
    driver, target = result["driver"], result["target"]
    assert driver["requests"] == 1, result
    assert driver["regions_registered"] == 1 and driver["regions_released"] == 1, result
    assert driver["dma_maps"] == 1 and driver["dma_unmaps"] == 1, result
    assert "immediate_writes" not in driver, result
    assert target["data_requests"] == 1, result
    assert target.get("rdma_reads", 0) + target.get("rdma_writes", 0) == 1 and target[rdma] == 1, result
    assert "table_reads" not in target, result


def assert_data_went_with_the_command(result: dict) -> None:
    driver, target = result["driver"], result["target"]
    assert driver["requests"] == 1 and driver["immediate_writes"] == 1, result
    assert "regions_registered" not in driver and target["immediate"] == 1, result
    assert "rdma_reads" not in target and "rdma_writes" not in target, result


@pytest.mark.parametrize("backend", ["ram", "nvme"])
def test_read_or_write_of_any_segments_uses_one_region_and_one_rdma_operation(vm: Vm, backend: str) -> None:
    volume = "ram:16M" if backend == "ram" else f"aio:{vm.disk_device(0)}"
    with loaded(vm) as driver, Target(vm, {"v": volume}) as target:
        device = driver.map(target, "v", "max_imm=0")
        for result in scatter(vm, device, target, shapes("read")):
            assert_one_region_and_one_rdma(result, "rdma_writes")
        for result in scatter(vm, device, target, shapes("write")):
            assert_one_region_and_one_rdma(result, "rdma_reads")
        driver.assert_nothing_leaks()
        driver.unmap(device)


def test_driver_sends_only_small_writes_as_immediate_data(vm: Vm) -> None:
    with loaded(vm) as driver, Target(vm, {"v": "ram:16M"}) as target:
        device = driver.map(target, "v")
        wanted = shapes("write")
        immediate = 0
        for (shape, length), result in zip(wanted, scatter(vm, device, target, wanted)):
            if length <= IMMEDIATE_BYTES:
                assert_data_went_with_the_command(result)
                immediate += 1
            else:
                assert_one_region_and_one_rdma(result, "rdma_reads")
        assert 0 < immediate < len(wanted)
        driver.assert_nothing_leaks()
        driver.unmap(device)


def test_stream_of_mixed_io_uses_one_region_and_one_rdma_operation_per_request(vm: Vm) -> None:
    """Runs thousands of requests, 32 at a time. The block layer merges and splits them."""
    with loaded(vm) as driver, Target(vm, {"v": f"aio:{RUN}/stream.img,size=64M,create"}) as target:
        device = driver.map(target, "v", "max_imm=0")
        before, before_target = driver.counters(), target.counters()
        end = run_fio(vm, device, "--rw=randrw --bssplit=512/30:4k/40:12k/10:64k/10:256k/9:1m/1 --iodepth=32 --size=60M --io_size=24M")
        assert end.status == 0 and end.error == 0, end
        moved, moved_target = difference(driver.counters(), before), difference(target.counters(), before_target)
        assert moved["requests"] > 500, moved
        assert moved["regions_registered"] == moved["requests"] == moved["dma_maps"], moved
        rdmas = moved_target["rdma_reads"] + moved_target["rdma_writes"]
        assert rdmas == moved_target["data_requests"] == moved["requests"], (moved, moved_target)
        assert moved["errors"] == moved["retries"] == 0, moved
        driver.assert_nothing_leaks()
        driver.unmap(device)
        vm.run(f"rm {RUN}/stream.img")
