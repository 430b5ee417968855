# SPDX-License-Identifier: Apache-2.0
"""The commands create, delete, resize and set, with the guarantee that each gives for the data."""

from __future__ import annotations

import random
import time
from pathlib import Path

from .. import limits
from ..actions import OPERATION, Action
from ..problems import Lost, Refused
from ..waits import wait_for
from .cluster import Cluster
from .control import MIB
from .load import SECTOR, Volume

NAMES = ("run0", "run1", "run2")
SIZES = (2 * MIB, 3 * MIB, 4 * MIB + 64 * 1024, 6 * MIB, 8 * MIB)


def adopt(cluster: Cluster, volume: Volume) -> None:
    cluster.volumes[volume.name] = volume
    for client in cluster.clients:
        client.open(volume)


def drop(cluster: Cluster, name: str) -> None:
    for client in cluster.clients:
        client.close(name)
    volume = cluster.volumes.pop(name)
    if volume.path is not None:
        volume.path.unlink(missing_ok=True)


def create(cluster: Cluster, name: str, size: int, filters: str = "", folder: Path | None = None) -> bool:
    if name in cluster.volumes:
        return False
    number = cluster.next_id()
    path = (folder or cluster.folder) / f"{name}-{number}.img"
    volume = Volume(name, number, f"{filters}aio:{path}", size, path=path)
    try:
        cluster.ask("volume.create", name=name, backend=volume.backend, size=size, create=True)
    except Refused:
        path.unlink(missing_ok=True)
        raise
    except Lost:
        if name not in wait_for(lambda: {"": 0, **cluster.sizes()}, limits.START, "the target answers after a create"):
            return False
    adopt(cluster, volume)
    return True


def delete(cluster: Cluster, name: str) -> bool:
    if name not in cluster.volumes:
        return False
    try:
        try:
            cluster.ask("volume.delete", name=name)
        except Refused:  # engines or storage that its dirty lines need may be away
            cluster.ask("volume.delete", name=name, give_up_dirty=True)
    except Lost:
        if name in wait_for(lambda: {"": 0, **cluster.sizes()}, limits.START, "the target answers after a delete"):
            return False
    drop(cluster, name)
    return True


def begin_resize(cluster: Cluster, name: str, size: int) -> None:
    """Makes the clients stop using the part that may be cut off. Operations in flight in that part may
    already read zeroes."""
    for client in cluster.clients:
        client.notify("unsure", name, 1)
        if size < cluster.volumes[name].size:
            client.notify("cut", name, size // SECTOR, 0)
        client.notify("limit", name, min(size, cluster.volumes[name].size) // SECTOR)


def end_resize(cluster: Cluster, name: str, wanted: int, actual: int, certain: bool) -> None:
    """`certain` means that the target has reported success. Otherwise the part beyond `wanted` may have been cut off."""
    volume = cluster.volumes[name]
    for client in cluster.clients:
        if wanted < volume.size and certain:
            client.notify("cut", name, wanted // SECTOR, 1)
        client.notify("limit", name, actual // SECTOR)
        client.notify("unsure", name, 0)
    volume.size = actual


def resize(cluster: Cluster, name: str, size: int) -> bool:
    if name not in cluster.volumes or cluster.volumes[name].size == size:
        return False
    begin_resize(cluster, name, size)
    certain = False
    try:
        cluster.ask("volume.resize", name=name, size=size)
        certain = True
    finally:
        actual = size if certain else wait_for(lambda: cluster.sizes().get(name), limits.START, f"volume {name} is served after a resize")
        end_resize(cluster, name, size, actual, certain)
    return certain


SETTINGS = {"read_only": (True, False), "iops": ("200", "0"), "bandwidth": ("2M", "0")}  # each is set for a while and then reset


def set_for_a_while(cluster: Cluster, name: str, what: str, pause: float) -> bool:
    value, back = SETTINGS[what]
    try:
        cluster.ask("volume.set", name=name, **{what: value})
        time.sleep(pause)
        return True
    finally:
        wait_for(lambda: cluster.ask("volume.set", name=name, **{what: back}), limits.START, f"{what} of {name} is reset")


def volume_actions(cluster: Cluster) -> list[Action]:
    def some(chance: random.Random, names) -> str | None:
        names = sorted(names)
        return chance.choice(names) if names else None

    def runtime() -> list[str]:
        return [name for name in cluster.volumes if name in NAMES]

    def draw_create(chance: random.Random) -> dict | None:
        name = some(chance, set(NAMES) - set(runtime()))
        return name and {"name": name, "size": chance.choice(SIZES)}

    def draw_delete(chance: random.Random) -> dict | None:
        name = some(chance, runtime())
        return name and {"name": name}

    def draw_resize(chance: random.Random) -> dict | None:
        name = some(chance, [volume.name for volume in list(cluster.volumes.values()) if volume.path and volume.name != "bad"])
        return {"name": name, "size": chance.choice(SIZES)}

    def draw_set(chance: random.Random) -> dict:
        return {"name": some(chance, ("disk0", "disk1", *runtime())), "what": some(chance, SETTINGS), "pause": round(chance.uniform(0, 0.5), 2)}

    return [Action("create", OPERATION, draw_create, lambda **words: create(cluster, **words)),
            Action("delete", OPERATION, draw_delete, lambda **words: delete(cluster, **words)),
            Action("resize", OPERATION, draw_resize, lambda **words: resize(cluster, **words)),
            Action("set", OPERATION, draw_set, lambda **words: set_for_a_while(cluster, **words))]
