# SPDX-License-Identifier: Apache-2.0
"""The private segment of several machines: starts the switch (switch.py), provides its cables, cuts and restores them.

A cable is a socket pair that outlives its machine: after a power cut the machine is on the same port again.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys

from tests.lab import paths
from tests.lab.errors import LabError
from tests.lab.leash import leashed

ANSWER_LIMIT = 10.0
ETHERNET_HEADER = 14
BUFFER = 4 * 1024 * 1024  # of a cable in each direction: a burst of a machine must not block it


class Segment:
    def __init__(self, ports: int) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(ports)]
        for end in (end for pair in pairs for end in pair):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        self.cables = [pair[0] for pair in pairs]  # the machines' ends
        self._control, theirs = socket.socketpair()
        self._control.settimeout(ANSWER_LIMIT)
        wires = [theirs, *(pair[1] for pair in pairs)]
        numbers = [wire.fileno() for wire in wires]
        command = leashed([sys.executable, "-B", "-m", "tests.lab.switch", *map(str, numbers)])
        self._switch = subprocess.Popen(
            command, cwd=paths.REPOSITORY, pass_fds=numbers, stdin=subprocess.DEVNULL, start_new_session=True
        )
        for wire in wires:
            wire.close()

    def cut(self, port: int) -> None:
        """Cuts the machine off from all traffic. The machine sees its link up, as if a more distant switch failed."""
        self._order({"port": port, "up": False})

    def restore(self, port: int) -> None:
        self._order({"port": port, "up": True})

    def lose(self, share: float, seed: int = 0) -> None:
        """Drops this share of all frames (0 ends it), drawn from the seed."""
        self._order({"loss": share, "seed": seed})

    def limit(self, mtu: int) -> None:
        """Drops frames with more than this many bytes after their Ethernet header, like a switch with a smaller MTU."""
        self._order({"longest": mtu + ETHERNET_HEADER})

    def counters(self) -> list[dict]:
        """Returns the frames delivered and lost, for each port."""
        return self._order({})["ports"]

    def close(self) -> None:
        self._control.close()
        for cable in self.cables:
            cable.close()
        try:
            self._switch.wait(2)
        except subprocess.TimeoutExpired:
            self._switch.kill()
            self._switch.wait(10)

    def _order(self, order: dict) -> dict:
        """Sends one command and waits for the response: the command is in effect on return."""
        answer = b""
        try:
            self._control.sendall(json.dumps(order).encode() + b"\n")
            while not answer.endswith(b"\n"):
                chunk = self._control.recv(65536)
                if not chunk:
                    raise ConnectionError("it closed the control socket")
                answer += chunk
        except OSError as error:
            raise LabError(f"the lab's network switch does not answer (exit status {self._switch.poll()}): {error}") from error
        return json.loads(answer)
