# SPDX-License-Identifier: Apache-2.0
"""The five workloads of the comparison with peers, and how fio is asked for them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Workload:
    name: str
    pattern: str  # fio's rw=
    block: str
    depth: int

    def fio(self, device: str, seconds: int) -> list[str]:
        return [
            "fio", f"--name={self.name}", f"--filename={device}", f"--rw={self.pattern}", f"--bs={self.block}",
            f"--iodepth={self.depth}", "--ioengine=libaio", "--direct=1", "--norandommap", "--randrepeat=1", "--thread",
            "--time_based", f"--runtime={seconds}", "--ramp_time=1", "--output-format=json",
        ]  # fmt: skip


WORKLOADS = (
    Workload("4k-randread-d1", "randread", "4k", 1),
    Workload("4k-randread-d32", "randread", "4k", 32),
    Workload("4k-randwrite-d32", "randwrite", "4k", 32),
    Workload("128k-read-d8", "read", "128k", 8),
    Workload("128k-write-d8", "write", "128k", 8),
)


def fill(device: str) -> None:
    """Write everything once: the first touch of a page of RAM is a different workload."""
    subprocess.run(["dd", "if=/dev/zero", f"of={device}", "bs=1M", "oflag=direct", "status=none"], check=False)


def measure(workload: Workload, device: str, seconds: int) -> float:
    """I/Os per second of guest time."""
    run = subprocess.run(workload.fio(device, seconds), check=True, capture_output=True, text=True)
    job = json.loads(run.stdout[run.stdout.index("{"):])["jobs"][0]
    if job["error"]:
        raise RuntimeError(f"fio on {device}: error {job['error']}")
    return job["read"]["iops"] + job["write"]["iops"]
