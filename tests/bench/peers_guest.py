# SPDX-License-Identifier: Apache-2.0
"""The part of the comparison that runs inside the machine: brings each contender up, measures it, takes it down.

Prints one JSON object: {contender: {workload: I/Os per second}}.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Callable, Iterator

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.bench.workloads import WORKLOADS, fill, measure  # noqa: E402

ADDRESS = os.environ["LAB_ADDRESS"]
NQN = "wss-peer"
CONFIGFS = Path("/sys/kernel/config")


def sh(command: str) -> None:
    subprocess.run(command, shell=True, check=True, stdout=sys.stderr)


def wait_for(condition: Callable[[], object], what: str, seconds: float = 30) -> object:
    limit = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > limit:
            raise RuntimeError(f"{what} did not appear within {seconds:.0f} s")
        time.sleep(0.05)
    return found


def write(path: Path, text: str) -> None:
    path.write_text(text)


@contextmanager
def ramdisk(mib: int) -> Iterator[str]:
    """The RAM that the kernel targets export."""
    sh(f"modprobe brd rd_nr=1 rd_size={mib * 1024} max_part=0")
    fill("/dev/ram0")
    try:
        yield "/dev/ram0"
    finally:
        sh("rmmod brd")


@contextmanager
def nvme_over_rdma(backing: str) -> Iterator[str]:
    sh("modprobe nvmet-rdma; modprobe nvme-rdma; mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config")
    root = CONFIGFS / "nvmet"
    subsystem, port = root / "subsystems" / NQN, root / "ports/1"
    subsystem.mkdir()
    write(subsystem / "attr_allow_any_host", "1")
    namespace = subsystem / "namespaces/1"
    namespace.mkdir()
    write(namespace / "device_path", backing)
    write(namespace / "enable", "1")
    port.mkdir()
    for key, value in {"trtype": "rdma", "adrfam": "ipv4", "traddr": ADDRESS, "trsvcid": "4420"}.items():
        write(port / f"addr_{key}", value)
    (port / "subsystems" / NQN).symlink_to(subsystem)
    sh(f"nvme connect -t rdma -a {ADDRESS} -s 4420 -n {NQN} -i 1")
    try:
        yield wait_for(lambda: glob.glob("/dev/nvme*n1"), "the NVMe device")[0]
    finally:
        sh(f"nvme disconnect -n {NQN}")
        (port / "subsystems" / NQN).unlink()
        port.rmdir()
        write(namespace / "enable", "0")
        namespace.rmdir()
        subsystem.rmdir()


@contextmanager
def wss(volume: str, build: str, module: str, map_options: str) -> Iterator[str]:
    """Our target in user space and our driver; `volume` is a backing specification."""
    target = subprocess.Popen(
        [f"{build}/wss-target", "--listen", f"rdma://{ADDRESS}:5555", "--volume", f"bench={volume}", "--reactors", "1",
         "--control", "/run/wss-bench.sock", "--log-level", "warning"], stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        line = target.stdout.readline()
        if "ready" not in line:
            raise RuntimeError(f"wss-target did not get ready: {line}")
        sh("modprobe rdma_cm; modprobe ib_uverbs || true")
        sh(f"insmod {module} target={ADDRESS}:5555 volume=bench queues=1 {map_options}")
        try:
            yield wait_for(lambda: os.path.exists("/dev/wss0") and "/dev/wss0", "/dev/wss0")
        finally:
            sh("rmmod wss")
    finally:
        target.terminate()
        target.wait(timeout=30)


def run_all(device: str, seconds: int) -> dict[str, float]:
    fill(device)
    return {workload.name: measure(workload, device, seconds) for workload in WORKLOADS}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--module", required=True)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--only", choices=["nvme", "wss"])
    parser.add_argument("--map-options", default="")
    options = parser.parse_args()
    results = {}
    if options.only != "wss":
        with ramdisk(options.mib) as backing, nvme_over_rdma(backing) as device:
            results["nvme-rdma"] = run_all(device, options.seconds)
    if options.only != "nvme":
        with wss(f"ram:{options.mib}M", options.build, options.module, options.map_options) as device:
            results["wss"] = run_all(device, options.seconds)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
