# SPDX-License-Identifier: Apache-2.0
"""Connections of hostile peers: the attack of tests/hostile, and bytes that form no valid message."""

from __future__ import annotations

import json
import random
import subprocess
import threading
import time
from pathlib import Path

from tests.hostile.noise import noise

from .. import limits
from ..actions import FAULT, Action
from ..problems import Problem


def hostile_action(attack: Path, addresses: list[str], protocol: str) -> Action:
    def draw(chance: random.Random) -> dict:
        return {"number": chance.randrange(len(addresses)), "seconds": chance.choice([1, 2]), "seed": chance.randrange(1 << 30)}

    def act(number: int, seconds: int, seed: int) -> bool:
        address = addresses[number]
        noise = threading.Thread(target=_noise, args=(address, seconds, seed), daemon=True)
        noise.start()
        try:
            done = subprocess.run([attack, protocol, address, str(seconds), str(seed)], capture_output=True, text=True,
                                  timeout=limits.COMMAND + seconds)
        except subprocess.TimeoutExpired:
            raise Problem(f"hostile connections to {address} did not end within {limits.COMMAND:.0f} s") from None
        noise.join(limits.COMMAND)
        # The target may be killed in the meantime, so a failed connection is not a finding.
        if done.returncode not in (0, 1):
            raise Problem(f"wss-attack {address}: exit status {done.returncode}\n{done.stderr}")
        counts = json.loads(done.stdout) if done.stdout else {}
        return counts.get("messages", 0) + counts.get("refused", 0) > 0

    return Action("hostile-connections", FAULT, draw, act)


def _noise(address: str, seconds: float, seed: int) -> None:
    if not address.startswith("tcp://"):
        return
    try:
        noise(address, time.monotonic() + seconds, random.Random(seed))
    except OSError:
        pass
