# SPDX-License-Identifier: Apache-2.0
"""Restarts the target with different options, without a volume, and after it could not save its state.
Restarts an engine with a different amount of memory. Reloads secrets."""

from __future__ import annotations

import random
import time
from typing import Callable

from .. import limits
from ..actions import OPERATION, Action
from ..problems import Lost, Refused
from ..processes import NotReady
from ..waits import wait_for
from .cluster import Cluster
from .operations_cache import make_dirty, may_end_engine
from .operations_volumes import SIZES, begin_resize, end_resize

OTHER = ([], ["--cache-policy", "write-back"], ["--cache-policy", "write-around"], ["--cache-policy", "none"], ["--cache-read-ahead", "0"],
         ["--cache-read-ahead", "256K"], ["--cache-grace", "0"], ["--cache-grace", "2"], ["--log-level", "debug"], ["--reactors", "1"], ["--reactors", "2"])
MEMORY = ("4M", "8M", "12M")  # memory of an engine; less than all volumes together


def _end(cluster: Cluster, how: str) -> None:
    cluster.target.kill() if how == "kill" else cluster.target.terminate()


def restart_with_options(cluster: Cluster, more: list[str], how: str) -> bool:
    with cluster.target.lock:
        _end(cluster, how)
        before, cluster.options.more = cluster.options.more, more
        try:
            cluster.target.start()
            return True
        except NotReady as refusal:
            if refusal.status not in (1, 2):
                raise
            cluster.options.more = before
            cluster.target.start()
            raise Refused(str(refusal)[-300:]) from None


def restart_engine(cluster: Cluster, number: int, memory: str) -> bool:
    """Stops an engine in an orderly way and restarts it with a different amount of memory. Its dirty lines
    move to the other engines."""
    if not may_end_engine(cluster):
        return False
    engine = cluster.engines[number]
    with engine.lock:
        ended = engine.terminate()
        cluster.memory[number] = memory
        if not engine.is_running():
            engine.start()
        return ended


def restart_without_volume(cluster: Cluster, volume: str, how: str, pause: float) -> bool:
    """Restarts the target once without a volume. If the volume is declared, the options omit it. Otherwise
    its file is missing."""
    make_dirty(cluster, volume)
    kept = cluster.volumes[volume]
    with cluster.target.lock:
        _end(cluster, how)
        if kept.declared:
            cluster.options.missing = {volume}
        else:
            kept.path.rename(f"{kept.path}.away")
        try:
            cluster.target.start()
            missing = volume not in cluster.sizes()
            time.sleep(pause)
        finally:
            cluster.options.missing = set()
            if not kept.declared:
                kept.path.with_name(f"{kept.path.name}.away").rename(kept.path)
            _end(cluster, how)
            cluster.target.start()
        return missing and volume in cluster.sizes()


def restart_after_full(cluster: Cluster, volume: str, size: int, how: str) -> bool:
    """Resizes a volume while the state cannot be saved. After a restart it has one of the two sizes."""
    with cluster.target.lock:
        begin_resize(cluster, volume, size)
        full = cluster.state_disk.fill()
        certain = False
        try:
            cluster.ask("volume.resize", name=volume, size=size)
            certain = True
        except (Refused, Lost):
            pass
        finally:
            _end(cluster, how)
            cluster.state_disk.empty()
            cluster.target.start()
            actual = wait_for(lambda: cluster.sizes().get(volume), limits.START, f"volume {volume} is served after the restart")
            end_resize(cluster, volume, size, actual, certain)
    return full


def reload_secrets(cluster: Cluster, others: int) -> bool:
    count = cluster.write_secrets(cluster.secrets, others)
    return cluster.ask("auth.reload")["initiators"] == count


def restart_actions(cluster: Cluster) -> list[Action]:
    def how(chance: random.Random) -> str:
        return chance.choice(("kill", "kill", "terminate"))

    def draw_without(chance: random.Random) -> dict:
        volume = chance.choice(sorted(set(cluster.volumes) - {"bad"}))
        return {"volume": volume, "how": how(chance), "pause": round(chance.uniform(0, 3), 2)}

    def draw_full(chance: random.Random) -> dict:
        local = sorted(volume.name for volume in list(cluster.volumes.values()) if volume.path and volume.name != "bad")
        volume = chance.choice(local)
        return {"volume": volume, "size": chance.choice([size for size in SIZES if size != cluster.volumes[volume].size]), "how": how(chance)}

    def draw_engine(chance: random.Random) -> dict:
        number = chance.randrange(len(cluster.engines))
        return {"number": number, "memory": chance.choice([memory for memory in MEMORY if memory != cluster.memory[number]])}

    def restart(name: str, draw: Callable, act: Callable) -> Action:
        return Action(f"restart-{name}", OPERATION, draw, lambda **words: act(cluster, **words), ends=True)

    return [restart("options", lambda chance: {"more": chance.choice(OTHER), "how": how(chance)}, restart_with_options),
            restart("engine", draw_engine, restart_engine),
            restart("without-volume", draw_without, restart_without_volume),
            restart("after-full", draw_full, restart_after_full),
            Action("auth-reload", OPERATION, lambda chance: {"others": chance.randrange(20)}, lambda **words: reload_secrets(cluster, **words))]
