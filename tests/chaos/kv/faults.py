# SPDX-License-Identifier: Apache-2.0
"""Faults while the programs run: disks that fail, become slow or fill up, connections that break, and clocks
that are moved."""

from __future__ import annotations

import random
import time

from ..actions import FAULT, OPERATION, Action
from .store import CLIENTS, Partition, Store

DAY = 86_400
OFFSETS = (-DAY, -3600, -300, -45, -20, 20, 45, 300, 3600, DAY)  # offsets of clocks, in seconds


def restart(partition: Partition, how: str) -> bool:
    """Restarts the process of a partition. The caller must hold the partition's lock. Returns whether the
    process ended as intended."""
    ended = partition.kill() if how == "kill" else partition.terminate()
    if not partition.is_running():
        partition.start()
    return ended


def how_to_end(chance: random.Random) -> str:
    return chance.choice(("kill", "kill", "terminate"))


# --- disks ---


def disk_fails(store: Store, index: int, access: str, every: int, milliseconds: int, seconds: float, how: str) -> bool:
    """Makes accesses to the disk fail. The disk is also slow, so that many writes wait for the failing
    access. Restarts the partition afterwards, because it accepts no writes after a failed one."""
    partition = store.partitions[index]
    with partition.lock:
        before = partition.shim.get("failures")
        partition.shim.set(delay_us=milliseconds * 1000)
        time.sleep(milliseconds / 500)  # until some writes wait
        partition.shim.set(**{f"fail_{access}": every})
        try:
            time.sleep(seconds)
        finally:
            partition.shim.heal_disk()
            restart(partition, how)
        return partition.shim.get("failures") > before


def disk_fills(store: Store, index: int, seconds: float, how: str) -> bool:
    partition = store.partitions[index]
    with partition.lock:
        try:
            full = partition.disk.fill()
            time.sleep(seconds)
        finally:
            partition.disk.empty()
            restart(partition, how)
        return full


def disk_crawls(store: Store, index: int, milliseconds: int, seconds: float) -> bool:
    shim = store.partitions[index].shim
    before = shim.get("delays")
    shim.set(delay_us=milliseconds * 1000)
    time.sleep(seconds)
    shim.set(delay_us=0)
    return shim.get("delays") > before


def disk_actions(store: Store) -> list[Action]:
    def some(chance: random.Random) -> dict:
        return {"index": chance.randrange(len(store.partitions)), "seconds": round(chance.uniform(0.3, 1.5), 2)}

    def draw_fails(chance: random.Random) -> dict:
        return {**some(chance), "access": chance.choice(("writes", "syncs", "syncs", "reads")), "every": chance.choice((1, 3, 20)),
                "milliseconds": chance.choice((0, 5, 20)), "how": how_to_end(chance)}

    return [Action("disk-fails", FAULT, draw_fails, lambda **words: disk_fails(store, **words), ends=True),
            Action("disk-fills", FAULT, lambda chance: {**some(chance), "how": how_to_end(chance)}, lambda **words: disk_fills(store, **words), ends=True),
            Action("disk-crawls", FAULT, lambda chance: {**some(chance), "milliseconds": chance.choice((1, 5, 30))},
                   lambda **words: disk_crawls(store, **words))]


# --- connections ---


def replies_are_lost(store: Store, name: str, count: int, seconds: float) -> bool:
    """Breaks the client's next connections when a reply arrives, so that the client repeats requests that
    were already executed."""
    shim = store.shims[name]
    before = shim.get("lost_replies")
    for _ in range(count):
        shim.set(lose_replies=1)
        time.sleep(seconds)
    shim.set(lose_replies=0)
    return shim.get("lost_replies") > before


def reply_action(store: Store) -> Action:
    def draw(chance: random.Random) -> dict:
        return {"name": chance.choice([name for name, kind in CLIENTS.items() if kind == "tcp"]), "count": chance.randint(3, 12), "seconds": round(chance.uniform(0.05, 0.3), 2)}

    return Action("replies-are-lost", FAULT, draw, lambda **words: replies_are_lost(store, **words))


# --- clocks ---


class Clocks:
    """Moves the clocks of programs, in episodes that allow it. If a partition's clock was an hour ahead, the
    others may refuse the timestamps of its versions as too far ahead, for about an hour."""

    def __init__(self, store: Store):
        self.store = store
        self.may_be_moved = True
        self.of_partitions_moved = self.of_clients_moved = False

    def move(self, name: str, offset: int, seconds: float) -> bool:
        partition = next((one for one in self.store.partitions if one.name == name), None)
        shim = partition.shim if partition else self.store.shims[name]
        self.note_moved(partition is not None)
        before = shim.get("clock_reads")
        shim.set(clock_offset_us=offset * 1_000_000)
        time.sleep(seconds)
        shim.set(clock_offset_us=0)
        return shim.get("clock_reads") > before

    def note_moved(self, of_partition: bool) -> None:
        self.of_partitions_moved |= of_partition
        self.of_clients_moved |= not of_partition
        for bench in self.store.benches:
            bench.are_clocks_wrong = True
        for ledger in self.store.ledgers:
            ledger.ledger.clocks_right_since = float("inf")

    def set_right(self) -> None:
        for shim in (*self.store.shims.values(), *(partition.shim for partition in self.store.partitions)):
            shim.set(clock_offset_us=0)

    def forget(self) -> None:
        """Called when all clocks are right and no timestamp is ahead of them."""
        self.of_partitions_moved = self.of_clients_moved = False
        for bench in self.store.benches:
            bench.are_clocks_wrong = False
        for ledger in self.store.ledgers:
            ledger.ledger.clocks_right_since = time.monotonic()

    def actions(self) -> list[Action]:
        def make(role: str, names: list[str]) -> Action:
            def draw(chance: random.Random) -> dict | None:
                if not self.may_be_moved:
                    return None
                return {"name": chance.choice(names), "offset": chance.choice(OFFSETS), "seconds": round(chance.uniform(0.5, 4), 1)}

            return Action(f"clock-{role}", OPERATION, draw, self.move)

        return [make("partition", [partition.name for partition in self.store.partitions]), make("client", list(self.store.shims))]
