# SPDX-License-Identifier: Apache-2.0
"""The cache over RDMA: a target, two cache engines and the driver in one machine."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

from tests.lab.guest import wait_until
from tests.lab.vm import Vm
from tests.system.block_setup import RUN, Target, difference, loaded, run_fio

MIB = 1 << 20
AREA = "--size=8M --bs=64k --iodepth=4"
# A machine that is emulated on a busy host is silent for longer than a keep-alive allows.
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
def cluster(vm: Vm, engines: int):
    more = "--cache-listen rdma://$LAB_ADDRESS:5556 --auth-off --drain-seconds 60"
    with ExitStack() as stack:
        target = stack.enter_context(Target(vm, {"v": f"aio:{vm.disk_device(0)}"}, more))
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


def test_hits_go_from_the_engines_to_the_pages_and_cross_the_target_with_no_byte(vm: Vm) -> None:
    with loaded(vm) as driver, cluster(vm, 2) as (target, _):
        device = driver.map(target, "v", PATIENT)
        connected(target, 1)
        assert run_fio(vm, device, f"--rw=write --verify=crc32c {AREA}").error == 0
        assert run_fio(vm, device, f"--rw=read {AREA}").error == 0
        before, driver_before = volume(target), driver.counters()
        end = run_fio(vm, device, f"--rw=randread {AREA}")
        assert end.error == 0
        done, moved = difference(volume(target), before), difference(driver.counters(), driver_before)
        assert done["through_us_bytes"] == 0 and done["storage_read_bytes"] == 0, done
        assert done["out_of_band_read_bytes"] == 8 * MIB, done
        assert moved["engine_bytes"] == 8 * MIB and moved["engine_completions"] == 8 * MIB // 65536, moved
        driver.assert_nothing_leaks()
