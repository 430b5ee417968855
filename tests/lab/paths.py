# SPDX-License-Identifier: Apache-2.0
"""Paths: the repository, the build directory, and the directory of one run of the lab.

The lab writes only below BUILD/lab, so that `lab clean` handles a single directory and parallel builds do not
conflict. The name of a run directory contains the process id of its owner, so that leftovers of a killed
process can be recognised.
"""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
KEPT_RUNS = 20  # number of runs whose logs are kept; those of older runs are removed when a new one starts

_sequence = itertools.count()


def build_directory() -> Path:
    """Returns $BUILD if it is set, otherwise the Makefile's default."""
    return Path(os.environ.get("BUILD") or REPOSITORY / "build" / os.environ.get("MODE", "release")).resolve()


def lab_directory() -> Path:
    path = build_directory() / "lab"
    path.mkdir(parents=True, exist_ok=True)
    return path


def runs_directory() -> Path:
    path = lab_directory() / "runs"
    path.mkdir(exist_ok=True)
    return path


def new_run_directory() -> Path:
    """Creates the directory of this run: consoles, disks, and `share`, which the guests see as /lab."""
    prune_runs(KEPT_RUNS)
    path = runs_directory() / f"{os.getpid()}-{next(_sequence)}"
    shutil.rmtree(path, ignore_errors=True)  # left by an earlier process with the same id
    (path / "share").mkdir(parents=True)
    return path


def prune_runs(keep: int) -> int:
    """Removes the run directories whose owner has exited, except the newest `keep`. Returns how many were removed.

    Also removes the disks in the directories that it keeps, because they are large and only a killed run
    leaves them."""
    dead = [run for run in runs_directory().iterdir() if not _owner_lives(run)]
    for disk in (disk for run in dead for disk in run.glob("*.img")):
        disk.unlink(missing_ok=True)
    dead.sort(key=_age_key, reverse=True)
    for run in dead[keep:]:
        shutil.rmtree(run, ignore_errors=True)
    return len(dead[keep:])


def _age_key(run: Path) -> float:
    try:
        return run.stat().st_mtime
    except FileNotFoundError:  # another process has pruned it in the meantime
        return 0.0


def _owner_lives(run: Path) -> bool:
    owner = run.name.split("-")[0]
    return owner.isdigit() and Path("/proc", owner).exists()
