# SPDX-License-Identifier: Apache-2.0
"""A key-value store of three wss-target processes in a machine, and clients with verified loads. By default
the clients are in the same machine."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from tests.lab.guest import Guest, Process

PORTS = 5701, 5702, 5703  # one for each partition
CLIENTS = 2  # processes that write the same keys at the same time
LIMIT = 120  # seconds; an idle machine needs one
# A load with contention: 500 keys in a Zipfian distribution. Half of the transactions write.
CONTENDED = {"recordcount": 500, "threadcount": 4, "readproportion": 0.5, "updateproportion": 0.5, "fieldcount": 1, "fieldlength": 300,
             "requestdistribution": "zipfian"}  # fmt: skip

ALGORITHMS = ("ramp-fast", "ramp-small", "ramp-hybrid", "2pl-sequential", "2pl-parallel", "none")
MODES = {
    **{f"{algorithm} by {how}": ["--algorithm", algorithm, *words] for algorithm in ALGORITHMS
       for how, words in (("messages", []), ("rings", ["--transport", "ring"]))},
    **{f"one-sided {kind} and {how}": ["--one-sided", word, *words] for kind, word in (("ours", "on"), ("as in the paper", "paper"))
       for how, words in (("messages", []), ("rings", ["--transport", "ring"]))},
}  # fmt: skip


def keys_of(modes: list[str]) -> int:
    """Returns the number of keys in a transaction. Messages are slow in an emulated machine, so the locks of
    many keys are hardly ever free at the same time."""
    return 8 if any(word.startswith("2pl") for word in modes) else 16


class Store:
    """A running store. Its partitions run during the `with` block, and must exit without an error."""

    def __init__(self, guest: Guest, client: Guest | None = None, scheme: str = "rdma", ports: Sequence[int] = PORTS) -> None:
        self.guest = guest
        self.client = client or guest
        self.addresses = ",".join(f"{scheme}://{guest.address}:{port}" for port in ports)
        self.targets: list[Process] = []

    def __enter__(self) -> Store:
        for index, address in enumerate(self.addresses.split(",")):
            self.targets.append(self.guest.start(
                f"exec wss-target --role kv --listen {address} --kv-map {self.addresses} --kv-partition {index} --kv-memory 96M "
                f"--control '' --log-level warning"))  # fmt: skip
        for target in self.targets:
            target.wait_for("ready", LIMIT)
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is not None:
            for target in self.targets:
                target.kill()
            return
        for target in self.targets:
            result = target.stop(LIMIT)
            assert result.status == 0, f"a partition exited with status {result.status}:\n{result.stderr}"

    def command(self, modes: list[str], *words: str) -> str:
        return f"exec kvctl --target {self.addresses} --timeout 60 --json {shlex.join([*modes, *words])}"

    def load(self, modes: list[str]) -> None:
        self.client.run(self.bench(modes, "load", 1), LIMIT)

    def bench(self, modes: list[str], phase: str, transactions: int, seed: int = 1) -> str:
        properties = {**CONTENDED, "txnlen": keys_of(modes), "operationcount": transactions}
        words = [word for name, value in properties.items() for word in ("-p", f"{name}={value}")]
        return self.command(modes, "bench", *words, "--phase", phase, "--seed", str(seed), "--verify")

    def verified(self, modes: list[str], transactions: int, limit: float) -> list[dict]:
        """Runs all clients concurrently, with `transactions` transactions each, and returns their results."""
        clients = [self.client.start(self.bench(modes, "run", transactions, seed)) for seed in range(1, CLIENTS + 1)]
        ended = [client.wait(limit) for client in clients]
        return [json.loads(end.require().stdout.splitlines()[-1]) for end in ended]


def assert_held(results: list[dict]) -> None:
    for result in results:
        assert result["CHECK"]["Violations"] == 0, result
        assert result["CHECK"]["Reads"] > 0 and result["CHECK"]["Writes"] > 0, result
        assert result["operations"] > 0 and result["failed"] == 0, result
