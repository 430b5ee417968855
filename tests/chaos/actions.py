# SPDX-License-Identifier: Apache-2.0
"""A run consists of actions with arguments. A world offers the actions. The driver chooses, records and
replays them."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Callable, Protocol

OPERATION, FAULT = "operation", "fault"
LANES = (OPERATION, FAULT)


@dataclass(frozen=True)
class Action:
    """`draw` chooses arguments, or returns None if the action is not possible now. `act` returns whether the
    action took effect. An action that `ends` processes is not chosen in episodes that observe the memory of
    processes."""

    name: str
    lane: str
    draw: Callable[[random.Random], dict | None]
    act: Callable[..., bool]
    ends: bool = False


class World(Protocol):
    """The system under test. The driver uses only this interface."""

    actions: list[Action]
    processes: list  # of Process

    def start(self) -> None: ...
    def heal_and_verify(self) -> None:
        """Repairs everything, and then raises a Problem if a guarantee does not hold."""
    def operations_verified(self) -> int: ...
    def details(self) -> dict:
        """Returns details for the report."""
    def stop(self) -> None: ...


@dataclass(frozen=True)
class Step:
    episode: int
    at: float  # seconds since the episode began
    lane: str
    action: str
    arguments: dict


class Script:
    """The steps of a run, one per line. Each step is written before it is executed."""

    def __init__(self, path: Path, head: dict):
        self.path = path
        path.write_text(json.dumps(head) + "\n")

    def add(self, step: Step) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(step)) + "\n")


def read_script(path: Path) -> tuple[dict, list[Step]]:
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return lines[0], [Step(**line) for line in lines[1:]]
