# SPDX-License-Identifier: Apache-2.0
"""The part of the comparison that runs inside the machine: measures one contender after the other.

Prints one JSON object: {contender: {workload: I/Os per second}}.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.bench.contenders import nvme_over_rdma, ramdisk, srp, wss  # noqa: E402
from tests.bench.workloads import WORKLOADS, fill, measure  # noqa: E402


@contextmanager
def contender(name: str, options: argparse.Namespace) -> Iterator[str]:
    """The device of a contender. All but `wss` serve the kernel's RAM disk; `wss` serves the target's own memory."""
    if name == "wss":
        with wss(f"ram:{options.mib}M", options.build, options.module, options.map_options) as device:
            yield device
        return
    with ramdisk(options.mib) as backing:
        if name == "wss-brd":
            with wss(f"aio:{backing}", options.build, options.module, options.map_options) as device:
                yield device
        else:
            with {"nvme-rdma": nvme_over_rdma, "ib_srp": srp}[name](backing) as device:
                yield device


def run_all(device: str, seconds: int) -> dict[str, float]:
    fill(device)
    return {workload.name: measure(workload, device, seconds) for workload in WORKLOADS}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--module", required=True)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--map-options", default="")
    parser.add_argument("contenders", nargs="+")
    options = parser.parse_args()
    results = {}
    for name in options.contenders:
        print(f"bench-peers: {name}", file=sys.stderr, flush=True)
        with contender(name, options) as device:
            results[name] = run_all(device, options.seconds)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
