# SPDX-License-Identifier: Apache-2.0
"""A client runs the load program, whose ledgers outlive the process. Every request is repeated until a
running client has responded."""

from __future__ import annotations

import json
import queue
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from .. import limits
from ..problems import Problem
from ..processes import Process

SECTOR = 512
SECTORS_MAX = 16384  # maximum size of a volume (8 MiB)


@dataclass
class Volume:
    name: str
    id: int
    backend: str
    size: int
    declared: bool = False
    path: Path | None = None  # the backing file, if the target itself opens it


class LoadClient(Process):
    def __init__(self, name: str, program: Path, address: str, number: int, count: int, seed: int, secret: Path, folder: Path):
        super().__init__(name, "client", lambda: [str(program), address, str(number), str(count), str(seed + self.starts),
                                                "history", str(secret)],
                         "ready", folder)
        self.volumes: dict[str, Volume] = {}
        self.channel = threading.RLock()
        self.done = 0  # number of operations before the latest start
        self.latest: dict = {}

    def start(self) -> None:
        self.done += self._operations(self.latest)
        self.latest = {}
        self.launch()

    def open(self, volume: Volume) -> None:
        self.volumes[volume.name] = volume
        self._open(volume)

    def close(self, name: str) -> None:
        if volume := self.volumes.pop(name, None):
            self.request(f"close {name}")
            self._ledger(volume).unlink(missing_ok=True)

    def notify(self, command: str, name: str, *words) -> None:
        answer = self.request(" ".join([command, name, *map(str, words)]))
        if answer.startswith("error: no load"):  # the client was restarted
            self._open(self.volumes[name])
            answer = self.request(" ".join([command, name, *map(str, words)]))
        if answer != "ok":
            raise Problem(f"{self.name}: {command} {name}: {answer}")

    def open_all(self) -> None:
        for volume in list(self.volumes.values()):
            self._open(volume)

    def verify(self) -> str:
        self.open_all()
        return self.request(f"verify {int(limits.VERIFY)}", limits.VERIFY + limits.CLIENT)

    def refresh(self) -> int:
        """Updates the number of verified operations since the first start, and returns it."""
        self.latest = json.loads(self.request("status"))
        return self.done + self._operations(self.latest)

    def _operations(self, status: dict) -> int:
        return sum(status.get(kind, 0) for kind in ("reads", "writes", "zeroes", "discards", "flushes"))

    def _ledger(self, volume: Volume) -> Path:
        return self.folder / f"ledger-{volume.id}"

    def _open(self, volume: Volume) -> None:
        # An existing ledger has its own limit, because space that was cut off in the meantime must not be
        # used.
        limit = 0 if self._ledger(volume).exists() else volume.size // SECTOR
        answer = self.request(f"open {volume.name} {volume.id} {SECTORS_MAX} {limit} {self._ledger(volume)}")
        if answer != "ok":
            raise Problem(f"{self.name}: open {volume.name}: {answer}")

    def request(self, line: str, seconds: float = limits.CLIENT) -> str:
        deadline = time.monotonic() + seconds
        with self.channel:
            while time.monotonic() < deadline:
                process, lines = self.process, self.lines
                try:
                    process.stdin.write(f"{line}\n".encode())
                    process.stdin.flush()
                    answer = lines.get(timeout=max(0.1, deadline - time.monotonic()))
                    if answer == "ready":
                        answer = lines.get(timeout=max(0.1, deadline - time.monotonic()))
                    if answer is not None:
                        return answer
                except (OSError, ValueError):
                    pass
                except queue.Empty:
                    break
                self.check_exit()
                time.sleep(0.05)
        raise Problem(f"{self.name} did not answer {line!r} within {seconds:.0f} s")
