# SPDX-License-Identifier: Apache-2.0
"""The private segment of the machines of a lab: starts the switch (switch.py), provides its cables, and cuts
and restores them.

A cable is a socket pair that outlives its machine, so that the machine is on the same port again after a power cut.
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
BUFFER = 4 * 1024 * 1024  # size of a cable's buffer in each direction; a burst must not block its machine


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
        """Cuts the machine off from all traffic. Its own link stays up, as if a more distant switch had
        failed."""
        self._order({"port": port, "up": False})

    def restore(self, port: int) -> None:
        self._order({"port": port, "up": True})

    def lose(self, share: float, seed: int = 0) -> None:
        """Drops a share of all frames, chosen at random from the seed. A share of 0 ends this."""
        self._order({"loss": share, "seed": seed})

    def limit(self, mtu: int) -> None:
        """Drops frames with more than `mtu` bytes after their Ethernet header, as a switch with a smaller MTU does."""
        self._order({"longest": mtu + ETHERNET_HEADER})

    def counters(self) -> list[dict]:
        """Returns the numbers of frames that were delivered and lost at each port."""
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
        """Sends one command and waits for the response. On return the command is in effect."""
        answer = b""
        try:
            self._control.sendall(json.dumps(order).encode() + b"\n")
            while not answer.endswith(b"\n"):
                chunk = self._control.recv(65536)
                if not chunk:
                    raise ConnectionError("the switch closed the control socket")
                answer += chunk
        except OSError as error:
            raise LabError(f"the lab's network switch does not answer (exit status {self._switch.poll()}): {error}") from error
        return json.loads(answer)
