#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions per operation of the version store with valgrind. They are the same in every run, regardless of the
load of the host.

usage: python3 -m tests.bench.kv_store PROGRAM
"""

import re
import subprocess
import sys

OPERATIONS = ("get", "get-exact", "put", "put-shown", "prepare-commit", "prepare-commit-shown", "one-sided")
FEW, MANY = 10_000, 30_000


def instructions(program: str, operation: str, count: int) -> int:
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, operation, str(count)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if not found:
        raise RuntimeError(f"valgrind did not count: {done.stderr[-400:]}")
    return int(found.group(1))


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    print("| operation | instructions |\n| --- | --- |")
    for operation in OPERATIONS:
        # The difference between two runs excludes the start.
        each = (instructions(sys.argv[1], operation, MANY) - instructions(sys.argv[1], operation, FEW)) / (MANY - FEW)
        print(f"| {operation} | {each:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
