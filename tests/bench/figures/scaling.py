# SPDX-License-Identifier: Apache-2.0
"""The cost of an operation with growing numbers of connections, volumes, keys and cache engines, and the memory for each of
them.

The cost is processor time, of both sides if WSS provides both: a rate would depend more on the number of processors.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.bench.figures.core import Figure, Point, interval_of_median, ratio_in_turns, ratios_in_turns, run
from tests.bench.figures.core import show as show_figure

KINDS = ("connections", "volumes", "keys", "engines")
DEPTH = 8  # requests in flight for each connection, and for each cache engine


def resident_kib(pid: int) -> int:
    return next(int(line.split()[1]) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))


def remote_row(options: argparse.Namespace, *words: object) -> dict:
    command = [options.build / "wssbench", "remote", "--json", "--no-progress", "--no-bounds", "--repeats", 1, "--warm-up", 0.3, "--seconds", options.seconds,
               "--method", "ram", *words]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-500:])
    return json.loads(done.stdout)["rows"][0]


def remote(options: argparse.Namespace, *words: object) -> dict:
    row = remote_row(options, "--operation", "read", "--size", "4K", *words)
    cost = row["client_cpu_us"] + row.get("server_cpu_us", 0)
    return {"rate": row["rate"], "cpu_us": cost, **{key: row[key] for key in ("client_cpu_us", "server_cpu_us", "server_mib") if key in row}}


def connections(options: argparse.Namespace, count: int) -> dict:
    """Each connection has the same load: many connections with one request each cannot share system calls as one connection
    with 64 requests can, and their number is not the reason for that. Over tcp, as shared memory would need more descriptors
    than CI allows. The target has a reactor for each 64 connections."""
    return remote(options, "--fabric", "tcp", "--file-size", "64M", "--connections", count, "--depth", DEPTH, "--reactors", -(-count // 64))


def volumes(options: argparse.Namespace, count: int) -> dict:
    from tests.native.programs import Target, cpu_seconds

    with tempfile.TemporaryDirectory(prefix="wssbench-") as directory:
        target = Target(f"shm://{directory}/t", {f"v{i}": "ram:4M" for i in range(count)}, Path(directory), "--auth-off", "--log-level", "warning")
        with target:
            before = cpu_seconds(target.process.pid)
            row = remote(options, "--fabric", "shm", "--target", target.address, "--volume", f"v{count // 2}", "--file-size", "4M", "--connections", 1)
            # The command's seconds and its warm-up both cost the target.
            operations = row["rate"] * (options.seconds + 0.3)
            server = (cpu_seconds(target.process.pid) - before) * 1e6 / operations
            return {**row, "server_cpu_us": server, "cpu_us": row["client_cpu_us"] + server, "server_mib": resident_kib(target.process.pid) / 1024}


def keys(options: argparse.Namespace, count: int) -> dict:
    from tests.native.kv import Store

    properties = {"recordcount": count, "fieldcount": 1, "fieldlength": 100, "requestdistribution": "uniform", "readproportion": 0.5, "updateproportion": 0.5,
                  "threadcount": 2, "txnlen": 4}  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="wssbench-") as directory:
        memory = max(256, count * 1024 >> 20)
        with Store("shm", 1, Path(directory), options=["--kv-memory", f"{memory}M"]) as store:
            store.bench({**properties, "operationcount": count}, "--phase", "load", timeout=max(900, count // 2500))
            result = store.bench({**properties, "operationcount": 0, "maxexecutiontime": max(1, round(options.seconds))}, "--phase", "run", timeout=120)
            mib = resident_kib(store.partitions[0].process.pid) / 1024
            store.kill()  # an orderly stop would take long to free ten gigabytes, and is not measured
    client, server = result["CLIENT"]["CpuPerOperation(us)"], result["SERVER"]["CpuPerOperation(us)"]
    return {"rate": result["throughput"], "cpu_us": client + server, "client_cpu_us": client, "server_cpu_us": server, "server_mib": mib}


def engines(options: argparse.Namespace, count: int) -> dict:
    from tests.native.programs import Target, cpu_seconds

    with tempfile.TemporaryDirectory(prefix="wssbench-") as name:
        directory = Path(name)
        target = Target(f"shm://{directory}/t", {"bench": f"aio:{directory}/disk.img,size=16M,create"}, directory, "--cache-listen", f"shm://{directory}/c",
                        "--auth-off", "--log-level", "warning")  # fmt: skip
        with target:
            started = []
            try:
                for i in range(count):
                    command = [str(options.build / "wss-cache"), "--listen", f"shm://{directory}/e{i}", "--join", f"shm://{directory}/c", "--memory", "32M"]
                    log = (directory / f"engine{i}.log").open("wb")
                    started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log))
                for process in started:
                    if b"ready" not in process.stdout.readline():
                        raise RuntimeError("wss-cache did not get ready: " + " ".join(p.read_text() for p in directory.glob("engine*.log")))
                everybody = [target.process.pid, *(process.pid for process in started)]
                # One pass fills the cache, one is measured.
                for _ in range(2):
                    before = sum(map(cpu_seconds, everybody))
                    row = remote(options, "--fabric", "shm", "--target", target.address, "--file-size", "16M", "--connections", 1, "--depth", DEPTH * count)
                server = (sum(map(cpu_seconds, everybody)) - before) * 1e6 / (row["rate"] * (options.seconds + 0.3))
                return {**row, "server_cpu_us": server, "cpu_us": row["client_cpu_us"] + server,
                        "server_mib": resident_kib(target.process.pid) / 1024}  # fmt: skip
            finally:
                for process in started:
                    process.terminate()
                for process in started:
                    process.wait(20)


PLANS = {
    "connections": (connections, [1, 10, 100, 1000], [1, 10, 100]),
    "volumes": (volumes, [1, 4, 16, 64, 256], [1, 16, 256]),
    "keys": (keys, [1000, 10_000, 100_000, 1_000_000, 10_000_000], [1000, 10_000, 100_000]),
    "engines": (engines, [1, 2, 4, 8], [1, 4]),
}


def judge(result: dict) -> None:
    """For each kind: growth of the cost from the first to the last point, against the logarithm's growth, and memory for
    each unit."""
    bounds = []
    for kind in KINDS:
        rows = [row for row in result["rows"] if row["of"] == kind and "cpu_us" in row]
        if len(rows) < 2:
            continue
        first, last = rows[0], rows[-1]
        growth = ratio_in_turns(last, first, "cpu_us")
        low, high = interval_of_median(ratios_in_turns(last, first, "cpu_us"))
        # The cost at the last point if it grew with the logarithm: log2 of the count plus a constant of one.
        allowed = (1 + math.log2(last["count"])) / (1 + math.log2(first["count"]))
        memory = (last["server_mib"] - first["server_mib"]) * 1024 / (last["count"] - first["count"]) if "server_mib" in last else None
        bounds.append({"of": kind, "from": first["count"], "to": last["count"], "cost_growth": round(growth, 3), "logarithm": round(allowed, 2),
                       "ratio": round(allowed / growth, 3), "ratio_low": round(allowed / high, 3), "ratio_high": round(allowed / low, 3), "kib_each": None if memory is None else round(memory, 2)})  # fmt: skip
    result["bounds"], result["bound_means"] = bounds, "growth with the logarithm"
    if bounds:
        worst = min(bounds, key=lambda row: row["ratio"])
        result["bound"], result["ratio"] = worst["logarithm"], worst["ratio"]


def figure(options: argparse.Namespace, which: list[str]) -> dict:
    os.environ["WSS_BUILD"] = str(options.build)
    points = []
    for kind in which or KINDS:
        measure, counts, quick = PLANS[kind]
        for count in quick if options.quick else counts:
            points.append(Point({"of": kind, "count": count}, lambda m=measure, c=count: m(options, c), options.seconds + 1.5 + count / 50_000))
    return run(Figure("scaling", "none", "Processor time of an operation as things grow", "operations/s", "count", ["of"], points, [], judge), options)


def show(options: argparse.Namespace) -> int:
    unknown = set(options.which) - set(KINDS)
    if unknown:
        print(f"wssbench: scaling: there is no {', '.join(sorted(unknown))}: {', '.join(KINDS)}", file=sys.stderr)
        return 2
    begun = time.monotonic()
    result = figure(options, options.which)
    result["seconds_taken"] = round(time.monotonic() - begun, 1)
    return show_figure(result, options.json)
