# SPDX-License-Identifier: Apache-2.0
"""Tests the cache over RDMA, with a target, cache engines and the driver in one machine."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

from tests.lab.guest import wait_until
from tests.lab.vm import Vm
from tests.system.block_setup import RUN, Target, difference, loaded, run_fio

MIB = 1 << 20
AREA = "--size=8M --bs=64k --iodepth=4"
# On a busy host, an emulated machine may not respond within the keep-alive time.
PATIENT = "queues=1 caps=0x4b keepalive_tmo=off"


class Engine:
    def __init__(self, vm: Vm, number: int) -> None:
        self.vm = vm
        self.command = (f"exec wss-cache --join rdma://$LAB_ADDRESS:5556 --listen rdma://$LAB_ADDRESS:{5560 + number} "
                        f"--memory 40M --control {RUN}/engine-{number}.sock")
        self.process = None

    def start(self) -> None:
        self.process = self.vm.start(self.command)
        self.process.wait_for("ready on", 60)


@contextmanager
def cluster(vm: Vm, engines: int, storage: str = "", more: str = ""):
    """Starts a cache. By default real storage is the machine's disk."""
    storage = storage or f"aio:{vm.disk_device(0)}"
    more += " --cache-listen rdma://$LAB_ADDRESS:5556 --auth-off --drain-seconds 60"
    with ExitStack() as stack:
        target = stack.enter_context(Target(vm, {"v": storage}, more))
        made = [Engine(vm, number) for number in range(engines)]
        for engine in made:
            engine.start()
            stack.callback(engine.process.kill)
        wait_until(lambda: len(live(target)) == engines, "all engines are live", 60)
        yield target, made


def live(target: Target) -> list[dict]:
    return [engine for engine in target.ask("cache status")["engines"] if engine["state"] == "live"]


def volume(target: Target) -> dict[str, int]:
    return target.ask("cache status")["volumes"][0]["counters"]


def connected(target: Target, channels: int) -> None:
    wait_until(lambda: all(engine["clients"] >= channels for engine in live(target)), "the driver is connected to all engines", 60)


def test_hits_go_directly_from_the_engines_to_memory_and_no_byte_passes_through_the_target(vm: Vm) -> None:
    with loaded(vm) as driver, cluster(vm, 2) as (target, _):
        device = driver.map(target, "v", PATIENT)
        connected(target, 1)
        assert run_fio(vm, device, f"--rw=write --verify=crc32c {AREA}").error == 0

        def all_is_in_engines() -> bool:
            before = volume(target)
            assert run_fio(vm, device, f"--rw=read {AREA}").error == 0
            return difference(volume(target), before)["storage_read_bytes"] == 0

        wait_until(all_is_in_engines, "all data is in the engines", 120)
        before, driver_before = volume(target), driver.counters()
        end = run_fio(vm, device, f"--rw=randread {AREA}")
        assert end.error == 0
        done, moved = difference(volume(target), before), difference(driver.counters(), driver_before)
        assert done["through_target_bytes"] == 0 and done["storage_read_bytes"] == 0, done
        assert done["out_of_band_read_bytes"] == 8 * MIB, done
        assert moved["engine_bytes"] == 8 * MIB and moved["engine_completions"] == 8 * MIB // 65536, moved
        driver.assert_nothing_leaks()


def test_driver_reads_from_the_engines_by_default(vm: Vm) -> None:
    with loaded(vm) as driver, cluster(vm, 1) as (target, _):
        device = driver.map(target, "v")
        connected(target, 1)

        def answered_by_engine() -> bool:
            assert run_fio(vm, device, f"--rw=read {AREA}").error == 0
            return driver.counters()["engine_completions"] > 0

        wait_until(answered_by_engine, "an engine has answered a read", 120)
        assert "cache" in target.ask("session list")["sessions"][0]["capabilities"]
        driver.assert_nothing_leaks()


def test_driver_without_the_cache_capability_gets_hits_through_the_target(vm: Vm) -> None:
    with loaded(vm) as driver, cluster(vm, 1) as (target, _):
        device = driver.map(target, "v", "caps=0xf")

        def hit() -> bool:
            before = volume(target)["read_hits"]
            assert run_fio(vm, device, f"--rw=read {AREA}").error == 0
            return volume(target)["read_hits"] > before

        wait_until(hit, "a read was a hit", 120)
        assert driver.counters()["engine_completions"] == 0
        assert [engine["clients"] for engine in live(target)] == [0]
        assert "cache" not in target.ask("session list")["sessions"][0]["capabilities"]
