# SPDX-License-Identifier: Apache-2.0
"""The part of the driver's figures that runs inside the machine. Prints a line of JSON for each figure and network as soon as it
is complete: {figure, kernel, network, measured: {rows, bounds, bound, ratio}}."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from tests.bench.contenders import CONTROL, nvme_over_rdma, ramdisks, sh, wss  # noqa: E402
from tests.bench.workloads import Setup, fill  # noqa: E402

SPAN_MIB = 32  # size of the area that a job through the page cache uses


@contextmanager
def volume(options: argparse.Namespace, map_options: str = "") -> Iterator[str]:
    """Provides the device of a filled RAM volume, through wss-target and wss.ko."""
    given = argparse.Namespace(build=options.build, module=options.module, target_nice=0, map_options=map_options)
    with wss([f"ram:{options.mib}M"], Setup(), given) as (device,):
        fill(device)
        yield device


def warm_up(build: str) -> None:
    """Reads the programs once. They are loaded over 9p, and while a machine that counts instructions waits for that, its time
    jumps forward, which would exceed time limits."""
    for name in ("wssbench", "wss-target", "wssctl"):
        Path(build, name).read_bytes()
        subprocess.run([f"{build}/{name}", "--help"], check=True, capture_output=True)
    subprocess.run(["fio", "--version"], check=True, capture_output=True)


def use_siw(module: str) -> None:
    """Removes soft RoCE and adds soft iWARP to the network card."""
    sh("rdma link delete rxe0; modprobe -a ib_core libcrc32c")
    # Buffers for all data in flight. Even so, eight concurrent RDMA WRITEs of 128 KiB from user space ended a connection with
    # a local protection error.
    sh("sysctl -q -w net.ipv4.tcp_wmem='4096 8388608 8388608' net.ipv4.tcp_rmem='4096 8388608 8388608'")
    sh(f"insmod {module}; rdma link add siw0 type siw netdev eth0")


def counter(name: str) -> int:
    """Returns a counter of the driver's session."""
    return int(next(Path("/sys/class/wss").glob(f"session*/stats/{name}")).read_text())


def fio_job(path: str, pattern: str, size: int, *words: str) -> dict:
    """Runs one job and returns fio's report of it."""
    run = subprocess.run(["fio", "--name=f", f"--filename={path}", f"--rw={pattern}", f"--bs={size}", "--norandommap", "--randrepeat=1", "--thread",
                          "--output-format=json", *words], check=True, capture_output=True, text=True)  # fmt: skip
    job = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]
    if job["error"]:
        raise RuntimeError(f"fio on {path}: error {job['error']}")
    return job


def row_of(job: dict, pattern: str, rate: float, size: int) -> dict:
    side = job["write" if "write" in pattern else "read"]
    return {"rate": round(rate, 1), "mb_per_s": round(rate * size / 1e6, 2), "latency_us": round(side["clat_ns"]["mean"] / 1000, 1)}


def fio(device: str, pattern: str, size: int, depth: int, seconds: float) -> dict:
    # The time is in milliseconds, as fio rounds a fraction of a second to zero and would then run over the whole device.
    job = fio_job(device, pattern, size, f"--iodepth={depth}", "--ioengine=libaio", "--direct=1", "--time_based", f"--runtime={round(seconds * 1000)}ms", "--ramp_time=200ms")
    rate = job["write" if "write" in pattern else "read"]["iops"]
    if rate == 0:
        raise RuntimeError(f"no {pattern} of {size} bytes ended within {seconds} s: measure for longer (--seconds)")
    return row_of(job, pattern, rate, size)


def target_read_bytes(build: str) -> int:
    """Returns the bytes of the volume that the target has read so far."""
    shown = subprocess.run([f"{build}/wssctl", "--control", CONTROL, "stats", "--json"], check=True, capture_output=True, text=True)
    return sum(volume["read_bytes"] for volume in json.loads(shown.stdout)["target"]["volumes"].values())


