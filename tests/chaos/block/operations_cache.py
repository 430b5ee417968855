# SPDX-License-Identifier: Apache-2.0
"""Operator actions on the cache: changing policies, draining, removing and adding engines, forgetting
engines, giving up data."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack

from .. import limits
from ..actions import OPERATION, Action
from ..problems import Problem, Refused
from ..waits import wait_for
from .cluster import Cluster
from .control import command

POLICIES = ("write-back", "write-back", "write-through", "write-around", "none")
NOTICED = 2.0  # seconds within which the target detects that engines are gone
FILL = 0.4  # seconds of load to make lines dirty


def set_policy(cluster: Cluster, volume: str, policy: str) -> bool:
    cluster.ask("cache.policy", volume=volume, policy=policy, unsafe=False)
    return True


def drain(cluster: Cluster, volume: str) -> bool:
    cluster.ask("cache.drain", volume=volume)
    return True


def live_numbers(cluster: Cluster) -> dict[int, int]:
    """Returns the target's index for each live engine, by the number of the engine's process."""
    found = {}
    for engine in cluster.live_engines():
        for process in cluster.engines:
            if set(process.command()) & set(engine["addresses"]):
                found[cluster.engines.index(process)] = engine["index"]
    return found


def remove(cluster: Cluster, number: int) -> bool:
    live = live_numbers(cluster)
    if len(live) < 3 or number not in live:
        return False
    cluster.ask("cache.remove", engine=live[number])
    try:
        wait_for(lambda: number not in live_numbers(cluster), 10, "the engine is removed")
    except Problem:
        return False  # its dirty lines may have to wait for storage
    cluster.removed[number] = cluster.engines[number].starts
    return True


def removed_numbers(cluster: Cluster) -> list[int]:
    """Returns the engines that were removed and have not been restarted since."""
    return [number for number, starts in sorted(cluster.removed.items()) if cluster.engines[number].starts == starts]


def add(cluster: Cluster, number: int) -> bool:
    if number in live_numbers(cluster):
        return False
    command(cluster.engine_control(number), "engine.join")
    cluster.removed.pop(number, None)
    try:
        wait_for(lambda: number in live_numbers(cluster), 10, "the engine has joined")
    except Problem:
        return False
    return True


def give_up_lost(cluster: Cluster) -> bool:
    """Gives up lost data. Returns whether there was any."""
    lost = [volume["name"] for volume in cluster.status()["volumes"] if volume["lost_bytes"] > 0]
    return any([give_up_volume(cluster, name) for name in lost])


def give_up_volume(cluster: Cluster, name: str) -> bool:
    for client in cluster.clients:
        client.notify("unsure", name, 1)
        client.notify("loosen", name)
    try:
        cluster.ask("cache.give_up", volume=name)
        return True
    except Refused:
        return False  # an engine has returned with the data in the meantime
    finally:
        for client in cluster.clients:
            client.notify("loosen", name)
            client.notify("unsure", name, 0)


def make_dirty(cluster: Cluster, volume: str) -> None:
    cluster.ask("cache.policy", volume=volume, policy="write-back", unsafe=False)
    time.sleep(FILL)


def give_up(cluster: Cluster, volume: str) -> bool:
    """Kills all engines together. Their contents are lost and then given up."""
    make_dirty(cluster, volume)
    with ExitStack() as held:
        for engine in cluster.engines:
            held.enter_context(engine.lock)
        for engine in cluster.engines:
            engine.kill()
        for engine in cluster.engines:
            engine.start()
    deadline = time.monotonic() + NOTICED
    try:
        while not lost_bytes(cluster) and time.monotonic() < deadline:
            time.sleep(0.05)
        return give_up_lost(cluster)
    finally:
        # If the target was restarted in the meantime, it would wait for the lost contents, and clients would
        # not end.
        may_end_engine(cluster)


def forget(cluster: Cluster, volume: str, how: str) -> bool:
    """Restarts the target without its engines, then ends its wait for them (cache.forget). The target must not
    give up acknowledged data that only these engines hold. Reads of such data fail, or succeed after the
    engines have returned with it."""
    make_dirty(cluster, volume)
    awaited = False
    with ExitStack() as held:
        for process in (cluster.target, *cluster.engines):
            held.enter_context(process.lock)
        cluster.target.kill()
        for engine in cluster.engines:
            engine.kill() if how == "kill" else engine.pause()
        try:
            cluster.target.start()
            awaited = bool(cluster.status()["awaited"])
            cluster.ask("cache.forget")
            time.sleep(FILL)
        finally:
            for engine in cluster.engines:
                engine.start() if how == "kill" else engine.resume()
    return awaited


def lost_bytes(cluster: Cluster) -> int:
    return sum(volume["lost_bytes"] for volume in cluster.status()["volumes"])


def recovered(cluster: Cluster) -> bool:
    """Returns whether no recovery is in progress. If a recovery waits only for engines that have exited,
    their contents are lost, and the operator ends the wait."""
    with cluster.target.lock:  # a restarted target would wait for different engines
        status = cluster.status()
        if awaited := set(status["awaited"]):
            running = [cluster.identity(engine) for engine in cluster.engines if engine.is_running()]
            if None not in running and awaited.isdisjoint(running):
                cluster.ask("cache.forget")
    return not status["recovering"]


def may_end_engine(cluster: Cluster) -> bool:
    """Waits until no recovery is in progress. If an engine ended while recovery waits for another one, that
    would be a second loss, which requires a decision of the operator."""
    try:
        wait_for(lambda: recovered(cluster), limits.SALVAGE, "the recovery has ended")
    except Problem:
        return False
    return True


def wait_for_engines(cluster: Cluster) -> None:
    """Adds removed engines, and waits until all engines are live. If a recovery waits too long, the operator
    ends it."""
    cluster.removed.clear()
    patience = time.monotonic() + limits.SALVAGE

    def healed() -> bool:
        live = live_numbers(cluster)
        for number in range(len(cluster.engines)):
            if number not in live:
                command(cluster.engine_control(number), "engine.join")
        over = recovered(cluster)
        if not over and time.monotonic() > patience:
            cluster.ask("cache.forget")
        storage = [engine for engine in cluster.status()["engines"] if engine["state"] == "storage"]
        return len(live) == len(cluster.engines) and len(storage) == 1 and over

    try:
        wait_for(healed, limits.HEALED, "all engines and real storage are connected, and no recovery is in progress")
    except Problem as problem:
        raise Problem(f"{problem}\n{cluster.status()}") from None


def cache_actions(cluster: Cluster) -> list[Action]:
    def any_volume(chance: random.Random) -> str:
        return chance.choice(sorted(set(cluster.volumes) - {"bad"}))

    def draw_remove(chance: random.Random) -> dict | None:
        return None if removed_numbers(cluster) else {"number": chance.randrange(len(cluster.engines))}

    def draw_add(chance: random.Random) -> dict | None:
        numbers = removed_numbers(cluster)
        return {"number": chance.choice(numbers)} if numbers else None

    def draw_policy(chance: random.Random) -> dict:
        return {"volume": any_volume(chance), "policy": chance.choice(POLICIES)}

    def draw_forget(chance: random.Random) -> dict:
        return {"volume": any_volume(chance), "how": chance.choice(("kill", "stop"))}

    return [Action("policy", OPERATION, draw_policy, lambda **words: set_policy(cluster, **words)),
            Action("drain", OPERATION, lambda chance: {"volume": any_volume(chance)}, lambda **words: drain(cluster, **words)),
            Action("remove", OPERATION, draw_remove, lambda **words: remove(cluster, **words)),
            Action("add", OPERATION, draw_add, lambda **words: add(cluster, **words)),
            Action("give-up", OPERATION, lambda chance: {"volume": any_volume(chance)}, lambda **words: give_up(cluster, **words),
                   ends=True),
            Action("forget", OPERATION, draw_forget, lambda **words: forget(cluster, **words), ends=True)]
