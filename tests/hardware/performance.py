# SPDX-License-Identifier: Apache-2.0
"""Performance: WSS beside perftest and NVMe over RDMA, in the same run. Only ratios within a run can be compared with other runs."""

from __future__ import annotations

import json
import re

from tests.hardware.holders import driver, nvme_over_rdma, ram_disk
from tests.hardware.kit import Failed, Kit, port_with
from tests.hardware.machine import Machine
from tests.hardware.part import Part
from tests.hardware.programs import MIB, Target, fio_jobs, fio_words
from tests.lab.errors import tail

NETWORK, LIBWSS, ON_RAM_DISK, DRIVER, NVME = "perftest", "libwss, RAM volume", "libwss, RAM disk", "wss.ko, RAM disk", "nvme-rdma, RAM disk"
LIMIT = 600
# Requests: bytes, and numbers of requests in flight.
POINTS = ((4096, (1, 8, 32)), (65536, (8,)), (MIB, (8,)))
PERFTEST_PACKAGES = {"ib_read_lat": "perftest", "ib_read_bw": "perftest", "ib_write_bw": "perftest", "stdbuf": "coreutils"}


def numbers_of(shown: str) -> list[float]:
    """Returns the numbers of the result that a program of perftest has printed. It separates them with blanks and tabs."""
    row = re.search(r"^ *#bytes.*\n *(\d[\d. \t]*)$", shown, re.M)
    if not row:
        raise Failed(f"perftest printed no result:\n{tail(shown)}")
    return [float(word) for word in row[1].split()]


def perftest(kit: Kit, program: str, ends: list[tuple[Machine, str]], size: int, count: int) -> list[float]:
    """Runs a program of perftest between two ends, of which the second begins the operations. Returns the numbers of its result."""
    (server, address), (client, other) = ends
    number = str(kit.port())

    def words(machine: Machine, local: str) -> list[str]:
        device, port, _ = port_with(machine, local)
        return ["stdbuf", "-oL", program, "-d", device["device"], "-i", port["port"], "-R", "-F", "-s", str(size), "-n", str(count), "-p", number]

    listening = server.start(words(server, address))
    try:
        listening.wait_for("[Ww]aiting for client", 60)
        shown = client.run([*words(client, other), address.strip("[]")], LIMIT).stdout
    finally:
        if server.running:
            listening.kill()
    return numbers_of(shown)


