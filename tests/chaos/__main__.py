# SPDX-License-Identifier: Apache-2.0
"""`make chaos`: runs the real programs under verifying loads, with random operator actions and random faults.

All random choices derive from a seed. Exit status 0: no failure and enough effects; 1: a failure; 3: too few effects for the
length of the run. Logs, cores, ledgers and the script stay in build/chaos/.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import traceback
from pathlib import Path

from .actions import Script, World, read_script
from .block.ceph import CephSoakWorld, CephWorld
from .block.world import BlockWorld
from .driver import Driver
from .kv.world import KvWorld
from .problems import Problem
from .processes import environment_of_sanitizers
from .report import Report
from .small_disks import unmount_below

WORLDS = {"block": BlockWorld, "ceph": CephWorld, "ceph-soak": CephSoakWorld, "kv": KvWorld}
ROOT = Path(__file__).resolve().parents[2]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="folder of the programs under test")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, help="random by default, or 1 with --seeds")
    parser.add_argument("--seeds", type=int, help="makes a run for each of this many consecutive seeds")
    parser.add_argument("--only", choices=sorted(WORLDS), default="block")
    parser.add_argument("--replay", type=Path, help="takes the steps from a script instead of drawing them")
    parser.add_argument("--times", type=int, default=5, help="repeats a replay at most this many times, until the first failure")
    parser.add_argument("--resume", type=Path, help="state file: adds this run to earlier runs. With --seeds, a folder of such files: each "
                        "run is continued until it has the requested length")
    parser.add_argument("--without", default="", help="actions to omit, separated by commas, for example to find problems other than a known one")
    parser.add_argument("--json", type=Path, help="also writes the result to this file")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = 1 if options.seeds else random.SystemRandom().randrange(1 << 31)
    return options


def make_folder(options: argparse.Namespace, seed: int) -> Path:
    folder = ROOT / "build/chaos" / f"{'replay' if options.replay else options.only}-{seed}"
    unmount_below(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def run_seeds(options: argparse.Namespace) -> int:
    """Runs each seed. Skips the seeds that earlier invocations have completed."""
    operations = 0
    for seed in range(options.seed, options.seed + options.seeds):
        state = options.resume / f"{options.only}-{seed}.json" if options.resume else None
        done = Report(seed, state)
        left = options.seconds - done.seconds
        if left > 0 or done.problem or done.short:
            status = run(argparse.Namespace(**{**vars(options), "seed": seed, "seconds": left, "resume": state}))
            if status:
                return status
            done = Report(seed, state)
        operations += done.operations
    print(f"chaos: {options.seeds} of {options.seeds} seeds passed, {options.seconds:.0f} s each: {operations} operations verified", flush=True)
    return 0


def run(options: argparse.Namespace) -> int:
    head, steps = read_script(options.replay) if options.replay else ({}, None)
    report = Report(head.get("seed", options.seed), None if options.replay else options.resume)
    if report.problem:
        report.say(f"{options.resume} is the state of a run that has FAILED, seed {report.seed}: {report.problem}")
        report.say(f"to begin again, remove {options.resume}")
        return 1
    if options.replay:
        options.only, options.seconds = head["only"], head["seconds"]
    folder = make_folder(options, report.seed)
    report.log = folder / "run.log"
    script = Script(folder / "script.jsonl", {"only": options.only, "seed": report.seed, "seconds": options.seconds})
    report.say(f"seed {report.seed}, {options.seconds:.0f} s of {options.only}; files in {folder}")
    world = WORLDS[options.only](options.build.resolve(), folder, report.seed)
    world.actions = [action for action in world.actions if action.name not in options.without.split(",")]
    planned = isinstance(world, CephSoakWorld) and not options.replay
    if planned:
        steps = world.schedule(report.episodes, options.seconds, report.seed)
    try:
        world.start()
        Driver(world, report, script, steps).run(options.seconds)
        report.short = [] if options.replay else report.without_effect() if planned else report.shortfalls([action.name for action in world.actions])
    except Problem as problem:
        report.problem = explained(world, str(problem))
    except Exception:
        report.problem = explained(world, f"the harness failed\n{traceback.format_exc()}")
    finally:
        world.stop()
    return conclude(options, report, folder, script)


def explained(world: World, problem: str) -> str:
    """Returns the problem, or, if a program's death caused it, that death."""
    for process in world.processes:
        try:
            process.check()
        except Problem as death:
            return str(death) if problem == str(death) else f"{death}\n\ndetected as: {problem}"
        except Exception:
            continue  # a failure of the harness, which may itself be the problem
    return problem


def conclude(options: argparse.Namespace, report: Report, folder: Path, script: Script) -> int:
    report.keep()
    result = {**report.as_dict(), "only": options.only, "script": str(script.path)}
    (folder / "result.json").write_text(json.dumps(result, indent=1))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))
    if report.problem:
        report.say(f"FAILED, seed {report.seed}: {report.problem}")
        report.say(f"to replay it: make chaos MODE={options.build.name} REPLAY={script.path}; all files are in {folder}")
        return 1
    for line in report.short:
        report.say(f"TOO FEW: {line}")
    report.say(f"{'too few effects' if report.short else 'passed'}: {report.operations} operations verified in {report.seconds:.0f} s")
    return 3 if report.short else 0


if __name__ == "__main__":
    environment_of_sanitizers()
    for one in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, lambda number, _: sys.exit(128 + number))  # also stops the programs under test
    os.chdir(ROOT)
    chosen = parse()
    if chosen.seeds and not chosen.replay:
        sys.exit(run_seeds(chosen))
    # A script does not determine the interleaving of threads and processes, so a replay may need more than one attempt.
    for _ in range(chosen.times if chosen.replay else 1):
        if status := run(chosen):
            break
    sys.exit(status)
