# SPDX-License-Identifier: Apache-2.0
"""Paper A: the key-value store's transports, transaction sizes and read shares (figs 4-7), by kvctl's YCSB runner."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from tests.bench.figures.core import Figure, Interrupted, Point, interval_columns, ratio_in_turns, ratios_in_turns, row_of, run

RECORDS, VALUE, THREADS, PARTITIONS = 1000, 1000, 4, 4
WARM_UP_S = 1  # the minimum of kvctl: each measurement is a new client, with an empty address cache
# The systems that the paper compares, by their kvctl options, with the native fabric of each. The paper's sockets are tcp.
SYSTEMS = {
    "S2PL": ("tcp", ["--algorithm", "2pl-sequential"]),
    "RAMP(GET,PUT)": ("tcp", ["--algorithm", "ramp-fast"]),
    "RAMP(GET+,PUT+)": ("shm", ["--transport", "ring"]),
    "RAMP(GET*,PUT+) paper": ("shm", ["--one-sided", "paper", "--transport", "ring"]),
    "RAMP(GET*,PUT+) ours": ("shm", ["--one-sided", "on", "--transport", "ring"]),
}
TRANSPORTS = {
    "tcp messages": ("tcp", []),
    "shm messages": ("shm", []),
    "shm rings": ("shm", ["--transport", "ring"]),
}
PAPER = {
    "ramp-transports": [
        {"text": "A fig 4: Eth 1 : IPoIB 1.32 : Verbs 2.39 : RDMA 2.53 (RAMP, 95 % reads, 8 operations)"}],
    "ramp-size": [{"text": "A fig 5: at 4 operations GET+ 2.07 x, GET* 2.78 x of RAMP over IPoIB"}],
    "ramp-mix": [{"text": "A fig 6: at 100 % reads 1.94 x and 2.69 x; at 0 % GET* = GET+"}],
    "ramp-ycsb": [{"text": "A fig 7: at 100 % reads 2.06 x and 2.67 x (YCSB, 1 KB values, 1000 keys, uniform)"}],
}  # fmt: skip


class Stores:
    """A store for each fabric, started at its first use. An idle store uses no processor."""

    def __init__(self, directory: Path, value: int):
        self.directory, self.value, self.stores = directory, value, {}

    def get(self, scheme: str):
        from tests.native.kv import Store

        if scheme not in self.stores:
            (self.directory / scheme).mkdir()
            store = Store(scheme, PARTITIONS, self.directory / scheme)
            store.__enter__()
            self.stores[scheme] = store
            store.bench(properties(1, 1, 1, self.value), "--phase", "load")
        return self.stores[scheme]

    def close(self) -> None:
        for store in self.stores.values():
            store.__exit__(None, None, None)


def properties(read_share: float, size: int, seconds: float, value: int) -> dict[str, object]:
    return {"recordcount": RECORDS, "fieldcount": 1, "fieldlength": value, "txnlen": size, "requestdistribution": "uniform", "readproportion": read_share,
            "updateproportion": 1 - read_share, "threadcount": THREADS, "operationcount": 0, "maxexecutiontime": run_seconds(seconds), "warmup": WARM_UP_S}  # fmt: skip


def run_seconds(seconds: float) -> int:
    """kvctl takes whole seconds."""
    return max(1, round(seconds))


def measure(stores: Stores, system: tuple[str, list[str]], read_share: float, size: int, seconds: float) -> dict:
    scheme, modes = system
    try:
        result = stores.get(scheme).bench(properties(read_share, size, seconds, stores.value), "--phase", "run", modes=modes, timeout=seconds + 60)
    except KeyboardInterrupt as interrupt:
        raise Interrupted from interrupt
    return {"rate": result["throughput"], "server_cpu_us": result["SERVER"]["CpuPerOperation(us)"], "client_cpu_us": result["CLIENT"]["CpuPerOperation(us)"],
            "fallback_percent": result["KV"]["FallbackShare(%)"], "one_sided": result["KV"]["OneSidedReads"], "by_message": result["KV"]["ReadsByMessage"]}


def compare(x: str, at: float, base: str, wanted: dict[str, float | None]):
    """Sets the ratio of each system to `base` at one point. Its bound is the paper's ratio of the same system, or None for a
    system that the paper lacks. The figure's ratio is that of the last system with a bound."""

    def judge(result: dict) -> None:
        rows = {system: row_of(result, system=system, **{x: at}) for system in (base, *wanted)}
        result["bounds"] = [
            {"system": system, x: at, "rate": rows[system]["rate"], "base": base, "bound": paper, "ratio": round(ratio_in_turns(rows[system], rows[base]), 3),
             **interval_columns(ratios_in_turns(rows[system], rows[base]))}
            for system, paper in wanted.items()]  # fmt: skip
        last = [row for row in result["bounds"] if row["bound"] is not None][-1]
        result["bound"], result["ratio"] = last["bound"], last["ratio"]
        result["bound_means"] = "the paper's ratio"

    return judge


