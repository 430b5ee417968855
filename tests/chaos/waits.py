# SPDX-License-Identifier: Apache-2.0
"""Waits for a condition, with a time limit."""

from __future__ import annotations

import time
from typing import Callable

from .problems import Lost, Problem, Refused


def wait_for(condition: Callable, seconds: float, what: str):
    """Returns the first true value of the condition, or raises a Problem at the time limit. It also waits
    while a program is not running."""
    deadline = time.monotonic() + seconds
    reason = ""
    while time.monotonic() < deadline:
        try:
            if value := condition():
                return value
        except (Lost, Refused) as failure:
            reason = str(failure)
        time.sleep(0.05)
    raise Problem(f"{what}: timed out after {seconds:.0f} s {reason}")
