# SPDX-License-Identifier: Apache-2.0
"""The part of the driver's figures that runs inside the machine. Prints one JSON object: {figure: {rows, bounds, bound, ratio}}."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
from tests.bench.contenders import sh, wss  # noqa: E402
from tests.bench.workloads import fill  # noqa: E402

DEVICE_MIB = 128


def counter(name: str) -> int:
    """Of the driver's session."""
    return int(next(Path("/sys/class/wss").glob(f"session*/stats/{name}")).read_text())


def fio(device: str, pattern: str, size: int, depth: int, seconds: float, direct: bool, span: str = f"{DEVICE_MIB}M") -> dict:
    """One job; a buffered one goes over the span once, and a write ends on the device."""
    words = ["fio", "--name=f", f"--filename={device}", f"--rw={pattern}", f"--bs={size}", f"--iodepth={depth}", f"--ioengine={'libaio' if direct else 'psync'}",
             f"--direct={int(direct)}", f"--size={span}", "--norandommap", "--randrepeat=1", "--thread", "--output-format=json"]  # fmt: skip
    # In milliseconds: fio takes a fraction of a second for none, and then goes over the whole span.
    words += ["--time_based", f"--runtime={round(seconds * 1000)}ms", "--ramp_time=200ms"] if direct else ["--end_fsync=1", "--invalidate=1"]
    run = subprocess.run(words, check=True, capture_output=True, text=True)
    job = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]
    if job["error"]:
        raise RuntimeError(f"fio on {device}: error {job['error']}")
    side = job["write" if "write" in pattern else "read"]
    seconds_taken = job["job_runtime"] / 1000 if not direct else None
    rate = side["total_ios"] / seconds_taken if seconds_taken else side["iops"]
    return {"rate": round(rate, 1), "mb_per_s": round(rate * size / 1e6, 2), "latency_us": round(side["clat_ns"]["mean"] / 1000, 1)}


# ---- the model: network and one copy, one after the other


def network_rate(build: str, size: str, operation: str) -> float:
    """How many RDMAs of that size the fabric moves a second, several in flight."""
    command = [f"{build}/wssbench", "net", "--fabric", "rdma", "--address", f"rdma://{os.environ['LAB_ADDRESS']}", "--size", size, "--depth", "8",
               "--seconds", "0.5", "--warm-up", "0.1", "--repeats", "1", "--no-progress", "--json"]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError(run.stderr)
    return next(row["rate"] for row in json.loads(run.stdout)["rows"] if row["operation"] == operation)


