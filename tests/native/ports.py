# SPDX-License-Identifier: Apache-2.0
"""Ports for servers whose address must be known before they start.

They are below the ephemeral range (32768 and up). So a free port stays free until its server starts.
Concurrent test processes use different ranges.
"""

import itertools
import os
import socket

_FIRST, _RANGE, _RANGES = 20000, 100, 120
_base = _FIRST + os.getpid() % _RANGES * _RANGE
_next = itertools.count()


def free_port() -> int:
    for _ in range(_RANGE):
        port = _base + next(_next) % _RANGE
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError(f"no port from {_base} to {_base + _RANGE - 1} is free")
