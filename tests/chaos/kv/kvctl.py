# SPDX-License-Identifier: Apache-2.0
"""Runs kvctl, for single commands and as a process under test."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

from .. import limits
from ..problems import Lost, Problem
from ..processes import COMPLAINTS, Process

DONE, FAILED, NOT_REACHABLE, NOT_FOUND, CONDITION, VIOLATION = 0, 1, 3, 4, 5, 6
ORDINARY = (DONE, FAILED, NOT_REACHABLE, NOT_FOUND, CONDITION)
TIMEOUT = int(5 * limits.SLOW)  # limit of a request, in seconds


class Kvctl:
    """Runs kvctl commands that end by themselves, with a correct clock."""

    def __init__(self, build: Path, target: str):
        self.program, self.target = build / "kvctl", target

    def words(self, *words: object, timeout: int = TIMEOUT) -> list[str]:
        return [str(self.program), "--target", self.target, "--timeout", str(timeout), *map(str, words)]

    def run(self, *words: object, timeout: int = TIMEOUT, stdin: str = "", seconds: float = 0) -> subprocess.CompletedProcess:
        """Runs a command and returns it when it has ended. It may fail, but must not crash."""
        limit = seconds or limits.COMMAND + timeout
        try:
            done = subprocess.run(self.words(*words, timeout=timeout), input=stdin, capture_output=True, text=True, timeout=limit)
        except subprocess.TimeoutExpired:
            raise Problem(f"kvctl {' '.join(map(str, words))[:200]} did not end within {limit:.0f} s") from None
        if done.returncode not in ORDINARY or COMPLAINTS.search(done.stderr):
            raise Problem(f"kvctl {' '.join(map(str, words))[:200]}: exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
        return done

    def ask(self, *words: object, **options) -> list:
        """Runs a command and returns its lines of JSON. Raises Lost if the command failed."""
        done = self.run("--json", *words, **options)
        if done.returncode != DONE:
            raise Lost(done.stderr.strip()[-300:])
        return [json.loads(line) for line in done.stdout.splitlines()]

    def infos(self) -> list[dict]:
        return self.ask("info")[0]


class KvctlProcess(Process):
    """A long-running command under test. It ends by itself if it reaches no partition, and is then
    restarted."""

    expected_exits = (*ORDINARY, -signal.SIGKILL, -signal.SIGTERM)
    is_wanted = False  # False if the run has ended it on purpose

    def start(self) -> None:
        self.is_wanted = True
        self.launch()

    def terminate(self) -> bool:
        super().terminate()
        return self.process.returncode in (DONE, -signal.SIGTERM)

    def check(self) -> None:
        super().check()
        if self.lock.acquire(blocking=False):
            try:
                if self.is_wanted and not self.is_running():
                    self.check_exit()
                    self.start()
            finally:
                self.lock.release()
