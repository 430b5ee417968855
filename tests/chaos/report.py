# SPDX-License-Identifier: Apache-2.0
"""Counts effects, prints progress, and decides whether a run had enough effects for its length. With
--resume, the counts are kept between invocations."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path

from . import limits

# Required within 180 seconds on a machine without other load.
EFFECTS = 5  # effects of each action
OPERATIONS = 100_000


class Report:
    def __init__(self, seed: int, state: Path | None):
        self.seed, self.state = seed, state
        self.log: Path | None = None  # log of everything that is printed
        self.lock = threading.Lock()
        self.tried: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self.seconds = 0.0
        self.episodes = self.operations = 0
        self.problem = ""
        self.short: list[str] = []  # actions that were too rare
        self.details: dict = {}
        self.growth: dict[str, int] = {}  # by role: largest growth of a process since its first verification,
                                          # in MiB
        if state is not None and state.exists():
            kept = json.loads(state.read_text())
            self.seed, self.seconds, self.episodes, self.operations = (kept[key] for key in ("seed", "seconds", "episodes", "operations"))
            self.tried, self.effects = Counter(kept["tried"]), Counter(kept["effects"])
            self.problem, self.short = kept["problem"], kept["short"]

    def say(self, text: str) -> None:
        line = f"chaos: {time.strftime('%T')} {text}"
        print(line, flush=True)
        if self.log is not None:
            with self.log.open("a") as log:
                log.write(f"{line}\n")

    def count(self, action: str, effect: bool) -> None:
        with self.lock:
            self.tried[action] += 1
            self.effects[action] += effect

    def as_dict(self) -> dict:
        return {"seed": self.seed, "seconds": round(self.seconds, 1), "episodes": self.episodes, "operations": self.operations,
                "tried": dict(sorted(self.tried.items())), "effects": dict(sorted(self.effects.items())), "details": self.details,
                "growth": self.growth, "short": self.short, "problem": self.problem}

    def keep(self) -> None:
        if self.state is not None:
            self.state.parent.mkdir(parents=True, exist_ok=True)
            self.state.write_text(json.dumps(self.as_dict(), indent=1))

    def shortfalls(self, actions: list[str]) -> list[str]:
        """Returns what was too rare for the length of the run: the effects of an action, or verified
        operations. The total of all effects is checked as well, for runs that are too short for one effect of
        each action."""
        share = self.seconds / 180 / limits.SLOW
        short = [f"{name}: took effect {self.effects[name]} times ({self.tried[name]} tries), {int(EFFECTS * share)} required"
                 for name in sorted(actions) if self.effects[name] < int(EFFECTS * share)]
        total = sum(self.effects[name] for name in actions)
        if total < (wanted := int(EFFECTS * share * len(actions))):
            short.append(f"steps took effect {total} times, {wanted} required")
        if self.operations < (wanted := int(OPERATIONS * share)):
            short.append(f"{self.operations} operations verified, {wanted} required")
        return short

    def without_effect(self) -> list[str]:
        """Returns the planned steps that did not take effect. Each planned step must take effect."""
        return [f"{name}: took effect {self.effects[name]} times of {tried}" for name, tried in sorted(self.tried.items()) if self.effects[name] < tried]
