# SPDX-License-Identifier: Apache-2.0
"""The second part of `make bench-cache-hit`: the cost of a cache hit on each machine, including the kernel, the driver and soft
RDMA.

Four machines of the lab count instructions: the client (wss.ko), the target and two cache engines, with RDMA between them. The
cost of a read is busy time (busy.py): the difference between two runs with different numbers of reads, less the idle load of the
machine in that time. For comparison, the same driver with the same options reads a RAM volume from a target without a cache.
Each machine has one processor, on which no reactor spins. Rounds differ a little, as the coalescing of completions depends on
when machines get the host's processors. The output has the median and the spread of the rounds.

Every read that is to be a hit must be one: no byte passes through the target or comes from storage, and the driver counts all reads as
completed by engines.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Iterator

from tests.bench.busy import Work, counted_loop, since, snapshots
from tests.lab.lab import Lab
from tests.lab.vm import Shape, Vm
from tests.system.block_setup import Driver, Target, difference, loaded, run_fio
from tests.system.cache_machines import Engine, Machines

MIB = 1 << 20
AREA = 16 * MIB
SHAPE = Shape(cpus=1, memory_mib=768, nvme_sizes=(64 * MIB,), icount=True)
NAMES = ("client", "target", "engine", "engine")
# On a busy host, a machine may not respond within the keep-alive time.
MAP = "queues=1 caps=0x4b keepalive_tmo=off fast_io_fail_tmo=off reconnect_delay=1"
WAIT = 300
IDLE_SECONDS = 4.0
PER_SECOND = 500e6  # instructions of a machine per second
REPEATED_MAX = 0.002  # largest share of repeated packets


@dataclass(frozen=True)
class Load:
    name: str
    block: int
    depth: int
    reads: int  # number of counted reads


LOADS = (Load("4k, depth 1", 4096, 1, 1000), Load("4k, depth 32", 4096, 32, 5000), Load("128k, depth 8", 128 << 10, 8, 320))


def say(text: str) -> None:
    print(f"bench-cache-hit: {text}", file=sys.stderr, flush=True)


class Case:
    """A mapped volume: a RAM volume, or one cached by one or more engines."""

    def __init__(self, lab: Lab, target: Target, engines: list[Engine], driver: Driver, device: str) -> None:
        self.lab, self.target, self.engines, self.driver, self.device = lab, target, engines, driver, device
        self.machines = Machines(lab, target, engines, driver)

    @property
    def vms(self) -> list[Vm]:
        return self.lab.vms[: 2 + len(self.engines)]

    def read(self, words: str) -> None:
        end = run_fio(self.lab.vms[0], self.device, f"--size={AREA} {words}", WAIT)
        assert end.error == 0 and end.status == 0, end

    def warm(self) -> None:
        """Reads until a complete pass reads nothing from real storage."""
        for _ in range(8):
            before = self.machines.counters() if self.engines else {}
            self.read("--rw=read --bs=128k --iodepth=2")
            if not self.engines or difference(self.machines.counters(), before)["storage_read_bytes"] == 0:
                return
        raise AssertionError("not all data was in the engines after eight passes")

    def idle(self) -> list[float]:
        """Returns the idle load of each machine as a share of its time."""
        def stretch(seconds: float) -> list[Work]:
            before = snapshots(self.vms)
            time.sleep(seconds)
            return since(self.vms, before)
        short, long = stretch(0), stretch(IDLE_SECONDS)
        return [(b - a).busy / (b - a).elapsed for a, b in zip(short, long)]

    def counted(self, load: Load, reads: int) -> list[Work]:
        """Runs the load and returns the work of each machine."""
        counters = self.machines.counters() if self.engines else {}
        ours = self.driver.counters()
        before = snapshots(self.vms)
        self.read(f"--rw=randread --norandommap --bs={load.block} --iodepth={load.depth} --number_ios={reads} --io_size={reads * load.block}")
        done = since(self.vms, before)
        if self.engines:
            moved, ours = difference(self.machines.counters(), counters), difference(self.driver.counters(), ours)
            assert moved["through_target_bytes"] == moved["storage_read_bytes"] == 0, moved
            assert ours["engine_completions"] >= reads and ours["engine_bytes"] >= reads * load.block, ours
        return done


@contextmanager
def case(lab: Lab, engines: int, line: int) -> Iterator[Case]:
    server = lab.vms[1]
    volume = f"aio:{server.disk_device(0)}" if engines else f"ram:{AREA}"
    more = f"--cache-listen rdma://$LAB_ADDRESS:5556 --cache-line {line}" if engines else ""
    with ExitStack() as stack:
        target = stack.enter_context(Target(server, {"v": volume}, f"--auth-off --log-level warning {more}"))
        started = [Engine(vm, server.address, number).start() for number, vm in enumerate(lab.vms[2 : 2 + engines])]
        for engine in started:
            stack.callback(engine.kill)
        driver = stack.enter_context(loaded(lab.vms[0]))
        device = driver.map(target, "v", MAP)
        made = Case(lab, target, started, driver, device)
        if engines:
            made.machines.wait_for_engines(engines)
        else:
            made.read("--rw=write --bs=128k --iodepth=4")  # the first access to memory is a different load
        made.warm()
        yield made


@dataclass(frozen=True)
class Figures:
    """The result of one load and case: instructions and RDMA packets per read of each machine, and reads per second of host
    time."""

    instructions: list[float]
    packets: list[float]
    rate: float


def measure(it: Case, load: Load, idle: list[float]) -> Figures:
    start = time.monotonic()
    few = it.counted(load, load.reads // 4)
    between = time.monotonic()
    many = it.counted(load, load.reads + load.reads // 4)
    seconds = (time.monotonic() - between) - (between - start)
    more = [b - a for a, b in zip(few, many)]
    repeated, packets = (sum(getattr(work, name) for work in many) for name in ("repeated", "packets"))
    if repeated > REPEATED_MAX * packets:
        say(f"{load.name}: {repeated} of {packets} packets were retransmitted; the figures include that cost")
    own = [(work.busy - share * work.elapsed) / 2 / load.reads for work, share in zip(more, idle)]
    return Figures(own, [work.packets / load.reads for work in more], load.reads / max(seconds, 1e-9))


def profile(it: Case, load: Load) -> None:
    """Profiles the busy functions of client and target. As sampling has a cost, the counts come from other runs."""
    recording = [vm.start("exec perf record -q -a -e cpu-clock -F 2000 -o /tmp/perf.data -- sleep 3600") for vm in it.vms[:2]]
    it.counted(load, load.reads)
    for name, vm, process in zip(NAMES, it.vms, recording):
        process.signal(signal.SIGINT)
        process.wait(WAIT)
        report = "perf report -i /tmp/perf.data --stdio -q --no-children --percent-limit 0.7"
        shown = vm.run(f"{report} --sort comm; {report} --sort comm,sym | head -n 60", WAIT).stdout
        lines = [line.rstrip() for line in shown.splitlines() if line.strip() and not line.startswith("#")]
        say("\n".join([f"{len(it.engines)} engines, {load.name}, {name}:", *lines]))


def rounds_of(it: Case, rounds: int, loads: tuple[Load, ...]) -> dict[str, list[Figures]]:
    results: dict[str, list[Figures]] = {load.name: [] for load in loads}
    idle = it.idle()
    say(f"{len(it.engines)} engines; busy share without reads: " + ", ".join(f"{share:.4f}" for share in idle))
    for _ in range(rounds):
        for load in loads:
            figures = measure(it, load, idle)
            results[load.name].append(figures)
            say(f"{len(it.engines)} engines, {load.name}: " + ", ".join(f"{count:.0f}" for count in figures.instructions))
    return results


def run(line: int, rounds: int, cases: list[int], loads: tuple[Load, ...], profiled: bool) -> dict[int, dict[str, list[Figures]]]:
    results: dict[int, dict[str, list[Figures]]] = {}
    with Lab(2 + max(cases), SHAPE, say) as lab:
        clocks = [counted_loop(vm) for vm in lab.vms]
        say("busy instructions counted per instruction of a known loop: " + ", ".join(f"{clock:.3f}" for clock in clocks))
        assert all(0.99 < clock < 1.02 for clock in clocks), "these machines do not count instructions"
        for engines in cases:
            with case(lab, engines, line) as it:
                results[engines] = rounds_of(it, rounds, loads)
                for load in loads if profiled else ():
                    profile(it, load)
        lab.check_klog()
        lab.shut_down()
    return results


def middle(figures: list[Figures], machine: int) -> float:
    return median(one.instructions[machine] for one in figures)


def spread(figures: list[Figures], machine: int) -> float:
    """Returns the spread of the rounds as a percentage of the median."""
    counts = [one.instructions[machine] for one in figures]
    return 100 * (max(counts) - min(counts)) / median(counts)


def table(results: dict[int, dict[str, list[Figures]]]) -> str:
    lines = ["| random reads | machine | RAM volume | hit, one engine | ratio | spread of rounds | RDMA packets: RAM | hit |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for name, ram in results[0].items():
        hit = results[1][name]
        for machine in (0, 1):
            a, b = middle(ram, machine), middle(hit, machine)
            packets = [median(one.packets[machine] for one in figures) for figures in (ram, hit)]
            lines.append(f"| {name} | {NAMES[machine]} | {a:.0f} | {b:.0f} | {b / a:.2f} | {spread(ram, machine):.1f} %, {spread(hit, machine):.1f} % | "
                         f"{packets[0]:.1f} | {packets[1]:.1f} |")
        lines.append(f"| {name} | engine | – | {middle(hit, 2):.0f} | – | {spread(hit, 2):.1f} % | – | {median(one.packets[2] for one in hit):.1f} |")
    return "\n".join(lines)


def engines_table(results: dict[int, dict[str, list[Figures]]]) -> str:
    """Returns the rates that the busiest machine allows: of all machines, and of target and engines only."""
    lines = ["| random reads | engines | client | target | busiest engine | reads/s that all machines allow | reads/s that target and engines allow | measured reads/s of host time |",
             "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for name in results[0]:
        for engines in sorted(set(results) - {0}):
            figures = results[engines][name]
            client, target, *others = (middle(figures, machine) for machine in range(2 + engines))
            lines.append(f"| {name} | {engines} | {client:.0f} | {target:.0f} | {max(others):.0f} | {PER_SECOND / max(client, target, *others):.0f} | "
                         f"{PER_SECOND / max(target, *others):.0f} | {median(one.rate for one in figures):.0f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--line", type=int, default=65536, help="bytes of a cache line (default: 64 KiB, as in the target)")
    parser.add_argument("--cases", type=int, nargs="+", default=[0, 1, 2], help="numbers of engines; 0 is the RAM volume")
    parser.add_argument("--loads", nargs="+", default=[load.name for load in LOADS], help="measure only these")
    parser.add_argument("--profile", action="store_true", help="afterwards profile client and target with perf (package linux-perf)")
    parser.add_argument("--json", action="store_true", help="also print the figures of every round")
    options = parser.parse_args()
    loads = tuple(load for load in LOADS if load.name in options.loads)
    results = run(options.line, options.rounds, options.cases, loads, options.profile)
    if options.json:
        print(json.dumps({engines: {name: [vars(one) for one in figures] for name, figures in by_load.items()} for engines, by_load in results.items()}))
    if {0, 1} <= set(results):
        print(table(results), engines_table(results), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