def plan(which: str, stores: Stores, seconds: float, quick: bool) -> Figure:
    def points(systems: dict, x: str, values: list, read_share=None, size=None) -> list[Point]:
        return [Point({"system": name, x: value}, lambda s=system, v=value: measure(stores, s, v / 100 if read_share is None else read_share,
                                                                                   v if size is None else size, seconds), run_seconds(seconds) + WARM_UP_S + 0.5)
                for name, system in systems.items() for value in values]  # fmt: skip

    base, papers, ours = "RAMP(GET,PUT)", "RAMP(GET*,PUT+) paper", "RAMP(GET*,PUT+) ours"
    if which == "transports":
        return Figure("ramp-transports", "A fig 4", "Transports: RAMP-Fast, 95 % reads, 8 operations in a transaction", "transactions/s", "operations", ["system"],
                      points(TRANSPORTS, "operations", [8], read_share=0.95), PAPER["ramp-transports"],
                      compare("operations", 8, "tcp messages", {"shm messages": 2.39, "shm rings": 2.53}))  # fmt: skip
    if which == "size":
        return Figure("ramp-size", "A fig 5", "Transaction size, 95 % reads", "transactions/s", "operations", ["system"],
                      points(SYSTEMS, "operations", [1, 4, 16] if quick else [1, 2, 4, 8, 16], read_share=0.95), PAPER["ramp-size"],
                      compare("operations", 4, base, {"RAMP(GET+,PUT+)": 2.07, papers: 2.78, ours: None}))  # fmt: skip
    name = "ramp-" + which
    title = "Read share, " + ("micro-benchmark of small values" if which == "mix" else "YCSB, 1 KB values, 1000 keys, uniform") + ", 8 operations"
    paper = {"mix": (1.94, 2.69), "ycsb": (2.06, 2.67)}[which]
    return Figure(name, {"mix": "A fig 6", "ycsb": "A fig 7"}[which], title, "transactions/s", "read_percent", ["system"],
                  points(SYSTEMS, "read_percent", [0, 50, 100] if quick else [0, 25, 50, 75, 100], size=8), PAPER[name],
                  compare("read_percent", 100, base, {"RAMP(GET+,PUT+)": paper[0], papers: paper[1], ours: None}))  # fmt: skip


def figure(which: str, options: argparse.Namespace) -> dict:
    os.environ["WSS_BUILD"] = str(options.build)
    with tempfile.TemporaryDirectory(prefix="wssbench-ramp-") as directory:
        stores = Stores(Path(directory), 100 if which == "mix" else VALUE)
        try:
            planned = plan(which, stores, options.seconds, options.quick)
            planned.method = (f"seconds of this machine; {run_seconds(options.seconds)} s after {WARM_UP_S} s of warm-up, median of {options.repeats} in turns; "
                              "not pinned; base systems over tcp sockets, GET+ and GET* over shared memory, where the paper has one network for all")  # fmt: skip
            return run(planned, options)
        finally:
            stores.close()
