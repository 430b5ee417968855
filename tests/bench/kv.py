# SPDX-License-Identifier: Apache-2.0
"""`make bench-kv`: compares the key-value store with Redis, and its modes with each other, in one run on this machine.

Only the ratios are meaningful. All systems run on the same two cores, one after the other and repeatedly, and medians are compared.
The workload is the paper's: 1 KB values, 1000 keys, uniform, 8 keys in a transaction. The partitions of a store are in one process,
as the store and the client use both cores. Every client has four connections to each server, with one transaction at a time on
each, driven by one thread or two. Both sides of a comparison use the same number of threads. Redis serves MGET and MSET of 8 keys,
without pipelining, to redis-benchmark, its own load generator, which works the same way. Its result is the better of those with one
thread and with two.

Writes build/bench/kv.json, a list of {workload, peer, ours, theirs, ratio, wanted}, and kv-server.json, the instructions of the
server during one-sided reads.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
CONNECTIONS = 4
ONE, TWO = 1, 2  # client threads, which share the connections
KEYS = 8
RECORDS = 1000
VALUE = 1000


def say(text: str) -> None:
    print(f"bench-kv: {text}", file=sys.stderr, flush=True)


def properties(read_share: float, seconds: int, threads: int = ONE, **more: object) -> dict[str, object]:
    return {"recordcount": RECORDS, "fieldcount": 1, "fieldlength": VALUE, "txnlen": KEYS, "requestdistribution": "uniform", "readproportion": read_share,
            "updateproportion": 1 - read_share, "threadcount": threads, "connectionsperthread": CONNECTIONS // threads, "operationcount": 0,
            "maxexecutiontime": seconds, "warmup": 1, **more}  # fmt: skip


MODES = {
    "RAMP": ["--algorithm", "ramp-fast"],
    "RAMP GET+/PUT+": ["--transport", "ring"],
    "RAMP one-sided": ["--one-sided", "on"],
    "RAMP one-sided, rings": ["--one-sided", "on", "--transport", "ring"],
    "RAMP one-sided, paper": ["--one-sided", "paper"],
    "2PL sequential": ["--algorithm", "2pl-sequential"],
    "2PL parallel": ["--algorithm", "2pl-parallel"],
}


class Stores:
    """The compared stores. All of them keep running, as an idle store uses no processor time."""

    def __init__(self, directory: Path):
        from tests.native.kv import Store

        def store(name: str, scheme: str, count: int) -> Store:
            (directory / name).mkdir()
            return Store(scheme, count, directory / name, together=True)

        self.stores = {"tcp 4": store("tcp4", "tcp", 4), "shm 4": store("shm4", "shm", 4), "tcp 1": store("tcp1", "tcp", 1)}

    def __enter__(self) -> "Stores":
        for store in self.stores.values():
            store.__enter__()
            store.bench(properties(1, 1), "--phase", "load")
        return self

    def __exit__(self, *reason) -> None:
        for store in self.stores.values():
            store.__exit__(*reason)

    def run(self, where: str, mode: str, read_share: float, seconds: int, threads: int = ONE, **more: object) -> dict:
        return self.stores[where].bench(properties(read_share, seconds, threads, **more), "--phase", "run", modes=MODES[mode], timeout=120)


class Redis:
    """A private redis-server on its own port, without persistence."""

    def __init__(self, directory: Path):
        from tests.native.ports import free_port

        self.port = free_port()
        self.command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(directory),
                        "--daemonize", "no"]  # fmt: skip

    def __enter__(self) -> "Redis":
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while subprocess.run([*self.client(), "ping"], capture_output=True, check=False).stdout != b"PONG\n":
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("redis-server did not start")
            time.sleep(0.05)
        pairs = [word for i in range(RECORDS) for word in (f"key:{i:012}", "x" * VALUE)]
        for first in range(0, len(pairs), 200):
            subprocess.run([*self.client(), "mset", *pairs[first:first + 200]], check=True, capture_output=True)
        return self

    def __exit__(self, *_) -> None:
        self.process.terminate()
        self.process.wait(20)

    def client(self) -> list[str]:
        return ["redis-cli", "-p", str(self.port)]

    def version(self) -> str:
        info = subprocess.run([*self.client(), "info", "server"], capture_output=True, text=True, check=True).stdout
        return re.search(r"redis_version:(\S+)", info).group(1)

    def rate(self, command: list[str], requests: int) -> float:
        """Returns the requests per second over CONNECTIONS connections with one request at a time on each: the higher of the rates
        with one and two threads."""
        return max(self.rate_with(["--threads", str(threads)] if threads > 1 else [], command, requests) for threads in (ONE, TWO))

    def rate_with(self, threads: list[str], command: list[str], requests: int) -> float:
        done = subprocess.run(["redis-benchmark", "-p", str(self.port), "-c", str(CONNECTIONS), "-n", str(requests), "-r", str(RECORDS), *threads, "--csv",
                               *command], capture_output=True, text=True, check=True, timeout=120)  # fmt: skip
        return float(re.findall(r'"([\d.]+)"', done.stdout.splitlines()[-1])[0])

    def mget(self, requests: int) -> float:
        return self.rate(["mget", *["key:__rand_int__"] * KEYS], requests)

    def mset(self, requests: int) -> float:
        return self.rate(["mset", *(word for _ in range(KEYS) for word in ("key:__rand_int__", "x" * VALUE))], requests)


def compare(workload: str, peer: str, ours: list[float], theirs: list[float], wanted: float) -> dict:
    """Compares the medians of values that were measured in turns."""
    a, b = statistics.median(ours), statistics.median(theirs)
    row = {"workload": workload, "peer": peer, "ours": round(a, 1), "theirs": round(b, 1), "ratio": round(a / b, 3), "wanted": wanted}
    say(f"{workload:<52} {a:>9.0f}  {peer:<24} {b:>9.0f}  {row['ratio']:>6.2f} x (wanted {wanted} x)")
    return row


def in_turns(rounds: int, ours, theirs) -> tuple[list[float], list[float]]:
    a, b = [], []
    for _ in range(rounds):
        a.append(ours())
        b.append(theirs())
    return a, b


def transports(stores: Stores, rounds: int, seconds: int) -> list[dict]:
    rows = []
    for workload, mode, where, share, threads, wanted in (("one-sided GET over shm, 100 % reads", "RAMP one-sided", "shm 4", 1.0, TWO, 5.0),
                                                          ("GET+/PUT+ over shm, 95 % reads", "RAMP GET+/PUT+", "shm 4", 0.95, ONE, 2.5)):  # fmt: skip
        measured = in_turns(rounds, lambda: stores.run(where, mode, share, seconds, threads)["throughput"],
                            lambda: stores.run("tcp 4", "RAMP", share, seconds, threads)["throughput"])
        rows.append(compare(workload, "RAMP over tcp", *measured, wanted))
    return rows


def against_redis(stores: Stores, redis: Redis, rounds: int, seconds: int, requests: int) -> list[dict]:
    peer = f"Redis {redis.version()}"
    rows = []
    for workload, share, theirs in (("RAMP over tcp, one partition, 8-key reads", 1.0, redis.mget), ("RAMP over tcp, one partition, 8-key writes", 0.0, redis.mset)):
        measured = in_turns(rounds, lambda: stores.run("tcp 1", "RAMP", share, seconds)["throughput"], lambda: theirs(requests))
        rows.append(compare(workload, f"{peer} {'MGET' if share else 'MSET'}", *measured, 1.0))
    measured = in_turns(rounds, lambda: stores.run("shm 4", "RAMP one-sided", 1.0, seconds, TWO)["throughput"], lambda: redis.mget(requests))
    rows.append(compare("one-sided GET over shm, four partitions", f"{peer} MGET", *measured, 8.0))
    return rows


def against_locking(stores: Stores, rounds: int, seconds: int) -> list[dict]:
    rows = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        for peer in ("2PL sequential", "2PL parallel"):
            measured = in_turns(rounds, lambda: stores.run("tcp 4", "RAMP", share, seconds)["throughput"],
                                lambda: stores.run("tcp 4", peer, share, seconds)["throughput"])
            rows.append(compare(f"RAMP over tcp, {share:.0%} reads", f"{peer} over tcp", *measured, 1.0))
    return rows


def fallbacks(stores: Stores, seconds: int) -> list[dict]:
    """Returns the share of one-sided reads that fell back to the server, with 50 % writes and a Zipfian distribution."""
    shares = {mode: stores.run("shm 4", mode, 0.5, seconds, requestdistribution="zipfian")["KV"]["FallbackShare(%)"]
              for mode in ("RAMP one-sided", "RAMP one-sided, paper")}  # fmt: skip
    ours, paper = shares["RAMP one-sided"], shares["RAMP one-sided, paper"]
    say(f"reads that fall back, with 50 % Zipfian writes: ours {ours:.3f} %, with the paper's invalid bit {paper:.3f} %")
    return [{"workload": "fall-backs in percent, 50 % zipfian writes", "peer": "invalid bit (paper)", "ours": round(ours, 4), "theirs": round(paper, 4),
             "ratio": round(ours / paper, 4) if paper else None, "wanted": "ours below 1"}]  # fmt: skip


# ---- Instructions of the server during one-sided reads


def life_of_a_server(directory: Path, transactions: int, idle_seconds: float) -> dict:
    """Runs a server under callgrind: start, load, idle time, one-sided reads, stop. Returns its instructions from start to
    stop."""
    from tests.native.kv import Store

    directory.mkdir()
    wrapper = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/callgrind", "--quiet"]
    with Store("shm", 1, directory, wrapper=wrapper) as store:
        load = {**properties(1, 600), "warmup": 0, "connectionsperthread": 1}
        store.bench(load, "--phase", "load", timeout=200)
        time.sleep(idle_seconds)  # the instructions of an idle server are the reference
        started = time.monotonic()
        result = store.bench({**load, "operationcount": transactions}, "--phase", "run", modes=["--one-sided", "on"], timeout=700)
        seconds = time.monotonic() - started
    total = int(re.search(r"^(?:summary|totals): (\d+)", (directory / "callgrind").read_text(), re.M).group(1))
    say(f"server under callgrind: {total:,} instructions in total, {result['KV']['OneSidedReads']:,} one-sided reads, "
        f"{result['KV']['ReadsByMessage']:,} by message, {seconds:.1f} s of reads, {idle_seconds:.1f} s idle")
    return {"instructions": total, "seconds": seconds, "one_sided_reads": result["KV"]["OneSidedReads"], "reads_by_message": result["KV"]["ReadsByMessage"]}


def server_instructions(directory: Path, transactions: int) -> dict:
    """Compares many reads with few reads and as much additional idle time."""
    many = life_of_a_server(directory / "many", transactions, 0)
    few = life_of_a_server(directory / "few", transactions // 100, 0)
    idle = life_of_a_server(directory / "idle", transactions // 100, many["seconds"] - few["seconds"])
    reads = many["one_sided_reads"] - idle["one_sided_reads"]
    more = many["instructions"] - idle["instructions"]
    return {"many": many, "few": few, "idle": idle, "instructions_per_one_sided_read": more / reads}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--seconds", type=int, default=3, help="length of each measurement")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side is measured, in turns")
    parser.add_argument("--requests", type=int, default=50_000, help="requests of each redis-benchmark run")
    parser.add_argument("--reads", type=int, default=1_000_000, help="one-sided reads while the server's instructions are counted")
    parser.add_argument("--only", choices=["transports", "redis", "locking", "fallbacks", "server"], action="append")
    parser.add_argument("--out", type=Path, default=Path("build/bench/kv.json"))
    options = parser.parse_args()
    os.environ["WSS_BUILD"] = str(options.build.resolve())
    chosen = set(options.only or ["transports", "redis", "locking", "fallbacks", "server"])
    rows: list[dict] = []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wss-bench-kv-") as name:
        directory = Path(name)
        with Stores(directory) as stores, Redis(directory) as redis:
            if "transports" in chosen:
                rows += transports(stores, options.rounds, options.seconds)
            if "redis" in chosen:
                rows += against_redis(stores, redis, options.rounds, options.seconds, options.requests)
            if "fallbacks" in chosen:
                rows += fallbacks(stores, options.seconds)
            if "locking" in chosen:
                rows += against_locking(stores, max(1, options.rounds // 3), options.seconds)
        options.out.write_text(json.dumps(rows, indent=1) + "\n")
        if "server" in chosen:
            server = server_instructions(directory, options.reads // KEYS)
            say(f"instructions of the server per one-sided read, beyond those of an idle server: {server['instructions_per_one_sided_read']:.3f}")
            (options.out.parent / "kv-server.json").write_text(json.dumps(server, indent=1) + "\n")
    print(f"written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