def network(kit: Kit) -> str:
    """Measures the network alone with perftest: latency of RDMA READs of 4 KiB (ib_read_lat), and throughput of the target's RDMA WRITEs and
    READs of 4 KiB, 64 KiB and 1 MiB (ib_write_bw, ib_read_bw), which carry the data of reads and writes of WSS."""
    kit.need_rdma()
    target, client = (kit.target, kit.target_address), (kit.client, kit.client_address)
    for machine, _ in (target, client):
        kit.need_tools(machine, **PERFTEST_PACKAGES)
    latency = perftest(kit, "ib_read_lat", [target, client], 4096, 200 if kit.quick else 10000)
    kit.measured(NETWORK, "read", 4096, 1, latency_us=latency[4], p99_us=latency[7])
    for operation, program in (("read", "ib_write_bw"), ("write", "ib_read_bw")):
        for size, _ in POINTS:
            moved = perftest(kit, program, [client, target], size, 100 if kit.quick else max(1000, 64 * MIB // size))
            kit.measured(NETWORK, operation, size, None, mb_per_s=moved[3] * MIB / 1e6)
    return f"{len(POINTS) * 2 + 1} measurements"


def wssbench(kit: Kit, system: str, target: str, mib: int) -> None:
    """Measures random reads and writes of a volume through libwss."""
    seconds = ["--seconds", "0.5", "--warm-up", "0.2", "--repeats", "1"] if kit.quick else ["--seconds", "3", "--warm-up", "1", "--repeats", "5"]
    for size, depths in POINTS:
        shown = kit.client.run(
            ["wssbench", "remote", "--json", "--no-progress", "--no-bounds", *seconds, "--target", target, "--volume", "v", "--fabric", kit.scheme, "--method", "ram",
             "--file-size", f"{mib}M", "--connections", "1", "--depth", ",".join(map(str, depths)), "--size", str(size), "--operation", "read,write"], LIMIT)  # fmt: skip
        for row in json.loads(shown.stdout)["rows"]:
            if "error" in row:
                raise Failed(f"wssbench remote, {size} bytes, depth {row['depth']}: {row['error']}")
            kit.measured(system, row["operation"], size, row["depth"], iops=row["rate"], mb_per_s=row["rate"] * size / 1e6, latency_us=row.get("latency_us", 0),
                         p99_us=row.get("p99_us", 0))  # fmt: skip


def fio(kit: Kit, system: str, device: str) -> None:
    """Measures the same requests on a block device of the client."""
    points = [(operation, size, depth) for size, depths in POINTS for depth in depths for operation in ("read", "write")]
    jobs = [{"rw": f"rand{operation}", "bs": size, "iodepth": depth} for operation, size, depth in points]
    words = fio_words(device, *jobs, norandommap=1, time_based=1, runtime=1 if kit.quick else 10, ramp_time=1)
    for (operation, size, depth), job in zip(points, fio_jobs(kit.client.start(words), LIMIT), strict=True):
        side = job[operation]
        kit.measured(system, operation, size, depth, iops=side["iops"], mb_per_s=side["iops"] * size / 1e6, latency_us=side["clat_ns"]["mean"] / 1000,
                     p99_us=side["clat_ns"].get("percentile", {}).get("99.000000", 0) / 1000)  # fmt: skip


def mib_of(kit: Kit) -> int:
    return 16 if kit.quick else 1024


def libwss(kit: Kit) -> str:
    """Measures random reads and writes of a RAM volume through libwss (wssbench remote): 4 KiB at depths 1, 8 and 32, 64 KiB, 1 MiB."""
    kit.need_network()
    with Target(kit, {"v": f"ram:{mib_of(kit)}M"}, "--reactors", "1") as target:
        wssbench(kit, LIBWSS, target.uri, mib_of(kit))
    return "4 KiB, 64 KiB and 1 MiB"


def peers(kit: Kit) -> str:
    """Measures the same requests on one RAM disk of the target (module brd): through WSS and libwss, with DRIVER=1 through the driver, and through
    NVMe over RDMA (modules nvmet-rdma, nvme-rdma). Needs root, because it loads these modules."""
    kit.need_rdma()
    kit.need_tools(kit.client, fio="fio")
    done = []
    with ram_disk(kit, mib_of(kit)) as disk:
        with Target(kit, {"v": f"aio:{disk}"}, "--reactors", "1") as target:
            wssbench(kit, ON_RAM_DISK, target.uri, mib_of(kit))
            done.append("libwss")
            if kit.options.driver:
                with driver(kit, target.uri, "v") as device:
                    fio(kit, DRIVER, device)
                done.append("the driver")
        with nvme_over_rdma(kit, disk) as device:
            fio(kit, NVME, device)
        done.append("NVMe over RDMA")
    return ", ".join(done)


# ---- ratios

LATENCY = "latency_us"


def compared(measures: list[dict], system: str, base: str) -> list[dict]:
    """Returns the ratios of a system to another one at the same points: of latencies at depth 1, of throughputs otherwise. A base without a
    depth is compared with the best depth."""
    rows = []
    for other in measures:
        same = [one for one in measures if one["system"] == system and (one["operation"], one["bytes"]) == (other["operation"], other["bytes"])
                and other["depth"] in (None, one["depth"])]  # fmt: skip
        if other["system"] != base or not same:
            continue
        kind = LATENCY if other["depth"] == 1 else "mb_per_s"
        best = (min if kind == LATENCY else max)(same, key=lambda one: one.get(kind, 0))
        if other.get(kind) and best.get(kind):
            rows.append({"system": system, "base": base, "operation": other["operation"], "bytes": other["bytes"], "depth": best["depth"], "of": kind,
                         "ratio": round(best[kind] / other[kind], 3)})  # fmt: skip
    return rows


def ratios(measures: list[dict]) -> list[dict]:
    pairs = [(LIBWSS, NETWORK), (ON_RAM_DISK, NVME), (DRIVER, NVME)]
    return [row for system, base in pairs for row in compared(measures, system, base)]


PARTS = (
    Part("perf-network", "the network alone (perftest)", network),
    Part("perf-libwss", "libwss", libwss),
    Part("perf-peers", "WSS beside NVMe over RDMA on one RAM disk", peers),
)