def buffered_fio(path: str, pattern: str, size: int, cached: bool) -> dict:
    """Runs one pass through the page cache; writes are flushed to the device. With `cached` the pages already exist."""
    job = fio_job(path, pattern, size, "--ioengine=psync", f"--size={SPAN_MIB}M", "--end_fsync=1", "--fallocate=none", f"--invalidate={int(not cached)}")
    side = job["write" if "write" in pattern else "read"]
    return row_of(job, pattern, side["total_ios"] / (job["job_runtime"] / 1000), size)


def counted_read(path: str, size: int, build: str) -> dict:
    """Reads once through the page cache, and adds the percentage of the bytes that the target has read meanwhile, as the paper did
    (99.0 %). Pages that were cached before would not reach it."""
    before = target_read_bytes(build)
    row = buffered_fio(path, "read", size, False)
    return {**row, "reached_percent": round(100 * (target_read_bytes(build) - before) / (SPAN_MIB << 20), 1)}


# ---- The model: network and one copy, one after the other


def network_mb(build: str, operation: str) -> float:
    """Returns the throughput of RDMA operations of 64 KiB with eight in flight. siw does not always survive longer ones
    (use_siw)."""
    command = [f"{build}/wssbench", "net", "--fabric", "rdma", "--address", f"rdma://{os.environ['LAB_ADDRESS']}", "--operation", operation, "--size", "64K",
               "--depth", "8", "--seconds", "0.5", "--warm-up", "0.1", "--repeats", "1", "--no-progress", "--json"]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout)["rows"][0]["rate"] * 65536 / 1e6


