# SPDX-License-Identifier: Apache-2.0
"""Runs fio with an NBD address and returns its report."""

from __future__ import annotations

import json

from .programs import run


def fio(uri: str, *jobs: dict, timeout: int = 120, check: bool = True, **common) -> dict:
    """Runs the jobs concurrently. If `check` is true, any error, such as a failed verification, fails the
    test."""
    # Otherwise fio would write its state files to the working directory.
    command = ["fio", "--output-format=json", "--verify_state_save=0", "--ioengine=nbd", f"--uri={uri}"]
    command += [f"--{key}={value}" for key, value in common.items()]
    for number, job in enumerate(jobs):
        command += [f"--name=job{number}"] + [f"--{key}={value}" for key, value in job.items()]
    done = run(*command, timeout=timeout, check=False)
    # fio prints notes before the report.
    notes, brace, rest = done.stdout.partition("{")
    report = json.loads(brace + rest) if brace else {"jobs": []}
    if check and (done.returncode != 0 or any(errors(report))):
        raise AssertionError(f"{' '.join(command)}\nexit {done.returncode}, errors {errors(report)}\n{notes}\n{done.stderr}")
    report["exit"] = done.returncode
    report["stderr"] = done.stderr
    return report


def total(report: dict, direction: str, what: str = "io_bytes") -> int:
    return sum(job[direction][what] for job in report["jobs"])


def errors(report: dict) -> list[int]:
    return [job["error"] for job in report["jobs"]]
