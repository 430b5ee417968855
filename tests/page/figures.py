# SPDX-License-Identifier: Apache-2.0
"""What the commands of wssbench print, with numbers that this file invents: figures of every form, for tests of the report."""

from __future__ import annotations

import math

MARKUP = "<img src=x onerror=document.title='markup'></script>"
PERCENTS = [1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.5, 99.9]
TURNS = (1.0, 0.96, 1.05, 0.99, 1.08)


def row(labels: dict, rate: float, badge: str = "memory copy", turns=TURNS, **more) -> dict:
    """Returns a row with a distribution of latencies that fits its rate."""
    us = [round(1e6 / rate * 8 * (0.5 - math.log(1 - percent / 100) / 2), 2) for percent in PERCENTS]
    latency = {"percent": PERCENTS, "us": us, "turns": [[round(value * turn, 2) for value in us] for turn in turns]}
    rates = [rate * turn for turn in turns]
    return {**labels, "rate": sorted(rates)[len(rates) // 2], "latency_us": us[6], "repeats": len(rates), "turns": {"rate": rates, "latency_us": [us[6]] * len(rates)},
            "latency": latency, "badge": badge, **more}  # fmt: skip


def figure(name: str, rows: list[dict], measured: str = "seconds", **more) -> dict:
    return {"figure": name, "paper": "as this test has it", "title": f"Rows of {name}", "unit": "operations/s", "command": f"wssbench {name} --quick", "measured": measured,
            "method": "numbers of a test", "machine": {"processors": 2, "kernel": "6.1"}, "source": "test", "rows": rows, "bound": None, "ratio": None, **more}  # fmt: skip


def local_rows() -> list[dict]:
    return [row({"method": method, "operation": "read", "threads": threads, "bytes": size}, 9000 * min(threads, 24) ** 0.8 * speed / (1 + size / 65536), "no network")
            for method, speed in (("static", 1), ("aio", 1.2), ("uring", 1.25)) for threads in (1, 4, 16, 64, 128) for size in (512, 4096, 65536)]  # fmt: skip


def remote_rows() -> list[dict]:
    rows = []
    speeds = {("local", "static"): 1, ("local", "aio"): 1.1, ("local", "uring"): 1.15, ("echo", ""): 6, ("remote", "static"): 0.6, ("remote", "dynamic"): 0.2,
              ("remote", "aio"): 0.9, ("remote", "uring"): 0.92}  # fmt: skip
    for fabric, share in (("shm", 1), ("tcp", 0.7)):
        for (what, method), speed in speeds.items():
            for connections in (1, 4, 8):
                for size in (512, 4096, 65536):
                    labels = {"what": what, "method": method, "connections": connections, "depth": 64, "fabric": fabric, "operation": "read", "pattern": "random", "bytes": size}
                    if (what, method) == ("remote", "static"):
                        labels["threads"] = 16
                    rows.append(row(labels, 70000 * speed * share * connections**0.3 / (1 + size / 65536)))
    return rows


def scsi_rows() -> list[dict]:
    rows = []
    for fabric, network in (("shm", 2.0), ("tcp", 40.0)):
        for operation in ("read", "write"):
            for number, buffers in enumerate(("registered", "copied", "pin-down cache")):
                for size in (512, 4096, 65536):
                    total = network + 3 + number + size / 4096
                    labels = {"fabric": fabric, "operation": operation, "buffers": buffers, "depth": 1, "bytes": size}
                    rows.append(row(labels, 1e6 / total, network_us=network, wss_us=total - network))
    return rows


def breakdown_rows() -> list[dict]:
    stages = {"block": 1.1, "map": 2.7, "post": 1.3, "remote": 920.7, "finish": 5.8, "total": 931.6, "fio's own time of it": 970.7}
    return [{"kernel": "6.1.0", "network": "rxe", "operation": operation, "stage": stage, "rate": 2048, "mean_us": round(us * share, 2), "badge": "soft RDMA, virtual time"}
            for operation, share in (("read", 0.97), ("write", 1)) for stage, us in stages.items()]  # fmt: skip


def ramp_rows(name: str, systems: dict[str, float], x: str, places) -> dict:
    return figure(name, [row({"system": system, x: place}, 9000 * speed / (1 + place / 10)) for system, speed in systems.items() for place in places])


def figures() -> list[dict]:
    systems = {"S2PL": 0.3, "S2PL parallel": 0.8, "RAMP(GET,PUT)": 1, "RAMP(GET+,PUT+)": 1.9, "RAMP(GET*,PUT+) paper": 2.6, "RAMP(GET*,PUT+) ours": 5}
    echo = [row({"fabric": fabric, "operation": "read", "pinned": pinned, "connections": n, "bytes": size}, 3e5 * n**0.7 * share / (1 + size / 8192))
            for fabric, share in (("shm", 1), ("tcp", 0.4)) for pinned in ("on", "off") for n in (1, 2, 4, 8) for size in (512, 4096)]  # fmt: skip
    net = [row({"fabric": fabric, "operation": operation, "depth": 1, "bytes": size}, 1e6 / (base + size / 2000), bytes=size)
           for fabric, base in (("shm", 0.4), ("tcp", 45)) for operation in ("ping-pong", "rdma read", "rdma write") for size in (8, 64, 512, 4096, 65536)]  # fmt: skip
    return [figure("local", local_rows()), figure("echo", echo), figure("remote", remote_rows()), figure("net", net), figure("scsi", scsi_rows()),
            ramp_rows("ramp-transports", {"tcp messages": 1, "shm messages": 1.4, "shm rings": 1.6}, "operations", (8,)),
            ramp_rows("ramp-size", systems, "operations", (1, 2, 4, 8, 16)), ramp_rows("ramp-mix", systems, "read_percent", (0, 50, 100)),
            figure("breakdown", breakdown_rows(), "counted instructions"),
            {**figure("raw", []), "error": f"no machine {MARKUP}"}]  # fmt: skip
