# SPDX-License-Identifier: Apache-2.0
"""Counts what took effect, prints progress, and decides whether a run was one. Kept between invocations by --resume."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path

EFFECTS_PER_180 = 5
OPERATIONS_PER_180 = 100_000


class Report:
    def __init__(self, seed: int, state: Path | None):
        self.seed, self.state = seed, state
        self.lock = threading.Lock()
        self.tried: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self.seconds = 0.0
        self.episodes = self.operations = 0
        self.problem = ""
        self.details: dict = {}
        if state is not None and state.exists():
            kept = json.loads(state.read_text())
            self.seed, self.seconds, self.episodes, self.operations = (kept[key] for key in ("seed", "seconds", "episodes", "operations"))
            self.tried, self.effects = Counter(kept["tried"]), Counter(kept["effects"])

    def say(self, text: str) -> None:
        print(f"chaos: {time.strftime('%T')} {text}", flush=True)

    def count(self, action: str, effect: bool) -> None:
        with self.lock:
            self.tried[action] += 1
            self.effects[action] += effect

    def as_dict(self) -> dict:
        return {"seed": self.seed, "seconds": round(self.seconds, 1), "episodes": self.episodes, "operations": self.operations,
                "tried": dict(sorted(self.tried.items())), "effects": dict(sorted(self.effects.items())), "details": self.details,
                "problem": self.problem}

    def keep(self) -> None:
        if self.state is not None:
            self.state.parent.mkdir(parents=True, exist_ok=True)
            self.state.write_text(json.dumps(self.as_dict(), indent=1))

    def shortfalls(self, actions: list[str]) -> list[str]:
        """What happened too rarely for the length of the run."""
        share = self.seconds / 180
        wanted = max(1, int(EFFECTS_PER_180 * share))
        short = [f"{name}: took effect {self.effects[name]} times ({self.tried[name]} tries), {wanted} wanted"
                 for name in sorted(actions) if self.effects[name] < wanted]
        if self.operations < OPERATIONS_PER_180 * share:
            short.append(f"{self.operations} operations verified, {int(OPERATIONS_PER_180 * share)} wanted")
        return short

    def without_effect(self) -> list[str]:
        """Of a run whose steps were planned, each has to take effect."""
        return [f"{name}: took effect {self.effects[name]} times of {tried}" for name, tried in sorted(self.tried.items()) if self.effects[name] < tried]
