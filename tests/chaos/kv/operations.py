# SPDX-License-Identifier: Apache-2.0
"""Operations on the store: restarting one partition or all with other options, filling the memory, exporting
and importing."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack

from ..actions import OPERATION, Action
from ..problems import Problem
from .faults import how_to_end, restart
from .kvctl import DONE
from .store import Store

OTHER = ([], ["--kv-memory", "8M"], ["--kv-memory", "32M"], ["--kv-index-memory", "4M"], ["--kv-window-ms", "200"], ["--kv-window-ms", "30000"],
         ["--log-level", "debug"], ["--kv-memory", "16M", "--kv-index-memory", "16M"])
SMALL = (["--kv-memory", "8M"], ["--kv-index-memory", "1M"])
FULL = "memory is full"  # part of the error of a refused write
FILLING, FILLING_KEYS, FILLING_BYTES = 10, 32, 60_000  # number of transactions, keys of each, and bytes of a
                                                       # value


def restart_with_options(store: Store, index: int, options: list[str], how: str) -> bool:
    partition = store.partitions[index]
    with partition.lock:
        partition.options = options
        return restart(partition, how)


def restart_all(store: Store, how: str) -> bool:
    """Ends all partitions, and only then restarts the first one."""
    with ExitStack() as held:
        for partition in store.partitions:
            held.enter_context(partition.lock)
        ended = [partition.kill() if how == "kill" else partition.terminate() for partition in store.partitions]
        store.start_partitions()
        return all(ended)


def fill_memory(store: Store, index: int, options: list[str], how: str) -> bool:
    """Gives a partition little memory, and writes more than it can hold. Returns whether the partition
    evicted values or refused writes."""
    partition = store.partitions[index]
    before = partition.options
    if not restart_with_options(store, index, options, how):
        return False
    lines = [json.dumps({"put": {f"fill:{number}:{key}": "x" * FILLING_BYTES for key in range(FILLING_KEYS)}}) for number in range(FILLING)]
    answers = store.kvctl["tcp"].run("txn", stdin="\n".join(lines), timeout=1).stdout
    info = store.info(index)
    remove_filling(store)
    restart_with_options(store, index, before, how)
    return FULL in answers or info is not None and info["memory"]["evicted"] + info["memory"]["refused_memory"] > 0


def remove_filling(store: Store) -> bool:
    lines = [json.dumps({"del": [f"fill:{number}:{key}" for key in range(FILLING_KEYS)]}) for number in range(FILLING)]
    return store.kvctl["tcp"].run("txn", stdin="\n".join(lines), timeout=1).returncode == DONE


def store_actions(store: Store) -> list[Action]:
    def some(chance: random.Random, choices) -> dict:
        return {"index": chance.randrange(len(store.partitions)), "options": chance.choice(choices), "how": how_to_end(chance)}

    def export_and_import(number: int, keys: int, deleted: int) -> bool:
        return store.ledgers[number].export_and_import(keys, deleted)

    def draw_export(chance: random.Random) -> dict:
        return {"number": chance.randrange(len(store.ledgers)), "keys": chance.choice((1, 8, 64)), "deleted": chance.randrange(10)}

    return [Action("restart-options", OPERATION, lambda chance: some(chance, OTHER), lambda **words: restart_with_options(store, **words), ends=True),
            Action("restart-all", OPERATION, lambda chance: {"how": how_to_end(chance)}, lambda **words: restart_all(store, **words), ends=True),
            Action("fill-memory", OPERATION, lambda chance: some(chance, SMALL), lambda **words: fill_memory(store, **words), ends=True),
            Action("export-import", OPERATION, draw_export, export_and_import)]


def rebuild(store: Store) -> None:
    """Moves the ledgers' keys to an empty store by export and import. The caller must have stopped all loads.
    Clients are restarted, because they follow timestamps that are ahead of their clocks."""
    files = [ledger.folder / "rebuild" for ledger in store.ledgers]
    for ledger, file in zip(store.ledgers, files):
        _must(store, "export", file, "--prefix", f"{ledger.name}:")
    for partition in store.partitions:
        with partition.lock:
            partition.terminate()
            partition.forget_data()
    store.start_partitions()
    for ledger, file in zip(store.ledgers, files):
        _must(store, "import", file)
        ledger.ledger.moved()
        with ledger.lock:
            ledger.kill()
            ledger.start()
    store.benches[0].load()


def _must(store: Store, *words) -> None:
    done = store.kvctl["tcp"].run(*words)
    if done.returncode != DONE:
        raise Problem(f"a healed store refuses kvctl {' '.join(map(str, words))}: {done.stderr}")
