# SPDX-License-Identifier: Apache-2.0
"""`wssbench all`: every figure, one after the other, into DIR/results.json and DIR/report.html. Both files are rewritten
after each figure, so that an interruption keeps the finished ones."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import lab, ramp, report, scaling

# Figures of tools/wssbench itself: arguments, and those of --quick. Quick figures are small samples.
NATIVE = {
    "local": (["--threads", "1,4,16,64,128", "--operation", "read,write"], ["--threads", "1,16,64", "--method", "static,aio", "--file-size", "64M"]),
    "echo": (["--operation", "read,write"], ["--connections", "1,4", "--size", "512"]),
    "remote": (["--pattern", "random,sequential"], ["--connections", "1,8", "--method", "static,dynamic,aio", "--fabric", "shm", "--file-size", "64M"]),
    "replay": (["--method", "static,aio"], ["--threads", "1,16,64", "--accesses", "1000", "--file-size", "64M"]),
    "net": ([], ["--size", "8,512,64K"]),
    "mr": (["--fabric", "shm,tcp"], ["--size", "4K,1M"]),
    "burst": ([], ["--size", "4K", "--fabric", "shm"]),
    "scsi": ([], ["--size", "512,64K", "--fabric", "shm"]),
}
RAMP = {"ramp-transports": "transports", "ramp-size": "size", "ramp-mix": "mix", "ramp-ycsb": "ycsb"}
NAMES = [*NATIVE, *RAMP, *lab.FIGURES, "scaling"]
# Seconds of each figure on two processors, quick and in full: the first estimate of the remaining time. The lab's figures
# share one boot of each kernel.
SECONDS = {"local": (8, 246), "echo": (8, 272), "remote": (24, 1075), "replay": (24, 56), "net": (12, 215), "mr": (3, 34), "burst": (5, 184), "scsi": (12, 201),
           "ramp-transports": (8, 11), "ramp-size": (26, 84), "ramp-mix": (26, 80), "ramp-ycsb": (26, 89), "mlockv": (10, 200), "raw": (40, 350), "block": (10, 200),
           "breakdown": (8, 90), "scaling": (40, 250)}  # fmt: skip


@dataclass
class Run:
    options: argparse.Namespace
    results: list[dict]
    begun: float
    failed: bool = False
    stopped: bool = False
    lab: lab.Measured | None = None  # results of the one boot
    lab_error: str = ""  # the error that ended it early

    def say(self, text: str) -> None:
        if not self.options.no_progress:
            print(f"wssbench: all: {text}", file=sys.stderr, flush=True)

    def save(self, done: int, count: int) -> None:
        out = self.options.out
        (out / "results.json.new").write_text(json.dumps(self.results, indent=1) + "\n")
        os.replace(out / "results.json.new", out / "results.json")
        report.write(self.results, out, unfinished=done < count)


def settings(options: argparse.Namespace) -> list[str]:
    words = ["--seconds", str(options.seconds), "--warm-up", str(options.warm_up), "--repeats", str(options.repeats), "--json"]
    words += ["--no-progress"] if options.no_progress else []
    words += ["--address", options.address] if options.address else []
    return [*words, "--directory", options.directory] if options.directory else words


def native(run: Run, name: str) -> dict:
    """Runs wssbench. It receives interruptions, and then returns its finished points."""
    full, quick = NATIVE[name]
    words = [name, *(quick if run.options.quick else full)]
    process = subprocess.Popen([str(run.options.build / "wssbench"), *words, *settings(run.options)], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        output = process.communicate()[0]
    except KeyboardInterrupt:
        run.stopped = True
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=90)[0]
    if process.returncode != 0:
        run.failed = True
    result = json.loads(output)
    result["command"] = "wssbench " + shlex.join([*words, *(word for word in settings(run.options) if word not in ("--json", "--no-progress"))])
    return result


def of_lab(run: Run, name: str, chosen: list[str]) -> dict:
    if run.lab is None:
        run.lab = lab.Measured(lab.parts_wanted(run.options), lab.speaker(run.options))
        try:
            lab.run_guest([one for one in lab.FIGURES if one in chosen], run.options, run.lab)
        except KeyboardInterrupt:
            run.stopped = True
        except lab.NoLab as error:
            run.lab_error, run.failed = str(error), True
    found = run.lab.figure(name)
    if found is None:
        raise lab.NoLab(run.lab_error or "interrupted before it was measured")
    return {**lab.as_figure(name, found, run.options), "command": shlex.join(["wssbench", name, *lab.words(run.options), *(["--quick"] if run.options.quick else [])])}


def rest_of_lab(run: Run, names: list[str]) -> None:
    """After an interruption: adds the figures that the machine had measured and that the report lacks."""
    for name in names:
        if run.lab and run.lab.figure(name) and name not in {result["figure"] for result in run.results}:
            run.results.append(of_lab(run, name, names))


def one(run: Run, name: str, chosen: list[str]) -> dict:
    if name in NATIVE:
        return native(run, name)
    if name in lab.FIGURES:
        return of_lab(run, name, chosen)
    result = scaling.figure(run.options, []) if name == "scaling" else ramp.figure(RAMP[name], run.options)
    words = ["scaling"] if name == "scaling" else ["ramp", RAMP[name]]
    words += ["--seconds", str(run.options.seconds), "--repeats", str(run.options.repeats), *(["--quick"] if run.options.quick else [])]
    result["command"] = "wssbench " + shlex.join(words)
    run.stopped |= result.get("interrupted", False)
    run.failed |= any("error" in row for row in result["rows"])
    return result


def time_left(run: Run, names: list[str], done: int) -> float:
    """Estimates from the table above, corrected by this machine's speed so far."""
    column = 0 if run.options.quick else 1
    expected = [SECONDS[name][column] * (lab.parts_wanted(run.options) if name in lab.FIGURES else 1) for name in names]
    passed = time.monotonic() - run.begun
    factor = passed / sum(expected[:done]) if done else 1
    return sum(expected[done:]) * factor


def make(options: argparse.Namespace) -> int:
    names = [name for name in (options.only or NAMES) if not (options.no_lab and name in lab.FIGURES)]
    unknown = set(names) - set(NAMES)
    if unknown:
        print(f"wssbench: all: there is no figure {', '.join(sorted(unknown))}: {', '.join(NAMES)}", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(options, [], time.monotonic())
    for done, name in enumerate(names):
        run.say(f"{name}, {done + 1} of {len(names)}, about {time_left(run, names, done) / 60:.1f} min left")
        try:
            run.results.append(one(run, name, names))
        except KeyboardInterrupt:
            run.stopped = True
        except (lab.NoLab, RuntimeError, AssertionError, OSError, ValueError, subprocess.SubprocessError) as error:
            run.failed = True
            print(f"wssbench: all: {name}: {error}", file=sys.stderr)
            run.results.append({"figure": name, "title": name, "paper": "", "rows": [], "bound": None, "ratio": None, "error": str(error)})
        if run.stopped:
            rest_of_lab(run, [name for name in names if name in lab.FIGURES])
        run.save(done + (not run.stopped), len(names))
        if run.stopped:
            run.say("interrupted; what is done is kept")
            break
    print(f"{options.out}/report.html and results.json: {len(run.results)} of {len(names)} figures in {(time.monotonic() - run.begun) / 60:.1f} min")
    return 1 if run.failed or run.stopped else 0
