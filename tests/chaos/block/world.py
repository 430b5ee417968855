# SPDX-License-Identifier: Apache-2.0
"""Block storage as the world of a chaos run: a target, three cache engines, real storage on another node, and
two clients."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from .. import limits
from ..actions import Action
from ..faults.hostile import hostile_action
from ..faults.signals import signal_actions
from ..problems import Problem
from ..waits import wait_for
from .cluster import Cluster
from .faults_storage import storage_actions
from .load import LoadClient
from .operations_cache import cache_actions, give_up_lost, lost_bytes, may_end_engine, wait_for_engines
from .operations_restart import restart_actions
from .operations_volumes import volume_actions


class BlockWorld:
    def __init__(self, build: Path, folder: Path, seed: int):
        self.cluster = Cluster(build, folder, seed)
        self.processes = self.cluster.processes
        addresses = [*self.cluster.serve.values(), *self.cluster.join.values()]
        self.actions: list[Action] = [*volume_actions(self.cluster), *cache_actions(self.cluster), *restart_actions(self.cluster),
                                      *signal_actions(self.processes, self._may_end, self._started), *storage_actions(self.cluster),
                                      hostile_action(build / "wss-attack", addresses, "srp")]
        self.ends = 0

    def start(self) -> None:
        self.cluster.start()
        wait_for_engines(self.cluster)
        self.ends = self._ends_of_engines()

    def stop(self) -> None:
        self.cluster.stop()

    def _may_end(self, process) -> bool:
        return process not in self.cluster.engines or may_end_engine(self.cluster)

    def _started(self, process) -> None:
        if isinstance(process, LoadClient):
            process.open_all()

    def _ends_of_engines(self) -> int:
        return sum(engine.starts for engine in self.cluster.engines)

    # --- between episodes ---

    def heal_and_verify(self) -> None:
        for process in self.processes:
            with process.lock:
                process.resume()
                if not process.is_running():
                    process.start()
        wait_for_engines(self.cluster)
        self._settle_losses()
        self._compare_volumes()
        self._verify()
        wait_for(lambda: self.cluster.ask("cache.drain") == {}, limits.HEALED, "the cache is drained to the repaired storage")
        self.ends = self._ends_of_engines()

    def _settle_losses(self) -> None:
        """Gives up lost data. Data with two copies may be lost only if two engines have ended."""
        deadline = time.monotonic() + limits.SALVAGE
        while (lost := lost_bytes(self.cluster)) and time.monotonic() < deadline:
            time.sleep(0.1)
        if lost and self._ends_of_engines() - self.ends < 2:
            raise Problem(f"{lost} bytes are lost although fewer than two engines have ended\n{self.cluster.status()}")
        give_up_lost(self.cluster)

    def _compare_volumes(self) -> None:
        expected = {volume.name: volume.size for volume in self.cluster.volumes.values()}
        found = self.cluster.sizes()
        if found != expected:
            raise Problem(f"the target serves volumes with wrong names or sizes: {found}, expected {expected}")

    def _verify(self) -> None:
        answers: dict[str, str] = {}

        def one(client: LoadClient) -> None:
            try:
                answers[client.name] = client.verify()
            except Problem as problem:
                answers[client.name] = str(problem)

        threads = [threading.Thread(target=one, args=(client,)) for client in self.cluster.clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        failed = {name: answer for name, answer in answers.items() if answer != "ok"}
        if failed:
            raise Problem(f"not everything can be read and flushed after the repair: {failed}\n{self.cluster.status()}")

    # --- the report ---

    def operations_verified(self) -> int:
        return sum(client.refresh() for client in self.cluster.clients)

    def details(self) -> dict:
        return {client.name: client.latest for client in self.cluster.clients}
