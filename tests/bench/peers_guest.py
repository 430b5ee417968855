# SPDX-License-Identifier: Apache-2.0
"""The part of the comparison that runs inside the machine. It measures one contender after the other.

Prints one JSON object: {contender: {workload: I/Os per second}}. Polled workloads are omitted for a contender without polled
queues.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.bench.contenders import nvme_over_rdma, ramdisks, rnbd, srp, wss  # noqa: E402
from tests.bench.iser import iser, iser_tgt  # noqa: E402
from tests.bench.workloads import WORKLOADS, Setup, Workload, fill, measure  # noqa: E402

PEERS = {"nvme-rdma": nvme_over_rdma, "ib_srp": srp, "iser": iser, "iser-tgt": iser_tgt}
CANNOT_POLL = {"ib_srp", "iser", "iser-tgt"}


@contextmanager
def contender(name: str, setup: Setup, options: argparse.Namespace) -> Iterator[list[str]]:
    """Yields the devices of a contender. All but `wss` serve the kernel's RAM disks; `wss` serves the target's own memory."""
    mib = options.mib // setup.devices
    if name == "wss":
        with wss([f"ram:{mib}M"] * setup.devices, setup, options) as devices:
            yield devices
        return
    with ramdisks(mib, setup.devices) as backings:
        if name == "wss-brd":
            with wss([f"aio:{backing}" for backing in backings], setup, options) as devices:
                yield devices
        elif name == "rnbd":
            with rnbd(backings, setup, options) as devices:
                yield devices
        else:
            with PEERS[name](backings, setup) as devices:
                yield devices


PROFILE_LINES = 45


def profiled(name: str, workload: Workload, devices: list[str], seconds: int) -> float:
    """Profiles processor time by function. Sampling costs a few per cent. A clock triggers the samples, as the machine has no
    performance counters.

    The profile begins after the start of fio, whose loading waits for the host."""
    record = ("perf", "record", "-q", "-a", "-e", "cpu-clock", "-F", "2000", "-D", "1500", "-o", "/tmp/perf.data", "--")
    iops = measure(workload, devices, seconds, record)
    report = ["perf", "report", "-i", "/tmp/perf.data", "--stdio", "-q", "--no-children", "--percent-limit", "0.3"]
    shown = []
    for sort in ("comm", "comm,sym"):
        lines = subprocess.run([*report, "--sort", sort], check=True, capture_output=True, text=True).stdout.splitlines()
        shown += [line.rstrip() for line in lines if line.strip() and not line.startswith("#")][:PROFILE_LINES]
    for line in (f"profile of {name} {workload.name}, {iops:.1f} I/Os per second with sampling:", *shown):
        print(f"bench-peers: {line}", file=sys.stderr, flush=True)
    return iops


def run_all(name: str, workloads: list[Workload], options: argparse.Namespace) -> dict[str, float]:
    results = {}
    for setup in dict.fromkeys(workload.setup for workload in workloads):
        if setup.polled and name in CANNOT_POLL:
            continue
        with contender(name, setup, options) as devices:
            for device in devices:
                fill(device)
            for workload in workloads:
                if workload.setup == setup:
                    results[workload.name] = (profiled(name, workload, devices, options.seconds) if options.profile else
                                              measure(workload, devices, options.seconds))
                    print(f"bench-peers: {name} {workload.name} {results[workload.name]:.1f}", file=sys.stderr, flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--module", required=True)
    parser.add_argument("--rnbd", default="", help="directory of the RTRS and RNBD modules")
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--target-nice", type=int, default=0)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--map-options", default="")
    parser.add_argument("--workloads", nargs="+", default=[workload.name for workload in WORKLOADS])
    parser.add_argument("--contenders", nargs="+", required=True)
    options = parser.parse_args()
    chosen = [workload for workload in WORKLOADS if workload.name in options.workloads]
    print(json.dumps({name: run_all(name, chosen, options) for name in options.contenders}))


if __name__ == "__main__":
    main()
