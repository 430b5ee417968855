# SPDX-License-Identifier: Apache-2.0
"""Repeatedly kills each role of a cache under a verifying load. No acknowledged write may be lost.

Each writer owns a part of the volume. For each 4 KiB block it records which writes the block may hold: the
last acknowledged write, and later writes with unknown outcome. Any other content means that a write was lost,
or that another writer's write went to the wrong place.
"""

from __future__ import annotations

import os
import random
import struct
import threading
import time

import pytest

from .cache_cluster import Cluster, until
from .rawnbd import FLUSH, FUA, READ, WRITE, RawNbd

BLOCK = 4096
AREA_BLOCKS = 1024  # 4 MiB
WRITERS = 6
ROUNDS = int(os.environ.get("WSS_CACHE_ROUNDS", "110" if os.environ.get("WSS_THOROUGH") else "10"))
STAMP = struct.Struct("<IIQ")


def block_of(writer: int, block: int, sequence: int) -> bytes:
    return STAMP.pack(writer, block, sequence) * (BLOCK // STAMP.size) if sequence else bytes(BLOCK)


class Writer(threading.Thread):
    def __init__(self, number: int, connect, seed: int):
        super().__init__(daemon=True)
        self.number = number
        self.connect = connect
        self.chance = random.Random(seed)
        self.possible = [{0} for _ in range(AREA_BLOCKS)]
        self.sequence = 0
        self.client = None
        self.stopping = threading.Event()
        self.verify_wanted = threading.Event()
        self.verified = threading.Event()
        self.failure: str | None = None
        self.acknowledged = 0

    def run(self):
        try:
            while not self.stopping.is_set():
                if self.verify_wanted.is_set():
                    if all([self.read(at, 64) for at in range(0, AREA_BLOCKS, 64)]):
                        self.verify_wanted.clear()
                        self.verified.set()
                    continue
                kind = self.chance.random()
                count = self.chance.choice([1, 1, 2, 4, 16, 32])
                at = self.chance.randrange(AREA_BLOCKS - count)
                if kind < 0.6:
                    self.write(at, count, FUA if kind < 0.03 else 0)
                elif kind < 0.97:
                    self.read(at, count)
                else:
                    self.command(FLUSH, 0, 0)
        except AssertionError as failure:
            self.failure = str(failure)
        except Exception as failure:  # otherwise a thread's exception would be lost
            self.failure = repr(failure)

    def command(self, kind, block, count, data=b"", flags=0):
        """Returns the data, or None if the command has failed or its outcome is unknown."""
        try:
            if self.client is None:
                self.client = self.connect()
            offset = 0 if kind == FLUSH else (self.number * AREA_BLOCKS + block) * BLOCK
            error, got = self.client.command(kind, offset, count * BLOCK, data, flags)
            return None if error else got
        except (OSError, AssertionError):
            # The client's process was killed. Its commands in flight may or may not take effect.
            self.client = None
            time.sleep(0.05)
            return None

    def write(self, at, count, flags):
        self.sequence += 1
        data = b"".join(block_of(self.number, block, self.sequence) for block in range(at, at + count))
        for block in range(at, at + count):
            self.possible[block].add(self.sequence)
        if self.command(WRITE, at, count, data, flags) is None:
            return
        self.acknowledged += 1
        for block in range(at, at + count):
            self.possible[block] = {self.sequence}

    def read(self, at, count) -> bool:
        got = self.command(READ, at, count)
        if got is None:
            return False
        for block in range(at, at + count):
            part = got[(block - at) * BLOCK:(block - at + 1) * BLOCK]
            if not any(part == block_of(self.number, block, sequence) for sequence in self.possible[block]):
                raise AssertionError(f"writer {self.number} block {block}: holds {STAMP.unpack(part[:STAMP.size])}, may hold sequences "
                                     f"{sorted(self.possible[block])}, latest is {self.sequence}; read as block {block - at} of {count}, "
                                     f"at {time.strftime('%T')}; read again: {self.again(block)}")
        return True

    def again(self, block):
        """Reads a block again, to distinguish a wrong read from a lost write."""
        time.sleep(0.5)
        got = self.command(READ, block, 1)
        return "an error" if got is None else STAMP.unpack(got[:STAMP.size])


class Load:
    """Writers that use one nbdkit, which can be killed and restarted like the other processes."""

    def __init__(self, cluster, nbd, seed):
        self.cluster = cluster
        self.nbd = nbd
        self.server = nbd(cluster.target, "disk", request_timeout=60, reconnect_timeout=40)
        self.writers = [Writer(number, lambda: RawNbd(self.server.socket), seed * 100 + number) for number in range(WRITERS)]
        for writer in self.writers:
            writer.start()

    def kill_client(self):
        self.server.process.kill()
        self.server.process.wait(10)

    def start_client(self):
        self.server = self.nbd(self.cluster.target, "disk", request_timeout=60, reconnect_timeout=40)

    def check(self):
        failures = [writer.failure for writer in self.writers if writer.failure]
        assert not failures, "\n".join(failures)

    def verify(self):
        for writer in self.writers:
            writer.verified.clear()
            writer.verify_wanted.set()
        for writer in self.writers:
            until(lambda w=writer: w.verified.is_set() or w.failure, 60, f"writer {writer.number} has verified its part")
        self.check()

    def stop(self):
        for writer in self.writers:
            writer.stopping.set()
        for writer in self.writers:
            writer.join(90)
            # Disconnect, because nbdkit waits for its clients when it stops.
            if writer.client is not None:
                writer.client.socket.close()
        # The target must still be running, because nbdkit exits only after its commands have completed.
        self.server.stop()


def one_round(cluster: Cluster, load: Load, chance: random.Random) -> str:
    """Kills and restarts one role, or the target and an engine together."""
    role = chance.choice(["engine", "engine", "target", "client", "target and engine"])
    engine = chance.choice(cluster.engines)
    time.sleep(chance.uniform(0.02, 0.4))
    if "target" in role:
        cluster.target.kill()
    if "engine" in role:
        engine.kill()
    if role == "client":
        load.kill_client()
    time.sleep(chance.uniform(0, 0.3))
    if "target" in role:
        cluster.target.start()
    if role == "client":
        load.start_client()
    if "engine" in role:
        time.sleep(chance.uniform(0, 0.5))
        engine.start()
    return role


@pytest.mark.parametrize("kind", ["tcp", "shm"])
def test_no_acknowledged_write_is_lost_when_roles_are_killed(kind, tmp_path, nbd):
    seed = int(os.environ.get("WSS_CACHE_SEED", "20261121"))
    chance = random.Random(f"{seed} {kind}")
    with Cluster(kind, tmp_path, engines=2, memory="16M", size="32M") as cluster:
        load = Load(cluster, nbd, seed)
        done = []
        try:
            for number in range(ROUNDS // 2):
                policy = ["write-back", "write-through", "write-back", "write-around"][number % 4]
                cluster.policy(policy)
                done.append(f"{policy}: {one_round(cluster, load, chance)}")
                load.check()
                cluster.wait_for_engines(2, 30)
                load.verify()
        except BaseException:
            print(f"seed {seed}; rounds: {done}")
            raise
        finally:
            load.stop()
        load.check()
        acknowledged = sum(writer.acknowledged for writer in load.writers)
        assert acknowledged > 20 * len(done), f"{acknowledged} writes acknowledged: the load did not run"
