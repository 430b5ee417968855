# SPDX-License-Identifier: Apache-2.0
"""A client that shares its keys with other clients. It runs `kvctl bench`, which checks each read and write
itself and records a history."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
from pathlib import Path

from .. import limits
from ..problems import Problem
from .kvctl import DONE, VIOLATION, Kvctl, KvctlProcess

KEYS = (8, 8, 1)  # keys in a transaction; a conditional update is a conditional put only if it has one key
RECORDS = 1000
RATE = 600  # transactions per second of a client, low enough to keep its history small
WORKLOAD = {"threadcount": 4, "recordcount": RECORDS, "readproportion": 0.5, "updateproportion": 0.5, "fieldcount": 1,
            "requestdistribution": "zipfian"}
LENGTHS = (200, 200, 1000, 6000)
# Nothing is deleted, because a key whose deletion a partition has forgotten looks as if it had never been
# written. The clients with ledgers delete keys. All writers use the same algorithm during an episode:
# versions that one algorithm writes do not have the metadata that readers of another need.
ALGORITHMS = ("ramp-fast", "ramp-fast", "ramp-hybrid", "ramp-small")
MODES = ([], ["--one-sided", "on"], ["--one-sided", "paper"], ["--transport", "ring"], ["--one-sided", "on", "--transport", "ring"])
# If the clock of a session is wrong by more than 30 s, some of its writes have timestamps that are not higher
# than those of all versions that it has read.
ALLOWED_WITH_WRONG_CLOCKS = re.compile(r"VIOLATIONS: \d+ clock;\s")


class BenchClient(KvctlProcess):
    # check_exit() decides whether a violation is allowed. SIGINT ends a process that has just started.
    expected_exits = (*KvctlProcess.expected_exits, VIOLATION, -signal.SIGINT)

    def __init__(self, name: str, kvctl: Kvctl, seed: int, folder: Path, prefix: list[str]):
        self.chance = random.Random(f"{seed} {name}")
        super().__init__(name, "client", self._command, "", folder)
        self.kvctl, self.prefix = kvctl, prefix
        self.algorithm = ALGORITHMS[0]
        self.are_clocks_wrong = False
        self.histories: list[Path] = []  # histories of this episode

    def _command(self) -> list[str]:
        self.histories.append(self.folder / f"history-{self.starts}")
        properties = {**WORKLOAD, "txnlen": self.chance.choice(KEYS), "fieldlength": self.chance.choice(LENGTHS), "operationcount": 0,
                      "maxexecutiontime": 86400, "target": RATE}
        words = [word for name, value in properties.items() for word in ("-p", f"{name}={value}")]
        words += ["--phase", "run", "--verify", "--seed", self.chance.randrange(1 << 30), "--history", self.histories[-1],
                  "--conditional-share", self.chance.choice((0, 0.2, 0.5))]
        if self.chance.random() < 0.5:
            words += ["--fault-every", 50]
        return [*self.prefix, *self.kvctl.words("--json", "--algorithm", self.algorithm, *self.chance.choice(MODES), "bench", *words)]

    def load(self) -> None:
        """Writes all records with a correct clock."""
        words = [word for name, value in {**WORKLOAD, "txnlen": KEYS[0], "fieldlength": LENGTHS[0]}.items() for word in ("-p", f"{name}={value}")]
        done = self.kvctl.run("bench", *words, "--phase", "load", "--verify", seconds=limits.VERIFY)
        if done.returncode != DONE:
            raise Problem(f"the records cannot be written: exit status {done.returncode}\n{done.stderr[-3000:]}")

    def check_exit(self) -> None:
        super().check_exit()
        if self.process is not None and self.process.poll() == VIOLATION:
            found = self._report()
            if not (self.are_clocks_wrong and ALLOWED_WITH_WRONG_CLOCKS.search(found)):
                raise Problem(f"{self.name}: isolation was violated\n{found}")

    def _report(self) -> str:
        text = self.tail()
        return text[text.rfind("kvctl: verified:"):]

    def terminate(self) -> bool:
        """Ends the load with SIGINT. The process then reads everything and completes its history."""
        self.is_wanted = False
        if not self.is_running():
            return False
        self.process.send_signal(signal.SIGINT)
        self._wait_for_end(limits.STOP, "SIGINT")
        self.check_exit()
        return self.process.returncode in (DONE, VIOLATION, -signal.SIGINT)

    def finish(self) -> None:
        """Like terminate(), but in a healed store, where everything can be read."""
        with self.lock:
            was_running = self.is_running()
            ended = self.terminate()
            if was_running and not ended:
                raise Problem(f"{self.name}: not everything can be read after the repair: exit status {self.process.returncode}\n{self.tail()[-3000:]}")


def check_histories(kvctl: Kvctl, clients: list[BenchClient], folder: Path) -> int:
    """Checks the histories of all clients of one episode together, and removes them. Returns the number of
    operations."""
    paths = [path if path.exists() else path.with_name(f"{path.name}.partial") for client in clients for path in client.histories]
    paths = [path for path in paths if path.exists() and path.stat().st_size > 0]
    if not paths:
        return 0
    command = [str(kvctl.program), "--json", "check", *map(str, paths), "--conditions"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=limits.VERIFY)
    if done.returncode != DONE:
        raise Problem(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}")
    for client in clients:
        for path in client.histories:
            path.unlink(missing_ok=True)
            path.with_name(f"{path.name}.partial").unlink(missing_ok=True)
        client.histories.clear()
    return json.loads(done.stdout)["operations"]
