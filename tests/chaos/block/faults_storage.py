# SPDX-License-Identifier: Apache-2.0
"""Storage that fails, becomes slow or fills up. It belongs to a separate volume, which is deleted
afterwards."""

from __future__ import annotations

import random
import time

from .. import limits
from ..actions import FAULT, Action
from ..waits import wait_for
from .cluster import Cluster
from .control import MIB
from .operations_volumes import create, delete

NAME = "bad"
SMALL_LEFT = 2 * MIB  # free bytes of the file system that the volume fills
FILTERS = {"fails": "error:every={number},op={op}:", "crawls": "delay:us={number}000:", "fills": ""}


def _trouble(cluster: Cluster, kind: str) -> bool:
    """Returns whether the fault has affected commands."""
    totals = cluster.ask("stats")["volumes"][NAME]
    if kind == "crawls":
        return totals["reads"] + totals["writes"] > 0
    volume = next(each for each in cluster.status()["volumes"] if each["name"] == NAME)
    return totals["errors"] > 0 or volume["counters"]["destage_errors"] > 0


def bad_storage(cluster: Cluster, kind: str, number: int, op: str, policy: str, seconds: float) -> bool:
    folder = None
    if kind == "fills":
        folder = cluster.small_disk.path
        cluster.small_disk.fill(leave=SMALL_LEFT)
    try:
        if not create(cluster, NAME, 4 * MIB, FILTERS[kind].format(number=number, op=op), folder):
            return False
        cluster.ask("cache.policy", volume=NAME, policy=policy, unsafe=False)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not _trouble(cluster, kind):
            time.sleep(0.1)
        return _trouble(cluster, kind)
    finally:
        cluster.small_disk.empty()
        _remove(cluster)


def _remove(cluster: Cluster) -> None:
    def gone() -> bool:
        if NAME in cluster.volumes:
            delete(cluster, NAME)
        return NAME not in cluster.volumes

    wait_for(gone, limits.COMMAND, f"volume {NAME} is deleted")


def storage_actions(cluster: Cluster) -> list[Action]:
    def make(kind: str) -> Action:
        def draw(chance: random.Random) -> dict:
            return {"number": chance.choice((5, 20, 60)), "op": chance.choice(("write", "read", "all")),
                    "policy": chance.choice(("write-back", "write-through", "none")), "seconds": round(chance.uniform(1, 3), 1)}

        def act(**words) -> bool:
            return bad_storage(cluster, kind, **words)

        return Action(f"storage-{kind}", FAULT, draw, act)

    return [make(kind) for kind in FILTERS]
