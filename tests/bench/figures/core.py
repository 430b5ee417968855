# SPDX-License-Identifier: Apache-2.0
"""Figures in the form of wssbench's C++ side (tools/wssbench/figure.h): points measured in turns, medians, one JSON object
each."""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import shlex
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[3]
RESAMPLES = 2000
CONCLUSIVE = 1.25  # a wider interval shows only an order of magnitude
TURNS_MIN = 5  # with fewer values the interval is their range


class Interrupted(Exception):
    """The user interrupts the measurement and gets the finished points."""


@dataclass
class Point:
    labels: dict
    measure: Callable[[], dict]  # {"rate": …, further columns}
    seconds: float = 2  # approximate duration, to estimate the remaining time


@dataclass
class Figure:
    name: str
    paper: str
    title: str
    unit: str
    x: str
    series: list[str]
    points: list[Point]
    paper_values: list[dict] = field(default_factory=list)
    judge: Callable[[dict], None] | None = None
    method: str = ""
    measured: str = "seconds"  # or "counted instructions"


def machine() -> dict:
    def first(path: str, key: str) -> str:
        try:
            found = re.search(rf"^{key}\s*[:=]\s*(.*)$", Path(path).read_text(), re.M)
        except OSError:
            return ""
        return found.group(1).strip('" ') if found else ""

    return {"processors": os.cpu_count(), "model": first("/proc/cpuinfo", "model name"), "memory": first("/proc/meminfo", "MemTotal"),
            "kernel": platform.release(), "system": first("/etc/os-release", "PRETTY_NAME"), "load_at_start": os.getloadavg()[0]}  # fmt: skip