def copy_mb(operation: str) -> float:
    """Returns the throughput of reads or overwrites of a file in memory whose pages already exist: one copy by the kernel."""
    path, size, piece = "/dev/shm/copy", 32 << 20, 128 << 10
    Path(path).write_bytes(os.urandom(1 << 20) * (size >> 20))
    buffer = bytearray(piece)
    with open(path, "r+b", buffering=0) as file:
        move = file.readinto if operation == "read" else file.write
        for measured in (False, True):
            file.seek(0)
            begun = time.monotonic()
            for _ in range(size // piece):
                move(buffer)
            taken = time.monotonic() - begun
    os.unlink(path)
    return size / taken / 1e6


def model(build: str, operation: str) -> dict:
    """Returns the model of an operation. The target uses RDMA WRITE for reads and RDMA READ for writes."""
    net, copy = network_mb(build, "rdma write" if operation == "read" else "rdma read"), copy_mb(operation)
    return {"operation": operation, "net_mb_per_s": round(net, 1), "copy_mb_per_s": round(copy, 1), "model_mb_per_s": round(1 / (1 / net + 1 / copy), 1)}


def against(kind: str, rows: list[dict], build: str) -> dict:
    """Computes the ratio of each row to the model of its operation, and to the network alone. `kind` is that of the two which
    describes what the rows do: "model" or "net". The ratio of an operation is its best, as in the paper, and that of the figure
    is the worse of the two."""
    bounds = []
    for operation in ("read", "write"):
        of = model(build, operation)
        mine = [row for row in rows if row["operation"] in (operation, f"re{operation}")]
        for row in mine:
            row.update({f"of_{name}": round(row["mb_per_s"] / of[f"{name}_mb_per_s"], 3) for name in ("model", "net")})
        best = max((row for row in mine if row.get("system", "wss") == "wss"), key=lambda row: row["mb_per_s"])
        bounds.append({**of, "bound": of[f"{kind}_mb_per_s"], "ratio": best[f"of_{kind}"], "ratio_to_model": best["of_model"], "ratio_to_net": best["of_net"]})
    return {"rows": rows, "bounds": bounds, "bound": min(row["bound"] for row in bounds), "ratio": min(row["ratio"] for row in bounds),
            "bound_means": {"model": "the model 1/(1/network + 1/copy)", "net": "the network alone: raw I/O makes no copy"}[kind]}


# ---- Figures


def raw(device: str, options: argparse.Namespace) -> dict:
    sizes = [4096, 65536, 131072] if options.quick else [512, 4096, 16384, 65536, 131072, 1048576]
    rows = [{"operation": operation, "depth": depth, "bytes": size, **fio(device, operation, size, depth, options.seconds)}
            for operation in ("read", "write") for depth in (1, 32) for size in sizes]  # fmt: skip
    return against("net", rows, options.build)


def block_rows(system: str, where: str, path: str, sizes: list[int], build: str) -> list[dict]:
    """Writes, overwrites cached data, and reads uncached data."""
    jobs = (("write", lambda size: buffered_fio(path, "write", size, False)),
            ("rewrite", lambda size: buffered_fio(path, "write", size, True)),
            ("read", lambda size: counted_read(path, size, build) if system == "wss" else buffered_fio(path, "read", size, False)))
    return [{"system": system, "where": where, "operation": name, "bytes": size, **job(size)} for size in sizes for name, job in jobs]


@contextmanager
def file_on(device: str) -> Iterator[str]:
    """Provides a new file on XFS, whose page cache has folios larger than a page."""
    where = "/run/wss-bench-fs"
    # Less than 300 MiB is unsupported by XFS, but a larger file system would only take longer to fill.
    sh(f"mkfs.xfs --unsupported -q -f -K {device} >/dev/null && mkdir -p {where} && mount {device} {where}")
    try:
        yield f"{where}/file"
    finally:
        sh(f"umount {where} && rmdir {where}")


def block_of(system: str, device: str, sizes: list[int], build: str) -> list[dict]:
    with open(device, "rb"):  # keeps the pages of the device, which its last close would drop
        rows = block_rows(system, "device", device, sizes, build)
    with file_on(device) as path:
        return rows + block_rows(system, "file", path, sizes, build)


def block(device: str, options: argparse.Namespace) -> dict:
    sizes = [4096, 65536, 1048576] if options.quick else [4096, 16384, 65536, 262144, 1048576]
    rows = block_of("wss", device, sizes, options.build)
    if options.peers:  # the same page cache over a kernel driver and over memory
        with ramdisks(options.mib, 1) as backings:
            rows += block_of("memory", backings[0], sizes, options.build)
            with nvme_over_rdma(backings, Setup()) as (peer,):
                rows += block_of("nvme-rdma", peer, sizes, options.build)
    return against("model", rows, options.build)


def counted_fio(device: str, operation: str, size: int, depth: int, seconds: float) -> dict:
    """Measures one point and the regions that the driver registered for it."""
    before = counter("regions_registered"), counter("requests")
    measured = fio(device, operation, size, depth, seconds)
    return {**measured, "regions_per_request": round((counter("regions_registered") - before[0]) / (counter("requests") - before[1]), 2)}


WAYS = {"one region": "queue_depth=32", "one region a segment": "queue_depth=32 mlockv=off"}


def rows_of_mlockv(registered: str, options: argparse.Namespace) -> list[dict]:
    sizes, depths = [8192, 32768, 131072], [8] if options.quick else [1, 8]
    with volume(options, WAYS[registered]) as device:
        rows = [{"registered": registered, "operation": operation, "piece": 4096, "pieces": size // 4096, "depth": depth, "bytes": size,
                 **counted_fio(device, operation, size, depth, options.seconds)}
                for operation in ("read", "write") for depth in depths for size in sizes]  # fmt: skip
    regions = rows[-1]["regions_per_request"]
    if (regions > 1.5) != (registered == "one region a segment"):
        raise RuntimeError(f"the driver did not follow {WAYS[registered]}: {regions} regions per request of {rows[-1]['bytes']} bytes")
    return rows


def mlockv(options: argparse.Namespace) -> dict:
    """Measures requests of whole 4 KiB pages, with one region per request or one per page (the driver's mlockv=off). The volume
    is mapped again for each way."""
    ways = {registered: rows_of_mlockv(registered, options) for registered in WAYS}
    bounds = []
    for operation, moved_by in (("read", "rdma write"), ("write", "rdma read")):
        net = network_mb(options.build, moved_by) * 1e6 / 131072
        for one, pieces in zip(*ways.values()):
            if one["operation"] != operation or one["bytes"] != 131072:
                continue
            bounds.append({"operation": operation, "depth": one["depth"], "bytes": 131072, "one_region": one["rate"], "by_pieces": pieces["rate"],
                           "network_alone": round(net, 1), "wanted": 1.7, "ratio": round(one["rate"] / pieces["rate"], 3),
                           "us_beside_the_network": round(1e6 / one["rate"] - 1e6 / net, 1),
                           "by_pieces_us_beside_the_network": round(1e6 / pieces["rate"] - 1e6 / net, 1)})  # fmt: skip
    return {"rows": [row for rows in ways.values() for row in rows], "bounds": bounds, "bound_means": "the paper's ratio", "bound": 1.7, "ratio": min(row["ratio"] for row in bounds)}


def breakdown(device: str, options: argparse.Namespace) -> dict:
    sh("mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
    rows = []
    for operation in ("read", "write"):
        (Path("/sys/kernel/debug/wss/measure")).write_text("1")
        table = next(Path("/sys/kernel/debug/wss").glob("session*/stages"))
        table.write_text("0")
        of_fio = fio(device, operation, 65536, 1, options.seconds)
        stages = [line.split() for line in table.read_text().splitlines()]
        (Path("/sys/kernel/debug/wss/measure")).write_text("0")
        total = next(int(words[3]) for words in stages if words[0] == operation and words[1] == "total")
        for kind, stage, count, ns, *_ in stages:
            if kind == operation and int(count):
                rows.append({"operation": operation, "stage": stage, "rate": int(count), "mean_us": round(int(ns) / int(count) / 1000, 2),
                             "share_percent": round(100 * int(ns) / total, 1)})  # fmt: skip
        rows.append({"operation": operation, "stage": "fio's own time of it", "rate": of_fio["rate"], "mean_us": round(1e6 / of_fio["rate"], 2)})
    return {"rows": rows}


def report(figure: str, network: str, measured: dict) -> None:
    """Prints each figure at once, as later ones may be interrupted."""
    kernel = re.match(r"[\d.]+", os.uname().release)[0]  # 6.1.0 of 6.1.0-56-amd64
    print(json.dumps({"figure": figure, "kernel": kernel, "network": network, "measured": measured}), flush=True)


def over_one_network(network: str, options: argparse.Namespace) -> None:
    if "mlockv" in options.figures:
        print(f"lab: mlockv over {network}", file=sys.stderr, flush=True)
        try:
            report("mlockv", network, mlockv(options))
        except RuntimeError as error:  # a driver without mlockv=off; the other figures do not need it
            report("mlockv", network, {"error": str(error)})
    others = [name for name in options.figures if name != "mlockv"]
    if not others:
        return
    with volume(options) as device:
        for name in others:
            print(f"lab: {name} over {network}", file=sys.stderr, flush=True)
            report(name, network, {"raw": raw, "block": block, "breakdown": breakdown}[name](device, options))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--module", required=True)
    parser.add_argument("--rdma", nargs="+", default=["rxe"], help="networks, in this order; a network that the lab does not provide is used as it is")
    parser.add_argument("--siw", default="", help="siw.ko")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, help="length of a measurement")
    parser.add_argument("--mib", type=int, default=64, help="size of the volume")
    parser.add_argument("--peers", action="store_true", help="also measure block I/O of the kernel's RAM disk and of nvme-rdma")
    parser.add_argument("--figures", nargs="+", required=True)
    options = parser.parse_args()
    options.seconds = options.seconds or (0.3 if options.quick else 1)
    warm_up(options.build)
    for network in options.rdma:
        if network == "siw":
            use_siw(options.siw)
        over_one_network(network, options)


if __name__ == "__main__":
    main()
