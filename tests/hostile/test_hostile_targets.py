# SPDX-License-Identifier: Apache-2.0
"""Programs whose peer behaves well up to a random point and then sends invalid frames. A relay before real servers plays this
peer. The programs must end or report errors within their time limits, and no sanitizer may report an error.

"damage" forges no answers, so everything that a program accepts must be true. With "forge", only crashes and hangs are failures: a
client trusts its target (Documentation/SECURITY.md).
"""

from __future__ import annotations

import itertools
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.hostile.setup import HOSTILE, ROUNDS_MAX, SEED, Attack, check_log, lacks, share
from tests.native import cache_cluster, kv, programs
from tests.native.cache_cluster import Cluster
from tests.native.kv import Store
from tests.native.ports import free_port
from tests.native.programs import Nbd, Target, run
from tests.native.rawnbd import READ, WRITE, RawNbd

DURATION = share(0.1)
BLOCK, BLOCKS = 4096, 64
REQUEST_SECONDS = 5
# A request lasts at most REQUEST_SECONDS and a login a few seconds. The rest is for a busy machine.
LIMIT = 60
LEAST = {"damaged": 10, "closed_by_client": 4}
OPTIONS = {"connect-timeout": 2, "request-timeout": REQUEST_SECONDS, "reconnect-timeout": 2}


@pytest.fixture(autouse=True)
def attacked_programs(monkeypatch):
    monkeypatch.setattr(programs, "PLUGIN", HOSTILE / "nbdkit-wss-plugin.so")
    monkeypatch.setattr(cache_cluster, "ENGINE", HOSTILE / "wss-cache")
    monkeypatch.setattr(kv, "TARGET", HOSTILE / "wss-target")
    monkeypatch.setattr(kv, "KVCTL", HOSTILE / "kvctl")


class Ledger:
    """What each block or key may contain: the last acknowledged write, and failed writes since then. Reads are compared with it
    if `checks` is true."""

    def __init__(self, checks: bool) -> None:
        self.checks = checks
        self.may: dict[object, list[bytes]] = {}
        self.succeeded = self.failed = 0

    def wrote(self, where: object, data: bytes, succeeded: bool) -> None:
        self.count(succeeded)
        if succeeded:
            self.may[where] = [data]
        elif where in self.may:
            self.may[where].append(data)

    def read(self, where: object, data: bytes | None) -> None:
        """`data` is None if the read failed."""
        self.count(data is not None)
        if self.checks and data is not None and where in self.may:
            assert data in self.may[where], f"wrong data of {where}: {data[:32]!r}, not one of {[each[:32] for each in self.may[where]]}"

    def count(self, succeeded: bool) -> None:
        self.succeeded += succeeded
        self.failed += not succeeded


def relay_address() -> str:
    return f"tcp://127.0.0.1:{free_port()}"


def attacked(attack: str, to: str, at: str, ledger: Ledger, use: Callable[[float], None]) -> Counter:
    """Calls use(until) while a relay attacks, again and again until the attack has had an effect. Returns the relay's counts."""
    done: Counter = Counter()
    for number in range(ROUNDS_MAX):
        with Attack(attack, to, 10 * LIMIT, at, seed=SEED + number) as hostile:
            use(time.monotonic() + DURATION)
            done += hostile.end()
        if not lacks(done, LEAST) and ledger.succeeded > 3:
            print(f"{ledger.succeeded} operations succeeded, {ledger.failed} failed")
            return done
    raise AssertionError(f"the attack was too weak to be a test: {done}, {ledger.succeeded} operations succeeded, {ledger.failed} failed")