class Progress:
    """Shows progress and the estimated remaining time; prints a line every ten seconds if standard error is not a terminal."""

    def __init__(self, name: str, expected: float, quiet: bool):
        self.name, self.expected, self.quiet = name, expected, quiet
        self.begun, self.said = time.monotonic(), 0.0

    def show(self, done: int, count: int, what: object) -> None:
        if self.quiet:
            return
        passed = time.monotonic() - self.begun
        share = done / count
        whole = (1 - share) * self.expected + share * (passed / share) if done else self.expected
        text = f"wssbench: {self.name}: {done + 1} of {count}, about {max(whole - passed, 0):.0f} s left: {what}"
        if sys.stderr.isatty():
            print(f"\r\033[K{text[:150]}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.said > 10:
            print(text, file=sys.stderr, flush=True)
            self.said = time.monotonic()

    def end(self) -> None:
        if not self.quiet and sys.stderr.isatty():
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def summary(samples: list[dict]) -> dict:
    rates = [sample["rate"] for sample in samples]
    median = statistics.median(rates)
    row = {"rate": median, **{key: value for key, value in samples[-1].items() if key != "rate"}}
    for key in row.keys() - {"rate"}:
        if all(isinstance(sample.get(key), (int, float)) for sample in samples):
            row[key] = statistics.median(sample[key] for sample in samples)
    spread = 100 * max(median - min(rates), max(rates) - median) / median if median and len(rates) > 1 else None
    turns = {key: [sample[key] for sample in samples] for key in row if all(isinstance(sample.get(key), (int, float)) for sample in samples)}
    return {**{key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, "min": round(min(rates), 4),
            "max": round(max(rates), 4), "spread_percent": None if spread is None else round(spread, 2), "repeats": len(rates), "turns": turns}  # fmt: skip


def ratios_in_turns(row: dict, bound: dict, key: str = "rate") -> list[float]:
    """Returns the ratio of each turn that both rows have."""
    return [value / other for value, other in zip(row["turns"][key], bound["turns"][key]) if value > 0 and other > 0]


def ratio_in_turns(row: dict, bound: dict, key: str = "rate") -> float:
    """Returns the median of the turns' ratios (lib/base/summary.h gives the reason), or None for rows without a common turn."""
    ratios = ratios_in_turns(row, bound, key)
    return statistics.median(ratios) if ratios else 0


def interval_of_median(values: list[float]) -> tuple[float, float]:
    """Returns the 95 % interval of the median as lib/base/summary.h defines it: percentile bootstrap, resamples from a fixed
    seed."""
    if not values:
        return 0, 0
    chance = random.Random(1)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[RESAMPLES // 40], medians[RESAMPLES - 1 - RESAMPLES // 40]


def interval_columns(ratios: list[float]) -> dict:
    low, high = interval_of_median(ratios)
    return {"ratio_low": round(low, 3), "ratio_high": round(high, 3)}


def doubts(figure: dict) -> list[str]:
    """Returns why the ratio of a figure or of one of its bounds shows less than it seems to. `bound_is_limit`: no measured
    value can exceed the bound."""
    found = []
    for row in figure.get("bounds") or [figure]:
        ratio, low, high = (row.get(key) for key in ("ratio", "ratio_low", "ratio_high"))
        if not isinstance(ratio, (int, float)):
            continue
        where = ", ".join(str(row[key]) for key in ("of", "system", *figure.get("series", [])) if key in row and row is not figure) or figure["figure"]
        if figure.get("bound_is_limit") and ratio > 1.02:
            found.append(f"{where}: ratio {cell(ratio)} exceeds its bound: the two were not measured under the same conditions")
        if low is None:
            continue
        if not low or high / low > CONCLUSIVE:
            found.append(f"{where}: not conclusive: 95 % interval {cell(float(low))} to {cell(float(high))}")
        if figure.get("rows") and max(line.get("repeats", 0) for line in figure["rows"]) < TURNS_MIN:
            found.append(f"{where}: not conclusive: fewer than {TURNS_MIN} turns")
    return found


def run(figure: Figure, options: argparse.Namespace) -> dict:
    """Measures all points in turns, `options.repeats` times. After an interruption the finished points remain. A failed
    point has an `error`."""
    taken: list[list[dict]] = [[] for _ in figure.points]
    errors: dict[int, str] = {}
    progress = Progress(figure.name, sum(point.seconds for point in figure.points) * options.repeats, options.no_progress)
    result = {"figure": figure.name, "paper": figure.paper, "title": figure.title, "unit": figure.unit, "x": figure.x, "series": figure.series,
              "command": os.environ.get("WSSBENCH_COMMAND", shlex.join(sys.argv)), "measured": figure.measured,
              "method": figure.method or f"seconds of this machine; {options.seconds} s after {options.warm_up} s of warm-up, median of {options.repeats} in turns; not pinned",
              "machine": machine()}  # fmt: skip
    try:
        for turn in range(options.repeats):
            for index, point in enumerate(figure.points):
                if index in errors:
                    continue
                progress.show(turn * len(figure.points) + index, len(figure.points) * options.repeats, json.dumps(point.labels))
                try:
                    taken[index].append(point.measure())
                except (RuntimeError, AssertionError, OSError, ValueError, subprocess.SubprocessError) as error:
                    errors[index] = str(error)
    except (KeyboardInterrupt, Interrupted):
        result["interrupted"] = True
    progress.end()
    result["rows"] = rows = []
    for index, point in enumerate(figure.points):
        if taken[index] or index in errors:
            rows.append({**point.labels, **(summary(taken[index]) if taken[index] else {}), **({"error": errors[index]} if index in errors else {})})
            if index in errors:
                print(f"wssbench: {figure.name} {point.labels}: {errors[index]}", file=sys.stderr)
    result.update(bound=None, ratio=None)
    if figure.judge and rows:
        try:
            figure.judge(result)
        except (KeyError, StopIteration, ZeroDivisionError):
            pass  # not all compared points were measured
    result["paper_values"] = figure.paper_values
    return result


def row_of(result: dict, **labels: object) -> dict:
    """Returns the row with these labels that has a rate."""
    return next(row for row in result["rows"] if "rate" in row and all(row.get(key) == value for key, value in labels.items()))


def cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"
    return str(value)


def columns_of(rows: list[dict]) -> list[str]:
    columns: dict[str, None] = {}
    for row in rows:
        columns.update({key: None for key, value in row.items() if not isinstance(value, (dict, list))})
    return list(columns)


def table(rows: list[dict]) -> str:
    columns = columns_of(rows)
    lines = [columns, *([cell(row.get(column)) for column in columns] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join("  ".join(text.rjust(width) for text, width in zip(line, widths)) for line in lines)


def show(result: dict, as_json: bool) -> int:
    """Prints a figure and returns the exit status."""
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        print(f"{result['title']} ({result['paper']})\n{table(result['rows'])}\nMeasured: {result['method']}")
        if result.get("bounds"):
            print(f"Against its bound:\n{table(result['bounds'])}")
        elif result["ratio"] is not None:
            print(f"Bound: {cell(result['bound'])}, ratio: {cell(result['ratio'])}")
        for doubt in doubts(result):
            print(f"Doubt: {doubt}")
        for value in result["paper_values"]:
            print(f"The paper: {value['text']}")
        if result.get("interrupted"):
            print("Interrupted: these are the points that were done.")
    return 1 if result.get("interrupted") or any("error" in row for row in result["rows"]) else 0
