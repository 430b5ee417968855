# SPDX-License-Identifier: Apache-2.0
"""`make chaos-mutations`: applies each patch of tests/chaos/mutations to a copy of the tree, and checks that
a chaos run detects the bug.

A patch begins with sentences that describe the bug, a line "World: NAME" (default: block), and a line
"Finding: REGEX". The expression must match the problem that ends the run. The bug must be detected in at most
--runs runs with different seeds. Exit status 1: a bug was not detected, or another problem ended the run.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATCHES = ROOT / "tests/chaos/mutations"
COPY = ROOT / "build/chaos-mutations"
BUILT = ("lib", "target", "tools", "tests/chaos", "tests/hostile")  # folders that contain the objects that a
                                                                    # run needs


@dataclass(frozen=True)
class Mutation:
    path: Path
    what: str
    world: str
    finding: re.Pattern


def read(path: Path) -> Mutation:
    what, finding = path.read_text().split("\n\n", 1)[0].rsplit("\nFinding: ", 1)
    what, _, world = what.partition("\nWorld: ")
    return Mutation(path, what, world or "block", re.compile(finding))


def copy_tree(mode: str) -> None:
    """Copies the tree with its objects and their modification times, so that only files changed by a patch are rebuilt."""
    shutil.rmtree(COPY, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in listed.stdout.splitlines():
        (COPY / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, COPY / name)
    # The build lists the sources with git.
    subprocess.run(["git", "init", "--quiet"], cwd=COPY, check=True)
    for folder in BUILT:
        if (built := ROOT / "build" / mode / folder).exists():
            shutil.copytree(built, COPY / "build" / mode / folder)
    for path in (ROOT / "build" / mode).glob("*"):
        if path.is_file() and not path.name.endswith("_tests"):
            shutil.copy2(path, COPY / "build" / mode / path.name)


def run(mutation: Mutation, options: argparse.Namespace) -> bool:
    say(f"{mutation.path.stem}: {mutation.what}")
    subprocess.run(["patch", "-p1", "--quiet", "-i", mutation.path], cwd=COPY, check=True)
    try:
        for seed in range(options.seed, options.seed + options.runs):
            problem = chaos(options, mutation.world, seed)
            if problem and mutation.finding.search(problem):
                say(f"{mutation.path.stem}: caught with seed {seed}: {mutation.finding.search(problem)[0]}")
                return True
            if problem:
                say(f"{mutation.path.stem}: seed {seed} ended with another problem: {problem[:2000]}")
                return False
            say(f"{mutation.path.stem}: not caught with seed {seed}")
    finally:
        subprocess.run(["patch", "-p1", "--quiet", "-R", "-i", mutation.path], cwd=COPY, check=True)
    return False


def chaos(options: argparse.Namespace, world: str, seed: int) -> str:
    """Returns the problem of a run, or an empty string."""
    result = COPY / "build/result.json"
    result.unlink(missing_ok=True)
    # Omit the variables with which this program itself was started.
    environment = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "ONLY", "BUILD")}
    with (COPY / "build/log").open("ab") as log:
        subprocess.run(["make", f"-j{options.jobs}", f"MODE={options.mode}", "chaos", f"ONLY={world}", f"SECONDS={options.seconds}", f"SEED={seed}",
                        f"JSON={result}"], cwd=COPY, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)
    if not result.exists():
        raise SystemExit(f"the mutated product was not built, or chaos did not start: {COPY / 'build/log'}")
    return json.loads(result.read_text())["problem"]


def say(text: str) -> None:
    print(f"chaos-mutations: {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make chaos-mutations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", default="asan")
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("mutations", nargs="*", help="run only these mutations")
    options = parser.parse_args()
    mutations = [read(path) for path in sorted(PATCHES.glob("*.patch")) if not options.mutations or path.stem in options.mutations]
    if not mutations:
        parser.error(f"no such mutation in {PATCHES}")
    copy_tree(options.mode)
    caught = [mutation for mutation in mutations if run(mutation, options)]
    say(f"{len(caught)} of {len(mutations)} caught")
    return 0 if len(caught) == len(mutations) else 1


if __name__ == "__main__":
    sys.exit(main())
