# SPDX-License-Identifier: Apache-2.0
"""`make bench-tls`: instructions of a read over tcp, over tls, and over tls whose server lets the kernel encrypt.

`wssbench echo` runs in one machine that counts instructions (2 ns each) and has one processor, so the figures include both ends and
the kernel. The machine has no fast string instructions (erms, fsrm): each byte that they copy would count as one instruction.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.lab.lab import Lab
from tests.lab.vm import Shape

FABRICS = ("tcp", "tls", "tls-kernel")
LOADS = {"4K": 16, "1M": 4}  # size: requests in flight
INSTRUCTIONS_PER_SECOND = 500e6
# udev loads the AES instructions for the kernel at each boot; the lab has no udev.
PREPARE = "modprobe -a tls aesni_intel"
NO_STRINGS = {"GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=100000000"}


def say(text: str) -> None:
    print(f"bench-tls: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1, help="time of the machine for each measurement")
    parser.add_argument("--out", default="build/bench/tls.json")
    options = parser.parse_args()
    shape = Shape(cpus=1, icount=True, kernel_arguments=("clearcpuid=erms,fsrm",))
    rows = []
    with Lab(1, shape, say) as lab:
        vm = lab.vms[0]
        vm.run(PREPARE)
        for size, depth in LOADS.items():
            for operation in ("read", "write"):
                command = (f"wssbench --no-progress --json --repeats 1 --seconds {options.seconds} echo --fabric {','.join(FABRICS)} "
                           f"--operation {operation} --size {size} --depth {depth} --connections 1 --pinning off")
                measured = json.loads(vm.run(command, timeout=600, env=NO_STRINGS).stdout)["rows"]
                rows.append({"load": f"{size} {operation}"} | {row["fabric"]: round(INSTRUCTIONS_PER_SECOND / row["rate"]) for row in measured})
        vm.power_off()
    print(f"{'':<10}" + "".join(f"{fabric:>12}" for fabric in FABRICS) + f"{'kernel/tls':>12}")
    for row in rows:
        print(f"{row['load']:<10}" + "".join(f"{row[fabric]:>12}" for fabric in FABRICS) + f"{row['tls-kernel'] / row['tls']:>12.2f}")
    out = Path(options.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
