# SPDX-License-Identifier: Apache-2.0
"""The key-value part of the demonstration: kvctl runs transactions on three targets, over rdma in the virtual
machine and over shm on this machine."""

from __future__ import annotations

import json
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Protocol

if TYPE_CHECKING:
    from tests.demo.steps import Demo

KV_PORT = 5601
PARTITIONS = 3
LIMIT = 120
LOAD = {"recordcount": 300, "txnlen": 8, "fieldcount": 1, "fieldlength": 200, "threadcount": 2, "requestdistribution": "zipfian"}


class Where(Protocol):
    """A place with three running targets and a kvctl that reaches them."""

    def kvctl(self, *words: str) -> str: ...
    def start_kvctl(self, *words: str) -> Callable[[], None]:
        """Starts kvctl and returns a function that kills it."""


def bench_words(**more: object) -> list[str]:
    return [word for name, value in {**LOAD, **more}.items() for word in ("-p", f"{name}={value}")]


def info(where: Where, section: str, name: str) -> int:
    return sum(one[section][name] for one in json.loads(where.kvctl("--json", "info")))


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: timed out after {LIMIT} s")


KEYS = ["follows:ada:bob", "followers:bob:ada", "followers-count:bob", "user:ada", "user:bob", "city:turin:ada"]


def transactions(where: Where) -> str:
    written = json.loads(where.kvctl("--json", "put-all", *(f"{key}=1" for key in KEYS)))
    read = json.loads(where.kvctl("--json", "get-all", *KEYS))
    if [item["value"] for item in read["items"]] != ["1"] * len(KEYS) or {item["timestamp"] for item in read["items"]} != {written["timestamp"]}:
        raise RuntimeError(f"not what was written: {read}")
    explained = [json.loads(line) for line in where.kvctl("--json", "--one-sided", "on", "explain", "get", *KEYS, "--repeat", "2").splitlines()][-1]
    paths, partitions = ({item[name] for item in explained["items"]} for name in ("path", "partition"))
    if paths != {"one-sided"} or len(partitions) < 2:
        raise RuntimeError(f"read by {paths} from partitions {partitions}, wanted one-sided from several")
    return f"{len(KEYS)} keys on {len(partitions)} partitions written and read in one transaction; the second read without the targets' CPU"


def verified(where: Where, operations: int) -> str:
    told = []
    for name, modes in (("messages", []), ("rings", ["--transport", "ring"]), ("one-sided", ["--one-sided", "on"])):
        words = bench_words(operationcount=operations, readproportion=0.5, updateproportion=0.5)
        result = json.loads(where.kvctl("--json", *modes, "bench", *words, "--verify").splitlines()[-1])
        check = result["CHECK"]
        if check["Violations"] or not check["Reads"] or result["failed"]:
            raise RuntimeError(f"{name}: {check}, {result['failed']} failed")
        told.append(f"{name} {result['operations']}")
    return f"contended transactions of 8 keys, each read and write checked: {', '.join(told)}; no violation"


def killed_client(where: Where) -> str:
    before = info(where, "ramp", "terminated_commit") + info(where, "ramp", "terminated_abort")
    kills = 0
    while info(where, "ramp", "terminated_commit") + info(where, "ramp", "terminated_abort") == before:
        kills += 1
        if kills > 20:
            raise RuntimeError("20 clients were killed, and none between prepare and commit")
        kill = where.start_kvctl("bench", *bench_words(operationcount=0, maxexecutiontime=60, readproportion=0, updateproportion=1), "--verify")
        wait_for(lambda: info(where, "ramp", "prepared") > 0, "a transaction in flight")
        kill()
        wait_for(lambda: info(where, "ramp", "prepared") == 0, "termination")
    result = json.loads(where.kvctl("--json", "bench", *bench_words(operationcount=100, readproportion=1, updateproportion=0), "--phase", "run",
                                    "--verify").splitlines()[-1])  # fmt: skip
    if result["CHECK"]["Violations"]:
        raise RuntimeError(f"a dead client's transaction is seen in part: {result['CHECK']}")
    return f"{kills} writing clients killed; the partitions decided their prepared transactions, and readers see each of them completely or not at all"


class InMachine:
    """Three targets in the demonstration's machine, over rdma."""

    def __init__(self, demo: Demo) -> None:
        self.demo = demo
        self.addresses = ",".join(f"rdma://{demo.guest.address}:{KV_PORT + i}" for i in range(PARTITIONS))
        self.targets = []

    def start(self) -> str:
        for index, address in enumerate(self.addresses.split(",")):
            self.targets.append(self.demo.guest.start(
                f"exec {self.demo.build}/wss-target --role kv --listen {address} --kv-map {self.addresses} --kv-partition {index} "
                f"--kv-memory 64M --kv-terminate-ms 300 --control ''"))  # fmt: skip
        for target in self.targets:
            target.wait_for(r"ready", 60)
        return self.addresses

    def stop(self) -> str:
        for target in self.targets:
            result = target.stop(30)
            if result.status != 0:
                raise RuntimeError(f"a target ended with status {result.status}: {result.stderr}")
        return "ended by SIGTERM, status 0"

    def command(self, words: tuple[str, ...]) -> str:
        return f"{self.demo.build}/kvctl --target {self.addresses} --timeout 30 {shlex.join(words)}"

    def kvctl(self, *words: str) -> str:
        return self.demo.guest.run(self.command(words), 300).stdout

    def start_kvctl(self, *words: str) -> Callable[[], None]:
        process = self.demo.guest.start("exec " + self.command(words))
        return lambda: process.kill() and None


def steps(operations: int) -> list[tuple[str, Callable[[Demo], str]]]:
    """Returns the steps that run in the machine. They share one InMachine."""
    place: list[InMachine] = []

    def start(demo: Demo) -> str:
        place.append(InMachine(demo))
        return place[0].start()

    return [
        ("start three key-value targets", start),
        ("transactions by kvctl over rdma", lambda demo: transactions(place[0])),
        ("a verified load over rdma", lambda demo: verified(place[0], operations)),
        ("kill a writing client", lambda demo: killed_client(place[0])),
        ("stop the key-value targets", lambda demo: place[0].stop()),
    ]


class Natively:
    """Three targets on this machine, over shm."""

    def __init__(self, store) -> None:
        self.store = store

    def kvctl(self, *words: str) -> str:
        return self.store.kvctl(*words, timeout=300)

    def start_kvctl(self, *words: str) -> Callable[[], None]:
        process = subprocess.Popen(self.store.command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

        def kill() -> None:
            process.kill()
            process.wait()

        return kill


def natively() -> str:
    """Repeats all steps over shared memory, which needs no RDMA device."""
    from tests.native.kv import Store

    with tempfile.TemporaryDirectory(prefix="wss-demo-kv-") as directory, Store("shm", PARTITIONS, Path(directory), ["--kv-terminate-ms", "300"]) as store:
        where = Natively(store)
        return "; ".join((transactions(where), verified(where, 3000), killed_client(where)))
