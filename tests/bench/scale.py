#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the longest turn of the target's reactor while engines and volumes are added and removed, and the memory per line of
the cache's index, by the number of lines. Turns are measured in processor time of the reactor's thread, with the shipped code
over the simulated fabric (scale_world.h).

usage: python3 -m tests.bench.scale PROGRAM [--lines N ...] [--out FILE]
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys

LINES = (10_000, 100_000, 1_000_000, 16_000_000)
TURN_MS, BYTES_PER_LINE, SALVAGE_MS = 1.0, 100.0, 1000.0
MEMORY = 6 << 30
SECONDS = 3600


def limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))


def measure(program: str, scenario: str, lines: int) -> list[dict]:
    command = [program, scenario, str(lines)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, preexec_fn=limit_memory)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        rows.append({"what": f"{scenario}: failed", "lines": lines, "error": reason[0]})
    return rows


def measure_all(program: str, lines: int) -> list[dict]:
    rows = [row for scenario in ("life", "change", "recovery", "salvage") for row in measure(program, scenario, lines)]
    memory = next((row["bytes_per_line"] for row in rows if "bytes_per_line" in row), None)
    for row in rows:
        row["bytes_per_line"] = memory
    return [row for row in rows if row["what"] != "memory"]


def is_met(row: dict) -> bool:
    good = "error" not in row and row["turn_ms_max"] <= TURN_MS and row.get("cpu_ms", 0) <= SALVAGE_MS
    return good and row["bytes_per_line"] is not None and row["bytes_per_line"] <= BYTES_PER_LINE


def print_row(row: dict) -> None:
    turn = row.get("error") or f"{row['turn_ms_max']:.3f}"
    total = f", {row['cpu_ms']:.0f} ms in all" if "cpu_ms" in row else ""
    bytes_per_line = "-" if row["bytes_per_line"] is None else f"{row['bytes_per_line']:.0f}"
    print(f"| {row['what']}{total} | {row['lines']} | {turn} | {bytes_per_line} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--lines", type=int, nargs="+", default=LINES)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/bench/scale.json"))
    options = parser.parse_args()
    print("| what | lines | longest turn, ms | bytes per line |\n| --- | --- | --- | --- |")
    rows = []
    for lines in options.lines:
        some = measure_all(options.program, lines)
        for row in some:
            print_row(row)
        rows += some
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(rows, indent=1) + "\n")
    missed = sum(not is_met(row) for row in rows)
    print(f"{missed} of {len(rows)} rows exceed {TURN_MS:.0f} ms per turn or {BYTES_PER_LINE:.0f} bytes per line")
    return 0


if __name__ == "__main__":
    sys.exit(main())
