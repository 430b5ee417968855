# SPDX-License-Identifier: Apache-2.0
"""The processes of a key-value store, over both tcp and shm, with their current options."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.native.ports import free_port

from .. import limits
from ..faults.shim import Shim, ShimLibrary
from ..processes import Process
from ..problems import Lost
from ..small_disks import SmallDisk
from ..waits import wait_for
from .bench_client import BenchClient
from .kvctl import Kvctl
from .ledger_client import LedgerClient

PARTITIONS = 3
DISK_MIB = 256  # size of each partition's file system
TERMINATE_MS = 300
CLIENTS = {"bench0": "tcp", "bench1": "shm", "ledger0": "shm", "ledger1": "tcp"}  # and their fabrics


class Partition(Process):
    # If the log of a partition has failed, the partition reports that again when it ends.
    left_behind = "all writes are refused until this program is restarted"

    def __init__(self, index: int, store: "Store"):
        self.index = index
        self.disk = SmallDisk(store.folder, f"disk{index}", DISK_MIB * 1024)
        self.data = self.disk.path / "data"
        self.shim = Shim(store.library, f"partition{index}")
        self.shim.set(device=self.disk.path.stat().st_dev)
        self.options: list[str] = []  # options of the next start, in addition to the store's
        super().__init__(f"partition{index}", "partition", lambda: store.command_of(self), "wss-target: ready on ", store.folder)

    def forget_data(self) -> None:
        shutil.rmtree(self.data)


class Store:
    def __init__(self, build: Path, folder: Path, seed: int):
        self.build, self.folder = build, folder
        self.library = ShimLibrary(folder / "shim", build / "wss-target")
        self.addresses = {"tcp": [f"tcp://127.0.0.1:{free_port()}" for _ in range(PARTITIONS)],
                          "shm": [f"shm://{folder}/p{index}.shm" for index in range(PARTITIONS)]}
        self.partitions = [Partition(index, self) for index in range(PARTITIONS)]
        self.kvctl = {kind: Kvctl(build, ",".join(addresses)) for kind, addresses in self.addresses.items()}
        self.shims = {name: Shim(self.library, name) for name in CLIENTS}
        self.benches, self.ledgers = ([make(name, self.kvctl[kind], seed, folder, self.shims[name].prefix)
                                       for name, kind in CLIENTS.items() if name.startswith(role)]
                                      for role, make in (("bench", BenchClient), ("ledger", LedgerClient)))
        self.processes: list[Process] = [*self.partitions, *self.benches, *self.ledgers]

    def command_of(self, partition: Partition) -> list[str]:
        index = partition.index
        return [*partition.shim.prefix, str(self.build / "wss-target"), "--role", "kv", "--listen", self.addresses["tcp"][index],
                "--listen", self.addresses["shm"][index], "--kv-map", ",".join(self.addresses["tcp"]), "--kv-partition", str(index),
                "--control", "", "--kv-durability", "sync", "--kv-directory", str(partition.data), "--kv-terminate-ms", str(TERMINATE_MS),
                "--drain-seconds", "10", *partition.options]

    def start_partitions(self) -> None:
        """Starts the partitions that do not run. All are started before it waits, because a restarted
        partition sends inquiries to the others before it is ready."""
        started = [partition for partition in self.partitions if not partition.is_running()]
        for partition in started:
            partition.launch()
        for partition in started:
            partition.wait_until_ready()
        wait_for(lambda: all(one["server"]["ready"] for one in self.infos()), limits.HEALED, "all partitions are ready")

    def wait_until_decided(self) -> None:
        """Waits until all transactions are decided. The caller must have stopped all loads."""
        wait_for(lambda: all(one["ramp"]["prepared"] == 0 for one in self.infos()), limits.HEALED, "all transactions are decided")

    def infos(self) -> list[dict]:
        return self.kvctl["tcp"].infos()

    def info(self, index: int) -> dict | None:
        """Returns the status of one partition, or None if it does not answer now."""
        try:
            return self.infos()[index]
        except Lost:
            return None

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.retire()
        for ledger in self.ledgers:
            ledger.write_history()
        for partition in self.partitions:
            partition.disk.unmount()
