# SPDX-License-Identifier: Apache-2.0
"""`make demo`: shows the whole system in use, in a virtual machine with soft RDMA or on this machine
(LAB=host)."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.demo.steps import STEPS, Demo
from tests.lab.errors import LabError
from tests.lab.lab import Lab
from tests.lab.host_guest import HostGuest
from tests.lab.vm import Shape


def run_steps(demo: Demo, total: int, done: int) -> bool:
    """Runs all steps and prints each; stops at the first one that fails."""
    for number, (title, step) in enumerate(STEPS, done + 1):
        started = time.monotonic()
        print(f"[{number:2}/{total}] {title} …", end="", flush=True)
        try:
            told = step(demo)
        except (LabError, RuntimeError, KeyError, ValueError, AssertionError) as error:
            print(f" FAILED after {time.monotonic() - started:.1f} s\n{error}", flush=True)
            if demo.target is not None:
                print(f"output of wss-target:\n{demo.target.stderr[-2000:]}")
            return False
        print(f" {time.monotonic() - started:.1f} s: {told}", flush=True)
    return True


def print_report(demo: Demo, where: str) -> None:
    print(f"\nReport ({where})")
    for name, value in demo.report.items():
        print(f"  {name:<26} {value}")
    if where != "this machine":
        print("  Seconds of an emulated machine do not predict hardware; `make bench-peers` compares by instructions.")
    print("Every step held.")


def in_vm(build: Path, module: Path) -> int:
    total = len(STEPS) + 2
    started = time.monotonic()
    print(f"[ 1/{total}] boot a virtual machine with soft RDMA and an NVMe disk …", end="", flush=True)
    with Lab(1, Shape(cpus=2, memory_mib=2048, nvme_sizes=(1 << 30,))) as lab:
        vm = lab.vms[0]
        print(f" {time.monotonic() - started:.1f} s: Linux {vm.kernel.release}, rxe0 at {vm.address}", flush=True)
        demo = Demo(vm, build, module, vm.disk_device(0))
        held = run_steps(demo, total, 1)
        print(f"[{total}/{total}] look through the kernel log …", end="", flush=True)
        try:
            lab.check_klog()
            print(" no warning, no oops", flush=True)
        except LabError as error:
            held = False
            print(f" FAILED\n{error}", flush=True)
        if held:
            vm.power_off()
            print_report(demo, "emulated machine, soft RDMA")
    return 0 if held else 1


def on_host(build: Path, module: Path, share: Path) -> int:
    share.mkdir(parents=True, exist_ok=True)
    demo = Demo(HostGuest(share), build, module, None)
    held = run_steps(demo, len(STEPS), 0)
    if held:
        print_report(demo, "this machine")
    return 0 if held else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--host", action="store_true", help="on this machine, which has RDMA and loads modules")
    options = parser.parse_args()
    build = options.build.resolve()
    os.environ["WSS_BUILD"] = str(build)
    module = build / "kernel/wss.ko"
    try:
        return on_host(build, module, build / "demo") if options.host else in_vm(build, module)
    except LabError as error:
        print(f"\ndemo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
