# SPDX-License-Identifier: Apache-2.0
"""The world of block storage with an additional volume. The volume is on an image of a real Ceph cluster,
whose OSDs die and return."""

from __future__ import annotations

import math
import random
import time
from pathlib import Path

from tests.native.ceph_cluster import OSDS, CephCluster

from ..actions import FAULT, OPERATION, Action, Step
from .operations_cache import set_policy
from .world import BlockWorld

NAME = "image"


class CephWorld(BlockWorld):
    def __init__(self, build: Path, folder: Path, seed: int):
        super().__init__(build, folder, seed)
        self.ceph = CephCluster(folder / "ceph")
        self.actions.append(Action("kill-osd", FAULT, self._draw, self._kill_osd))

    def start(self) -> None:
        self.ceph.start()
        # With steal, a restarted target need not wait until Ceph considers the client of its previous run
        # dead.
        self.cluster.declare(NAME, self.ceph.backend(self.ceph.create_image("8M"), steal="true"), None)
        super().start()

    def stop(self) -> None:
        super().stop()
        self.ceph.stop()

    def heal_and_verify(self) -> None:
        self.ceph.wait_for_osds(OSDS)
        super().heal_and_verify()

    def _draw(self, chance: random.Random) -> dict:
        return {"number": chance.randrange(OSDS), "pause": round(chance.uniform(0.5, 8), 1)}

    def _kill_osd(self, number: int, pause: float) -> bool:
        """Kills and restarts one OSD. Only one may be down at a time, because each object is on two OSDs."""
        self.ceph.kill_osd(number)
        time.sleep(pause)
        self.ceph.start_osd(number)
        self.ceph.wait_for_osds(OSDS)
        self.ceph.wait_until_clean()
        return True


class CephSoakWorld(CephWorld):
    """A world with an image for each cache policy, and only two kinds of faults: an OSD is killed every
    minute, and the target every five minutes."""

    POLICIES = ("write-through", "write-back", "write-around")
    EPISODE = 55.0  # the verification takes the rest of each minute
    TARGET_EVERY = 5  # episodes

    def __init__(self, build: Path, folder: Path, seed: int):
        super().__init__(build, folder, seed)
        self.actions = [action for action in self.actions if action.name in ("kill-osd", "kill-target")]
        self.actions.append(Action("load", OPERATION, lambda chance: {}, lambda: True))

    def start(self) -> None:
        self.ceph.start()
        for policy in self.POLICIES:
            self.cluster.declare(policy, self.ceph.backend(self.ceph.create_image("8M"), steal="true"), None)
        BlockWorld.start(self)
        for policy in self.POLICIES:
            set_policy(self.cluster, policy, policy)

    def schedule(self, first: int, seconds: float, seed: int) -> list[Step]:
        steps = []
        # The verification takes only a small part of each minute, so the run lasts at least as long as
        # requested.
        for episode in range(first, first + math.ceil(seconds / self.EPISODE)):
            chance = random.Random(f"{seed} {episode}")
            steps.append(Step(episode, 3, FAULT, "kill-osd", {"number": episode % OSDS, "pause": round(chance.uniform(5, 15), 1)}))
            if episode % self.TARGET_EVERY == self.TARGET_EVERY - 1:
                # The target must also be killed while an OSD is down.
                steps.append(Step(episode, round(chance.uniform(5, 40), 1), OPERATION, "kill-target", {"name": "target", "pause": 0.5}))
            steps.append(Step(episode, self.EPISODE, OPERATION, "load", {}))
        return steps
