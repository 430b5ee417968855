# SPDX-License-Identifier: Apache-2.0
"""The workloads of the comparison with peers, and their fio options."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass


@dataclass(frozen=True)
class Setup:
    """The setup of a contender: block devices over one session, with or without polled queues."""

    devices: int = 1
    polled: bool = False


@dataclass(frozen=True)
class Workload:
    name: str
    pattern: str  # fio's rw=
    block: str
    depth: int  # per device
    setup: Setup = Setup()
    batch: int = 1  # number of requests that are submitted and reaped together

    def fio(self, devices: list[str], seconds: int) -> list[str]:
        engine = ["--ioengine=libaio"]
        if self.setup.polled:
            engine = ["--ioengine=io_uring", "--hipri=1"]
        elif self.batch > 1:
            engine = ["--ioengine=io_uring", f"--iodepth_batch_submit={self.batch}", f"--iodepth_batch_complete_min={self.batch}"]
        return [
            "fio", f"--rw={self.pattern}", f"--bs={self.block}", f"--iodepth={self.depth}", *engine, "--direct=1",
            "--norandommap", "--randrepeat=1", "--thread", "--time_based", f"--runtime={seconds}", "--ramp_time=1",
            "--output-format=json", *(word for device in devices for word in (f"--name={self.name}", f"--filename={device}")),
        ]  # fmt: skip


EIGHT = Setup(devices=8)
POLLED = Setup(polled=True)

WORKLOADS = (
    Workload("4k-randread-d1", "randread", "4k", 1),
    Workload("4k-randread-d32", "randread", "4k", 32),
    Workload("4k-randwrite-d32", "randwrite", "4k", 32),
    Workload("4k-batched-read-d32", "randread", "4k", 32, batch=16),
    Workload("4k-batched-write-d32", "randwrite", "4k", 32, batch=16),
    Workload("128k-read-d8", "read", "128k", 8),
    Workload("128k-write-d8", "write", "128k", 8),
    Workload("4k-randread-8x4", "randread", "4k", 4, EIGHT),
    Workload("4k-randwrite-8x4", "randwrite", "4k", 4, EIGHT),
    Workload("4k-polled-read-d1", "randread", "4k", 1, POLLED),
    Workload("4k-polled-read-d32", "randread", "4k", 32, POLLED),
    Workload("4k-polled-write-d32", "randwrite", "4k", 32, POLLED),
)


def fill(device: str) -> None:
    """Writes the whole device once, as the first access to a page of RAM is a different workload."""
    subprocess.run(["dd", "if=/dev/zero", f"of={device}", "bs=1M", "oflag=direct", "status=none"], check=False)


def measure(workload: Workload, devices: list[str], seconds: int, around: tuple[str, ...] = ()) -> float:
    """Returns the I/Os per second of guest time. `around` is a command that runs fio, such as a profiler."""
    run = subprocess.run([*around, *workload.fio(devices, seconds)], check=True, capture_output=True, text=True)
    jobs = json.loads(run.stdout[run.stdout.index("{"):])["jobs"]
    failed = [job["error"] for job in jobs if job["error"]]
    if failed or len(jobs) != len(devices):
        raise RuntimeError(f"fio on {devices}: {len(jobs)} jobs, errors {failed}")
    return sum(job["read"]["iops"] + job["write"]["iops"] for job in jobs)
