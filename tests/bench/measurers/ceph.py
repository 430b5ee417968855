# SPDX-License-Identifier: Apache-2.0
"""Measures access to an image of a Ceph cluster on this host: with librbd (fio), through a target, and through a target with two
cache engines (tools/wssbench/ceph.cc).

Prints {"ready": true} when the cluster is running. For each line {operation, size, depth, way} on standard input it prints one
sample {rate, latency_us, p99_us, cpu_us, osd_us[, hit_ratio]} or {"error": TEXT}. Exits at the end of its input.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TextIO

from tests.bench.measurers import interrupt, own_output, put

AREA_MIB = 64
ENGINES = 2
WARM_UP_S = 0.3  # passed to wssbench


def fio(ceph, image: str, *words: str) -> tuple[dict, float]:
    """Returns fio's report of the job, and the processor time of all its threads, as the report excludes librbd's threads.

    Latencies cover the time from before the submission until the completion, as in wssbench.
    """
    pool, name = image.split("/")
    command = ["fio", "--output-format=json", "--ioengine=rbd", "--clientname=admin", f"--pool={pool}", f"--rbdname={name}", "--name=b",
               "--lat_percentiles=1", "--clat_percentiles=0", *words]  # fmt: skip
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, "CEPH_CONF": str(ceph.conf)})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-500:])
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0], used


def librbd(ceph, image: str, operation: str, size: str, depth: int, options: argparse.Namespace) -> dict:
    words = [f"--rw=rand{operation}", f"--bs={size}", f"--iodepth={depth}", f"--size={AREA_MIB}M", "--norandommap=1"]
    _, start = fio(ceph, image, *words, "--number_ios=1")
    osds = daemons_cpu(ceph)
    job, used = fio(ceph, image, *words, "--time_based", f"--runtime={round(options.seconds * 1000)}ms", f"--ramp_time={round(options.warm_up * 1000)}ms")
    way = job[operation]
    operations = way["iops"] * (options.seconds + options.warm_up)
    return {"rate": way["iops"], "latency_us": way["lat_ns"]["percentile"]["50.000000"] / 1000, "p99_us": way["lat_ns"]["percentile"]["99.000000"] / 1000,
            "cpu_us": max(used - start, 0) * 1e6 / operations, "osd_us": (daemons_cpu(ceph) - osds) * 1e6 / operations}  # fmt: skip


def remote_row(options: argparse.Namespace, *words: object) -> dict:
    command = [options.build / "wssbench", "remote", "--json", "--no-progress", "--no-bounds", "--repeats", 1, "--warm-up", WARM_UP_S,
               "--seconds", options.seconds, "--method", "ram", *words]  # fmt: skip
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip()[-500:])
    return json.loads(done.stdout)["rows"][0]


def daemons_cpu(ceph) -> float:
    from tests.native.programs import cpu_seconds

    return sum(cpu_seconds(daemon.pid) for daemon in ceph.daemons.values())


class Served:
    """A target on an image, with or without engines."""

    def __init__(self, stack: contextlib.ExitStack, directory: Path, ceph, backend: str, engines: int):
        from tests.native.cache_cluster import Cluster
        from tests.native.programs import Target

        self.ceph = ceph
        if engines:
            self.cluster = stack.enter_context(Cluster("shm", directory, engines=engines, memory=f"{2 * AREA_MIB}M", volumes={"bench": backend}))
            self.target = self.cluster.target
            self.cluster.policy("write-through", volume="bench")
            self.pids = [self.target.process.pid, *(engine.process.pid for engine in self.cluster.engines)]
        else:
            self.cluster = None
            self.target = stack.enter_context(Target(f"shm://{directory}/t", {"bench": backend}, directory, "--auth-off", "--log-level", "warning"))
            self.pids = [self.target.process.pid]

    def hits(self) -> tuple[int, int]:
        counters = self.cluster.counters("bench")
        return counters["reads"], counters["read_hits"]

    def measure(self, operation: str, size: str, depth: int, options: argparse.Namespace) -> dict:
        from tests.native.programs import cpu_seconds

        before, osds, hits = sum(map(cpu_seconds, self.pids)), daemons_cpu(self.ceph), self.hits() if self.cluster else None
        row = remote_row(options, "--fabric", "shm", "--target", self.target.address, "--volume", "bench", "--operation", operation, "--size", size, "--depth", depth,
                         "--file-size", f"{AREA_MIB}M", "--connections", 1)  # fmt: skip
        operations = row["rate"] * (options.seconds + WARM_UP_S)
        server = (sum(map(cpu_seconds, self.pids)) - before) * 1e6 / operations
        # With too few operations for latency samples, the row has no latencies.
        latencies = {key: row[key] for key in ("latency_us", "p99_us") if key in row}
        result = {"rate": row["rate"], **latencies, "cpu_us": row["client_cpu_us"] + server,
                  "osd_us": (daemons_cpu(self.ceph) - osds) * 1e6 / operations}  # fmt: skip
        if hits and operation == "read":
            reads, found = (after - was for after, was in zip(self.hits(), hits))
            result["hit_ratio"] = round(found / reads, 4) if reads else 0
        return result


def measure(ceph, image: str, way: str, operation: str, size: str, depth: int, options: argparse.Namespace) -> dict:
    if way == "librbd":
        return librbd(ceph, image, operation, size, depth, options)
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory(prefix="wssbench-") as directory:
        # The previous client has exited or will give up its lock.
        served = Served(stack, Path(directory), ceph, ceph.backend(image, steal="true"), 0 if way == "target" else ENGINES)
        if way == "engines-warm":
            for _ in range(2):
                served.measure("read", "64K", 16, options)
        return served.measure(operation, size, depth, options)


def answer(ceph, image: str, line: str, options: argparse.Namespace) -> dict:
    try:
        return measure(ceph, image, **json.loads(line), options=options)
    except (RuntimeError, AssertionError, OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def serve(options: argparse.Namespace, output: TextIO) -> None:
    os.environ["WSS_BUILD"] = str(options.build)
    from tests.native.ceph_cluster import CephCluster

    with tempfile.TemporaryDirectory(prefix="wssbench-ceph-") as directory, CephCluster(Path(directory) / "c") as ceph:
        image = ceph.create_image(f"{AREA_MIB}M")
        # Reads of unwritten blocks cost Ceph little, so the image is written first.
        ceph.rbd("bench", "--io-type", "write", "--io-size", "4M", "--io-total", f"{AREA_MIB}M", image)
        put(output, {"ready": True})
        for line in sys.stdin:
            put(output, answer(ceph, image, line, options))


def main() -> int:
    parser = argparse.ArgumentParser(description="measures a Ceph cluster for wssbench")
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--warm-up", type=float, required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, interrupt)
    output = own_output()
    try:
        serve(options, output)
    except (RuntimeError, AssertionError, OSError, subprocess.SubprocessError) as error:
        put(output, {"error": str(error)})
        return 1
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
