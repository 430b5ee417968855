# SPDX-License-Identifier: Apache-2.0
"""`make bench-peers`: compares WSS with nvme-rdma -> nvmet, ib_srp -> ib_srpt, ib_iser -> isert and tgt, and rnbd in one deterministic machine.

Time in that machine depends only on the executed instructions (2 ns each). The printed I/Os per second therefore show how many
instructions initiator, target, RDMA stack and block layer together need for an I/O, at 500 million per second. Writes
build/bench/peers.json, a list of {workload, backing, peer, ours, theirs, ratio}.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.bench.kernels import KERNELS, kernel_named, module_for
from tests.bench.workloads import WORKLOADS
from tests.lab.errors import LabError
from tests.lab.kernel import Kernel
from tests.lab.lab import Lab
from tests.lab.vm import Shape

ROOT = Path(__file__).resolve().parents[2]
INSTRUCTIONS_PER_SECOND = 500e6
# WSS variants by the target's backend: its own memory, or the kernel's RAM disk, accessed through libaio like any block device.
BACKINGS = {"wss": "ram", "wss-brd": "brd"}
PEERS = ("nvme-rdma", "ib_srp", "iser", "iser-tgt", "rnbd")  # all of them on the kernel's RAM disk


def say(text: str) -> None:
    print(f"bench-peers: {text}", file=sys.stderr, flush=True)


def run_in_lab(kernel: Kernel, arguments: list[str]) -> dict[str, dict[str, float]]:
    shape = Shape(cpus=1, memory_mib=2048, icount=True)
    with Lab(1, shape, say, kernel) as lab:
        vm = lab.vms[0]
        result = vm.run(["python3", str(ROOT / "tests/bench/peers_guest.py"), *arguments], timeout=3600)
        print(*(line for line in result.stderr.splitlines() if line.startswith("bench-peers")), sep="\n", file=sys.stderr)
        vm.power_off()
    return json.loads(result.stdout.splitlines()[-1])


def rows_of(results: dict[str, dict[str, float]]) -> list[dict]:
    """Pairs each backing of WSS with each peer."""
    return [
        {"workload": workload, "backing": BACKINGS[us], "peer": peer, "ours": round(results[us][workload], 1),
         "theirs": round(theirs, 1), "ratio": round(results[us][workload] / theirs, 3)}
        for us in BACKINGS if us in results
        for peer in PEERS if peer in results
        for workload, theirs in results[peer].items()
        if workload in results[us]
    ]  # fmt: skip


def table(rows: list[dict]) -> str:
    lines = [f"{'workload':<18} {'backing':<8} {'peer':<10} {'ours IOPS':>10} {'theirs':>8} {'ratio':>6} {'instructions/IO: ours':>22} {'theirs':>8}"]
    for row in rows:
        ours, theirs = (INSTRUCTIONS_PER_SECOND / row[side] for side in ("ours", "theirs"))
        lines.append(f"{row['workload']:<18} {row['backing']:<8} {row['peer']:<10} {row['ours']:>10.0f} {row['theirs']:>8.0f} {row['ratio']:>6.2f} "
                     f"{ours:>22.0f} {theirs:>8.0f}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--module", type=Path, help="wss.ko for the installed kernel (default: that of the build)")
    named = ", ".join(f"{name}: {what}" for name, what in KERNELS.items())
    parser.add_argument("--kernel", choices=list(KERNELS), default="installed", help=f"kernel of the machine; {named} (without RNBD if fetched)")
    parser.add_argument("--seconds", type=int, default=2, help="guest time of each workload")
    parser.add_argument("--rnbd", default="", help="directory of RNBD's modules (tests/lab/kernels/left_out.sh); without it RNBD is omitted")
    parser.add_argument("--workloads", nargs="+", default=[workload.name for workload in WORKLOADS], help="measure only these")
    parser.add_argument("--only", nargs="+", choices=[*BACKINGS, *PEERS], help="measure only these and print their figures")
    parser.add_argument("--target-nice", type=int, default=0, help="nice value of wss-target and of ksoftirqd, where rxe works for it (nvmet's workers have -20)")
    parser.add_argument("--profile", action="store_true", help="with --only: also profile with perf (package linux-perf)")
    parser.add_argument("--map-options", default="", help="options of the driver, for example 'caps=13 invalidate=lazy'")
    parser.add_argument("--out", default="build/bench/peers.json")
    options = parser.parse_args()
    if options.kernel != "installed" and "rnbd" in (options.only or ()):
        parser.error("RNBD is built for the installed kernel only")
    build = Path(options.build).resolve()
    kernel = kernel_named(options.kernel)
    arguments = ["--build", str(build), "--module", str(module_for(kernel, options.kernel, build, options.module)),
                 "--seconds", str(options.seconds), f"--target-nice={options.target_nice}", f"--map-options={options.map_options}"]  # fmt: skip
    if options.profile:
        arguments.append("--profile")
    rnbd = options.rnbd if options.kernel == "installed" else ""  # rnbd is built only for that kernel
    if rnbd:
        arguments += ["--rnbd", rnbd]
    names = options.only or [name for name in (*PEERS, *BACKINGS) if name != "rnbd" or rnbd]
    results = run_in_lab(kernel, [*arguments, "--workloads", *options.workloads, "--contenders", *names])
    if options.only:
        print(json.dumps(results, indent=1))
        return 0
    rows = rows_of(results)
    out = Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows))
    print(f"written to {out}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LabError as error:
        sys.exit(f"bench-peers: {error}")
