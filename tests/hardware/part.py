# SPDX-License-Identifier: Apache-2.0
"""A part of a run. Its function verifies something and returns what it has verified in one line. It raises NotRun or Failed, or
lets an error of a command pass. The first lines of the function's documentation appear in the plan."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Callable

from tests.hardware.kit import Kit


@dataclass(frozen=True)
class Part:
    name: str
    title: str
    run: Callable[[Kit], str]
    option: str = ""  # the part runs only with this option (driver, faults)
    always: bool = False  # other parts depend on it, so --only does not leave it out

    @property
    def does(self) -> str:
        return " ".join((inspect.getdoc(self.run) or "").split())