def copy_mb() -> float:
    """What reading a file in memory moves: one copy by the kernel."""
    path, size, piece = "/dev/shm/copy", 32 << 20, 128 << 10
    Path(path).write_bytes(os.urandom(1 << 20) * (size >> 20))
    buffer = bytearray(piece)
    with open(path, "rb", buffering=0) as file:
        for measured in (False, True):
            file.seek(0)
            begun = time.monotonic()
            for _ in range(size // piece):
                file.readinto(buffer)
            taken = time.monotonic() - begun
    os.unlink(path)
    return size / taken / 1e6


def model(build: str) -> dict:
    net, copy = network_rate(build, "64K", "rdma write") * 65536 / 1e6, copy_mb()
    return {"net_mb_per_s": round(net, 1), "copy_mb_per_s": round(copy, 1), "model_mb_per_s": round(1 / (1 / net + 1 / copy), 1)}


def against_model(rows: list[dict], of_model: dict) -> dict:
    """Each row's part of the model; the figure's own is its best, as the paper's was."""
    for row in rows:
        row["of_model"] = round(row["mb_per_s"] / of_model["model_mb_per_s"], 3)
    best = max(rows, key=lambda row: row["of_model"])
    return {"rows": rows, "model": of_model, "bound": of_model["model_mb_per_s"], "ratio": best["of_model"]}


# ---- figures


def raw(device: str, options: argparse.Namespace) -> dict:
    sizes = [4096, 131072] if options.quick else [512, 4096, 16384, 65536, 131072, 1048576]
    rows = [{"operation": operation, "depth": depth, "bytes": size, **fio(device, operation, size, depth, options.seconds, True)}
            for operation in ("read", "write") for depth in (1, 32) for size in sizes]  # fmt: skip
    return against_model(rows, model(options.build))


def block(device: str, options: argparse.Namespace) -> dict:
    sizes = [65536] if options.quick else [4096, 16384, 65536, 262144, 1048576]
    rows = [{"operation": operation, "bytes": size, **fio(device, operation, size, 1, 0, False, span="32M")}
            for operation in ("write", "read") for size in sizes]  # fmt: skip
    return against_model(rows, model(options.build))


def counted_fio(device: str, operation: str, size: int, seconds: float) -> dict:
    """With what the driver registered for it."""
    before = counter("regions_registered"), counter("requests")
    measured = fio(device, operation, size, 8, seconds, True)
    return {**measured, "regions_per_request": round((counter("regions_registered") - before[0]) / (counter("requests") - before[1]), 2)}


def mlockv(options: argparse.Namespace) -> dict:
    """Requests of whole 4 KiB pages, each request one region or each page one (the driver's mlockv=off); mapped anew for each."""
    sizes = [131072] if options.quick else [8192, 32768, 131072]
    rows = []
    for registered, words in (("one region", "queue_depth=32"), ("one region a piece", "queue_depth=32 mlockv=off")):
        with wss(f"ram:{DEVICE_MIB}M", options.build, options.module, words) as device:
            fill(device)
            for operation in ("read", "write"):
                for size in sizes:
                    measured = counted_fio(device, operation, size, options.seconds)
                    rows.append({"registered": registered, "operation": operation, "piece": 4096, "bytes": size, **measured})
            if (rows[-1]["regions_per_request"] > 1.5) != ("off" in words):
                raise RuntimeError(f"the driver did not do what {words} says: {rows[-1]['regions_per_request']} regions a request of {rows[-1]['bytes']} bytes")

    def rate(registered: str, operation: str) -> float:
        return next(row["rate"] for row in rows if row["registered"] == registered and row["operation"] == operation and row["bytes"] == 131072)

    bounds = []
    for operation, moved_by in (("read", "rdma write"), ("write", "rdma read")):
        one, pieces, net = rate("one region", operation), rate("one region a piece", operation), network_rate(options.build, "128K", moved_by)
        bounds.append({"operation": operation, "bytes": 131072, "one_region": one, "by_pieces": pieces, "network_alone": net, "wanted": 1.7,
                       "ratio": round(one / pieces, 3), "us_beside_the_network": round(1e6 / one - 1e6 / net, 1),
                       "by_pieces_us_beside_the_network": round(1e6 / pieces - 1e6 / net, 1)})  # fmt: skip
    return {"rows": rows, "bounds": bounds, "bound": 1.7, "ratio": min(row["ratio"] for row in bounds)}


def breakdown(device: str, options: argparse.Namespace) -> dict:
    sh("mountpoint -q /sys/kernel/debug || mount -t debugfs none /sys/kernel/debug")
    rows = []
    for operation in ("read", "write"):
        (Path("/sys/kernel/debug/wss/measure")).write_text("1")
        table = next(Path("/sys/kernel/debug/wss").glob("session*/stages"))
        table.write_text("0")
        of_fio = fio(device, operation, 65536, 1, options.seconds, True)
        stages = [line.split() for line in table.read_text().splitlines()]
        (Path("/sys/kernel/debug/wss/measure")).write_text("0")
        total = next(int(words[3]) for words in stages if words[0] == operation and words[1] == "total")
        for kind, stage, count, ns, *_ in stages:
            if kind == operation and int(count):
                rows.append({"operation": operation, "stage": stage, "rate": int(count), "mean_us": round(int(ns) / int(count) / 1000, 2),
                             "share_percent": round(100 * int(ns) / total, 1)})  # fmt: skip
        rows.append({"operation": operation, "stage": "fio's own time of it", "rate": of_fio["rate"], "mean_us": round(1e6 / of_fio["rate"], 2)})
    return {"rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--module", required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("figures", nargs="+")
    options = parser.parse_args()
    options.seconds = 0.3 if options.quick else 1
    results = {}
    if "mlockv" in options.figures:
        print("lab: mlockv", file=sys.stderr, flush=True)
        try:
            results["mlockv"] = mlockv(options)
        except RuntimeError as error:  # a driver without the switch: the other figures do not need it
            results["mlockv"] = {"error": str(error)}
    others = [name for name in options.figures if name != "mlockv"]
    if others:
        with wss(f"ram:{DEVICE_MIB}M", options.build, options.module, "") as device:
            fill(device)
            for name in others:
                print(f"lab: {name}", file=sys.stderr, flush=True)
                results[name] = {"raw": raw, "block": block, "breakdown": breakdown}[name](device, options)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