def load(disk: RawNbd, ledger: Ledger, until: float, chance: random.Random) -> None:
    """Writes and reads random blocks. Fails if a request gets no answer in time."""
    blocks = min(BLOCKS, disk.size // BLOCK)
    for number in itertools.count():
        if blocks == 0 or number > 4 and time.monotonic() > until:
            return
        block = chance.randrange(blocks)
        if chance.random() < 0.5:
            data = chance.randbytes(BLOCK)
            ledger.wrote(block, data, disk.command(WRITE, block * BLOCK, BLOCK, data)[0] == 0)
        else:
            error, data = disk.command(READ, block * BLOCK, BLOCK)
            ledger.read(block, None if error else data)


def opened(server: Nbd) -> RawNbd | None:
    """nbdkit closes a connection if it cannot open the volume, and exits if the first login fails."""
    try:
        return RawNbd(server.socket, timeout=LIMIT)
    except (AssertionError, ConnectionError, FileNotFoundError):
        return None


def use_disk(address: str, folder: Path, until: float, ledger: Ledger, **more: object) -> None:
    """Starts nbdkit again and again until the time is over, and does I/O while it works."""
    chance = random.Random(f"{SEED} {ledger.succeeded} {ledger.failed}")
    while time.monotonic() < until:
        server = Nbd(address, "disk", folder / f"nbd-{time.monotonic_ns()}", {**OPTIONS, **more})
        try:
            server.start()
        except AssertionError:
            ledger.count(False)
            assert server.process.returncode == 1 and server.log.read_text(), (server.process.returncode, server.log.read_text())
            continue
        finally:
            check_log(server.log)
        if disk := opened(server):
            with disk:
                load(disk, ledger, min(until, time.monotonic() + 1), chance)
        else:
            ledger.count(False)
            assert server.log.read_text(), "nbdkit failed without a message"
        server.stop()
        assert server.process.returncode in (0, 1), f"nbdkit exited with {server.process.returncode}\n{server.log.read_text()}"
        check_log(server.log)


def check_disk(address: str, folder: Path, more: dict, ledger: Ledger) -> None:
    """Reads the blocks from the target, without a relay."""
    server = Nbd(address, "disk", folder / "direct", dict(more)).start()
    try:
        with RawNbd(server.socket) as disk:
            for block in ledger.may:
                error, data = disk.command(READ, block * BLOCK, BLOCK)
                assert error == 0
                ledger.read(block, data)
    finally:
        server.stop()


def discover(address: str, until: float, ledger: Ledger, *words: object) -> None:
    """Runs `wssctl discover` again and again until the time is over. Failures must be reported."""
    command = [str(word) for word in (HOSTILE / "wssctl", "--timeout", REQUEST_SECONDS, "discover", *words, address)]
    while time.monotonic() < until:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
        check_command(done, {1, 3})
        ledger.count(done.returncode == 0)


def check_command(done: subprocess.CompletedProcess, failures: set[int]) -> None:
    said = f"{' '.join(done.args)[:300]}: exit {done.returncode}\n{done.stdout[:500]}\n{done.stderr[-8000:]}"
    assert done.returncode in failures | {0} and "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, said
    assert done.returncode == 0 or done.stderr.strip(), said


@pytest.mark.parametrize("attack", ["damage", "forge"])
def test_initiators_of_a_hostile_target_report_errors_and_no_wrong_data(tmp_path: Path, attack: str) -> None:
    secrets = tmp_path / "secrets"
    secrets.touch(mode=0o600)
    secrets.write_text(run(HOSTILE / "wssctl", "secret", "alice").stdout)
    # With secrets, the stream also contains challenges.
    auth = attack == "forge"
    more, words = ({"secret-file": secrets}, ["--secret-file", secrets]) if auth else ({}, [])
    relay, ledger, discovered = relay_address(), Ledger(checks=attack == "damage"), Ledger(checks=False)

    def use(until: float) -> None:
        with ThreadPoolExecutor() as pool:
            discovery = pool.submit(discover, relay, until, discovered, *words)
            use_disk(relay, tmp_path, until, ledger, **more)
            discovery.result()

    with Target("tcp://127.0.0.1:0", {"disk": "ram:16M"}, tmp_path, *(["--secrets", str(secrets)] if auth else [])) as target:
        attacked(attack, target.address, relay, ledger, use)
        check_disk(target.address, tmp_path, more, ledger)
    check_log(target.log)
    print(f"discovery: {discovered.succeeded} succeeded, {discovered.failed} failed")
    assert discovered.succeeded > 0 and discovered.failed > 0


def test_initiators_of_a_hostile_cache_engine_read_no_wrong_data(tmp_path: Path) -> None:
    relay, ledger = relay_address(), Ledger(checks=True)
    with Cluster("tcp", tmp_path, engines=0) as cluster:
        engine = cluster.add_engine("engine", start=False)
        engine.command += ["--advertise", relay]
        engine.start()
        cluster.wait_for_engines(1)
        attacked("damage", engine.command[engine.command.index("--listen") + 1], relay, ledger,
                 lambda until: use_disk(cluster.target.address, tmp_path, until, ledger))
        assert engine.process.poll() is None, cluster.logs()
        check_disk(cluster.target.address, tmp_path, {}, ledger)
        logs = [cluster.target.log, engine.log]
    check_log(*logs)


MODES = [[], ["--transport", "ring"], ["--one-sided", "on"]]


def use_keys(relay: str, until: float, ledger: Ledger) -> None:
    """Writes and reads keys with one kvctl each. Fails if one does not end in time."""
    chance = random.Random(f"{SEED} {ledger.succeeded} {ledger.failed}")
    while time.monotonic() < until:
        key, value = f"key{chance.randrange(8)}", chance.randbytes(200).hex()
        kvctl = [str(HOSTILE / "kvctl"), "--target", relay, "--timeout", "5", "--raw", *chance.choice(MODES)]
        write = chance.random() < 0.5
        words = ["put", key, value] if write else chance.choice((["get", key], ["get", key], ["scan"], ["info"]))
        done = subprocess.run(kvctl + words, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
        check_command(done, {1, 3, 4})
        succeeded = done.returncode == 0
        if words[0] in ("scan", "info"):
            ledger.count(succeeded)
        elif write:
            ledger.wrote(key, value.encode(), succeeded)
        else:
            assert not (ledger.checks and done.returncode == 4 and key in ledger.may), f"{key} has disappeared"
            ledger.read(key, done.stdout.strip().encode() if succeeded else None)


@pytest.mark.parametrize("attack", ["damage", "forge"])
def test_clients_of_a_hostile_partition_report_errors_and_no_wrong_values(tmp_path: Path, attack: str) -> None:
    relay, ledger = relay_address(), Ledger(checks=attack == "damage")
    with Store("tcp", 1, tmp_path) as store:
        attacked(attack, store.target, relay, ledger, lambda until: use_keys(relay, until, ledger))
        for key in ledger.may if ledger.checks else ():
            ledger.read(key, store.kvctl("--raw", "get", key).strip().encode())
        logs = [partition.log for partition in store.partitions]
    check_log(*logs)
