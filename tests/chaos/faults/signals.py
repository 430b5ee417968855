# SPDX-License-Identifier: Apache-2.0
"""Sends SIGKILL, SIGTERM, or SIGSTOP with SIGCONT, to processes of every role. A process that has ended is
restarted."""

from __future__ import annotations

import random
import time
from typing import Callable

from ..actions import FAULT, Action
from ..processes import Process


def _end(process: Process, how: str, pause: float) -> bool:
    with process.lock:
        effect = process.kill() if how == "kill" else process.terminate()
        time.sleep(pause)
        if not process.is_running():
            process.start()
        return effect


def _stop(process: Process, pause: float) -> bool:
    with process.lock:
        effect = process.pause()
        time.sleep(pause)
        process.resume()
        return effect


def signal_actions(processes: list[Process], may_end: Callable[[Process], bool] = lambda process: True,
                   after: Callable[[Process], None] = lambda process: None) -> list[Action]:
    """Returns the actions. `may_end` is called before a process is ended, and `after` when the process has
    been restarted."""
    by_name = {process.name: process for process in processes}

    def make(how: str, role: str) -> Action:
        names = [process.name for process in processes if process.role == role]

        def draw(chance: random.Random) -> dict:
            longest = 2.5 if how == "stop" else 0.8
            return {"name": chance.choice(names), "pause": round(chance.uniform(0.05, longest), 2)}

        def act(name: str, pause: float) -> bool:
            process = by_name[name]
            if how == "stop":
                return _stop(process, pause)
            if not may_end(process):
                return False
            effect = _end(process, how, pause)
            after(process)
            return effect

        return Action(f"{how}-{role}", FAULT, draw, act, ends=how != "stop")

    roles = list(dict.fromkeys(process.role for process in processes))
    return [make(how, role) for how in ("kill", "stop", "terminate") for role in roles]
