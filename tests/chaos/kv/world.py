# SPDX-License-Identifier: Apache-2.0
"""The key-value store as the world of a chaos run: three partitions, each with a log on a small disk, and
four clients."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path

from ..actions import Action
from ..faults.hostile import hostile_action
from ..faults.signals import signal_actions
from ..waits import wait_for
from .. import limits
from .bench_client import ALGORITHMS, check_histories
from .faults import Clocks, disk_actions, reply_action, restart
from .operations import rebuild, remove_filling, store_actions
from .store import Store


class KvWorld:
    def __init__(self, build: Path, folder: Path, seed: int):
        self.store = Store(build, folder, seed)
        self.clocks = Clocks(self.store)
        self.processes = self.store.processes
        addresses = [address for addresses in self.store.addresses.values() for address in addresses]
        self.actions: list[Action] = [*store_actions(self.store), *self.clocks.actions(), *signal_actions(self.processes),
                                      *disk_actions(self.store), reply_action(self.store), hostile_action(build / "wss-attack", addresses, "kv")]
        self.chance = random.Random(f"{seed} episodes")
        self.episodes = self.in_histories = 0
        self.rebuilt = 0

    def start(self) -> None:
        self.store.start_partitions()
        self.store.benches[0].load()
        self.clocks.forget()
        self._start_loads()
        for ledger in self.store.ledgers:
            ledger.start()
            ledger.thread.start()

    def stop(self) -> None:
        self.store.stop()

    def _start_loads(self) -> None:
        algorithm = self.chance.choice(ALGORITHMS)
        for bench in self.store.benches:
            bench.algorithm = algorithm
            bench.start()

    # --- between episodes ---

    def heal_and_verify(self) -> None:
        for ledger in self.store.ledgers:
            ledger.check()
        self._repair()
        with ExitStack() as held:
            for ledger in self.store.ledgers:
                held.enter_context(ledger.at_rest())
            for bench in self.store.benches:
                bench.finish()
            self.store.wait_until_decided()
            self._verify()
            self.episodes += 1
            self.clocks.may_be_moved = self.episodes % 2 == 0
            self._start_loads()

    def _repair(self) -> None:
        self.clocks.set_right()
        for process in self.processes:
            with process.lock:
                process.resume()
        for partition in self.store.partitions:
            partition.shim.heal_disk()
            partition.disk.empty()
        self.store.start_partitions()
        for partition, info in zip(self.store.partitions, self.store.infos()):
            if info["memory"]["log_failures"] > 0:
                with partition.lock:
                    restart(partition, "terminate")

    def _verify(self) -> None:
        for ledger in self.store.ledgers:
            ledger.verify()
            ledger.write_each()
        if not self.clocks.of_partitions_moved:
            wait_for(lambda: remove_filling(self.store), limits.COMMAND, "the values that filled the memory are deleted")
            for ledger in self.store.ledgers:
                ledger.write_everywhere()
        self.in_histories += check_histories(self.store.kvctl["tcp"], self.store.benches, self.store.folder)
        if self.clocks.of_partitions_moved or self.clocks.of_clients_moved:
            rebuild(self.store)
            for ledger in self.store.ledgers:
                ledger.verify()
            self.clocks.forget()
            self.rebuilt += 1

    # --- the report ---

    def operations_verified(self) -> int:
        return self.in_histories + sum(ledger.operations for ledger in self.store.ledgers)

    def details(self) -> dict:
        return {"histories": self.in_histories, "rebuilt": self.rebuilt,
                **{ledger.name: {"operations": ledger.operations, "failed": ledger.failed} for ledger in self.store.ledgers}}
