# SPDX-License-Identifier: Apache-2.0
"""An image of a Ceph cluster on this host: by librbd (fio), through a target, and through a target with two cache engines.

The OSDs hold their data in memory and run on the same processors, so the figures exclude the disks and the network of a real
cluster. `cpu_us` is the processor time of the client and of WSS's processes. `osd_us` is that of the OSDs and the monitor: a
hit needs none, a read by librbd does. With shared memory the engines' processors copy data to the client; with RDMA the
adapter does that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import subprocess
import tempfile
from pathlib import Path

from tests.bench.figures.core import Figure, Point, ratio_in_turns, run
from tests.bench.figures.scaling import remote_row

AREA_MIB = 64
DEPTHS = (1, 16)
ENGINES = 2
WAYS = ("librbd", "target", "engines-cold", "engines-warm")


def fio(ceph, image: str, *words: str) -> tuple[dict, float]:
    """Returns fio's report of the job and the processor time of all its threads: fio counts only its own, not librbd's.

    Latencies cover the time from before the submission to the completion, as those of wssbench do.
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


def daemons_cpu(ceph) -> float:
    from tests.native.programs import cpu_seconds

    return sum(cpu_seconds(daemon.pid) for daemon in ceph.daemons.values())


class Served:
    """A target on an image, with or without engines; it measures `operations`."""

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
        operations = row["rate"] * (options.seconds + 0.3)
        server = (sum(map(cpu_seconds, self.pids)) - before) * 1e6 / operations
        result = {"rate": row["rate"], "latency_us": row["latency_us"], "p99_us": row.get("p99_us", -1), "cpu_us": row["client_cpu_us"] + server,
                  "osd_us": (daemons_cpu(self.ceph) - osds) * 1e6 / operations}  # fmt: skip
        if hits and operation == "read":
            reads, found = (after - was for after, was in zip(self.hits(), hits))
            result["hit_ratio"] = round(found / reads, 4) if reads else 0
        return result


def measure(ceph, image: str, way: str, operation: str, size: str, depth: int, options: argparse.Namespace) -> dict:
    if way == "librbd":
        return librbd(ceph, image, operation, size, depth, options)
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory(prefix="wssbench-") as directory:
        # The previous client has ended, or gives up its lock.
        served = Served(stack, Path(directory), ceph, ceph.backend(image, steal="true"), 0 if way == "target" else ENGINES)
        if way == "engines-warm":
            for _ in range(2):
                served.measure("read", "64K", 16, options)
        return served.measure(operation, size, depth, options)


def judge(result: dict) -> None:
    """Warm reads of 4 KiB: operations per second of processor time, against librbd; misses: latency, against librbd.

    A miss is a read through a target with empty engines. Some reads of a run hit, because the run fills the engines:
    `hit_ratio` of its row is their share.
    """

    def row(way: str, depth: int) -> dict | None:
        return next((row for row in result["rows"] if (row["way"], row["operation"], row["size"], row["depth"]) == (way, "read", "4K", depth) and "rate" in row), None)

    direct, warm = row("librbd", DEPTHS[-1]), row("engines-warm", DEPTHS[-1])
    if direct and warm:
        for each in (direct, warm):
            each["turns"]["all_cpu_us"] = [own + osds for own, osds in zip(each["turns"]["cpu_us"], each["turns"]["osd_us"])]
        result["bound"], result["ratio"] = "librbd's warm reads per second of processor time, OSDs included", round(ratio_in_turns(direct, warm, "all_cpu_us"), 2)
        result["ratio_without_osds"] = round(ratio_in_turns(direct, warm, "cpu_us"), 2)
    direct = row("librbd", 1)
    for name, way in (("miss_latency", "engines-cold"), ("miss_latency_without_cache", "target")):
        miss = row(way, 1)
        if direct and miss:
            result[name] = round(ratio_in_turns(miss, direct, "latency_us"), 2)


def figure(options: argparse.Namespace) -> dict:
    os.environ["WSS_BUILD"] = str(options.build)
    from tests.native.ceph_cluster import CephCluster

    with tempfile.TemporaryDirectory(prefix="wssbench-ceph-") as directory, CephCluster(Path(directory) / "c") as ceph:
        image = ceph.create_image(f"{AREA_MIB}M")
        # Ceph reads unwritten blocks at little cost, so the image is written first.
        ceph.rbd("bench", "--io-type", "write", "--io-size", "4M", "--io-total", f"{AREA_MIB}M", image)
        points = []
        for operation in ("read", "write"):
            for size in ("4K",) if options.quick else ("4K", "64K"):
                for depth in DEPTHS:
                    for way in WAYS if operation == "read" else WAYS[:3]:
                        labels = {"operation": operation, "size": size, "depth": depth, "way": way}
                        points.append(Point(labels, lambda words=labels: measure(ceph, image, words["way"], words["operation"], words["size"], words["depth"], options),
                                            options.seconds + 3))  # fmt: skip
        return run(Figure("ceph", "none", "An image of a Ceph cluster, directly and through WSS", "operations/s", "depth", ["operation", "size", "way"], points, [],
                          judge, "fio with librbd; wssbench remote through a target over shared memory; OSDs in memory on the same processors"), options)  # fmt: skip
