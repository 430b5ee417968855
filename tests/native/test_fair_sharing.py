# SPDX-License-Identifier: Apache-2.0
"""Tests how volumes and clients share a target's buffers. A slow volume with a deep queue must not delay
another volume."""

import json
import select
import struct
import time
from contextlib import ExitStack

from .programs import BUILD, Target, run
from .rawnbd import READ, RawNbd

MIB = 1024 * 1024
# nbdkit serves up to 16 requests of a connection at a time. A client has bounce memory for less than 32 MiB.
SLOW_CLIENTS, CONNECTIONS, PER_CONNECTION = 2, 4, 8


def begin_read(client, offset, length):
    """Sends a read without waiting for the response."""
    client.handle += 1
    client.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, READ, client.handle, offset, length))


def commands_that_waited(control):
    return json.loads(run(BUILD / "wssctl", "--control", control, "stats", "--json").stdout)["target"]["block"]["waited_for_buffer"]


def test_short_reads_of_a_fast_volume_complete_before_any_long_read_of_a_slow_one(listen, nbd, tmp_path):
    control = tmp_path / "control.sock"
    volumes = {"slow": "delay:us=8000000:ram:64M", "fast": "delay:us=1:ram:16M"}
    with Target(listen, volumes, tmp_path, "--control", str(control)) as target, ExitStack() as stack:
        slow, fast = [nbd(target, "slow", depth=64) for _ in range(SLOW_CLIENTS)], nbd(target, "fast")
        deep = [stack.enter_context(RawNbd(server.socket)) for server in slow for _ in range(CONNECTIONS)]
        for number, client in enumerate(deep):
            for part in range(PER_CONNECTION):
                begin_read(client, (number * PER_CONNECTION + part) * MIB, MIB)
        deadline = time.monotonic() + 20
        while commands_that_waited(control) == 0:
            assert time.monotonic() < deadline, "64 reads of 1 MiB must exceed the buffers"
        with RawNbd(fast.socket) as light:
            for number in range(10):
                assert light.command(READ, number * 4096, 4096)[0] == 0
        answered, _, _ = select.select([client.socket for client in deep], [], [], 0)
        assert answered == [], "a short read waited for a long read of the slow volume"
