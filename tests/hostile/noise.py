# SPDX-License-Identifier: Apache-2.0
"""Connections that do not even speak the fabric's language."""

from __future__ import annotations

import random
import re
import socket
import time


def noise(address: str, until: float, chance: random.Random) -> int:
    """Connects to tcp://HOST:PORT and sends senseless bytes, again and again; returns how often."""
    host, port = re.fullmatch(r"tcp://(.+):(\d+)", address).groups()
    count = 0
    while time.monotonic() < until:
        with socket.create_connection((host, int(port)), timeout=10) as stranger:
            stranger.settimeout(0.3)
            try:
                for _ in range(chance.randrange(4)):
                    stranger.sendall(chance.randbytes(chance.choice((1, 16, 64, 4096, 100000))))
                if chance.random() < 0.3:
                    stranger.recv(100)
            except (ConnectionError, socket.timeout):
                pass
        count += 1
        time.sleep(0.05)  # a pace, not a wait: what runs beside it needs the processor, too
    return count
