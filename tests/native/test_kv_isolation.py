# SPDX-License-Identifier: Apache-2.0
"""Tests isolation over real fabrics and with real faults. Each read and write is checked during the run.

The default runs are short enough for `make check`. With WSS_THOROUGH=1 each mode performs 10^7 operations
(1.25 million transactions of 8 keys).
"""

import json
import os
import signal
import subprocess
import time

import pytest

from .kv import Store, wait_until

THOROUGH = bool(os.environ.get("WSS_THOROUGH"))
TRANSACTIONS = int(os.environ.get("WSS_KV_TRANSACTIONS", 1_250_000 if THOROUGH else 2_000))
KEYS = 8
# A load with contention: 1000 keys in a Zipfian distribution. Half of the transactions write.
CONTENDED = {"threadcount": 4, "recordcount": 1000, "txnlen": KEYS, "readproportion": 0.5, "updateproportion": 0.5, "fieldcount": 1,
             "fieldlength": 200, "requestdistribution": "zipfian"}  # fmt: skip
READ_ONLY = {**CONTENDED, "readproportion": 1, "updateproportion": 0}
MODES = {
    "ramp-fast": ["--algorithm", "ramp-fast"],
    "ramp-small": ["--algorithm", "ramp-small"],
    "ramp-hybrid": ["--algorithm", "ramp-hybrid"],
    "2pl-sequential": ["--algorithm", "2pl-sequential"],
    "2pl-parallel": ["--algorithm", "2pl-parallel"],
    "ring": ["--transport", "ring"],
    "one-sided": ["--one-sided", "on"],
    "one-sided-paper": ["--one-sided", "paper"],
    "one-sided-ring": ["--one-sided", "on", "--transport", "ring"],
}


def assert_held(result: dict) -> None:
    assert result["CHECK"]["Violations"] == 0 and result["CHECK"]["FracturedReads"] == 0
    assert result["CHECK"]["Reads"] > 0


def prepared(store: Store) -> int:
    return sum(one["ramp"]["prepared"] for one in store.info())


@pytest.fixture(scope="module", params=["tcp", "shm"])
def store(request, tmp_path_factory):
    with Store(request.param, 4, tmp_path_factory.mktemp("kv"), ["--kv-terminate-ms", "300"]) as running:
        yield running


@pytest.mark.parametrize("mode", MODES)
def test_contended_transactions_are_read_atomic(store, mode):
    result = store.bench({**CONTENDED, "operationcount": TRANSACTIONS}, "--verify", modes=MODES[mode], timeout=7200 if THOROUGH else 300)
    assert_held(result)
    assert result["operations"] == TRANSACTIONS and result["failed"] == 0


@pytest.mark.parametrize("mode", ["ramp-fast", "ramp-small", "ramp-hybrid", "one-sided"])
def test_transactions_of_dead_clients_are_terminated_and_read_in_full_or_not_at_all(store, mode):
    """A client that dies may have sent any subset of its prepares and commits."""
    result = store.bench({**CONTENDED, "operationcount": 1500}, "--verify", "--fault-every", "7", modes=MODES[mode])
    assert_held(result)
    assert result["KV"]["HalfDoneWrites"] > 50
    wait_until(lambda: prepared(store) == 0, 30, "the transactions of dead clients have been terminated")
    assert_held(store.bench({**READ_ONLY, "operationcount": 500}, "--verify", "--phase", "run", modes=MODES[mode]))
    assert sum(one["ramp"]["terminated_commit"] + one["ramp"]["terminated_abort"] for one in store.info()) > 0


def test_killed_client_leaves_no_partial_transaction(store):
    store.bench({**CONTENDED, "operationcount": 1}, "--verify")  # every record must exist before the first
                                                                 # kill
    for _ in range(3):
        client = store.start_bench({**CONTENDED, "operationcount": 0, "maxexecutiontime": 60, "readproportion": 0, "updateproportion": 1},
                                   "--phase", "run", "--verify")  # fmt: skip
        wait_until(lambda: sum(one["ramp"]["prepared"] for one in store.info()) > 0, 60, "a transaction is in flight")
        client.send_signal(signal.SIGKILL)
        client.communicate()
    wait_until(lambda: prepared(store) == 0, 30, "the transactions of dead clients have been terminated")
    for mode in ("ramp-fast", "one-sided"):
        result = store.bench({**READ_ONLY, "operationcount": 500}, "--verify", "--phase", "run", modes=MODES[mode])
        assert_held(result)


def test_conditional_puts_have_one_winner(store):
    result = store.bench({**CONTENDED, "recordcount": 20, "operationcount": 2000}, "--verify", "--conditional-share", "0.7")
    assert_held(result)
    assert result["KV"]["ConditionsWon"] > 100 and result["KV"]["ConditionsLost"] > 0


@pytest.mark.parametrize("mode", ["ramp-fast", "one-sided"])
def test_transactions_with_deletes_are_read_atomic(store, mode):
    assert_held(store.bench({**CONTENDED, "operationcount": 1500}, "--verify", "--delete-share", "0.2", modes=MODES[mode]))


@pytest.mark.parametrize("scheme", ["tcp", "shm"])
def test_clients_with_skewed_clocks_lose_no_write(scheme, tmp_path):
    """Two clients whose clocks are 20 s apart use the same keys. Each reads all its own writes."""
    with Store(scheme, 3, tmp_path) as store:
        store.bench({**CONTENDED, "operationcount": 1}, "--verify")

        def skewed(seconds: str) -> subprocess.Popen:
            command = store.command("--json", "bench", *(w for n, v in {**CONTENDED, "operationcount": 1500}.items() for w in ("-p", f"{n}={v}")),
                                    "--phase", "run", "--verify")  # fmt: skip
            return subprocess.Popen(["faketime", "-f", seconds, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    env={**os.environ, "DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"})

        clients = [skewed("+10s"), skewed("-10s")]
        for client in clients:
            out, err = client.communicate(timeout=200)
            assert client.returncode == 0, err.decode()[-2000:]
            assert_held(json.loads(out.splitlines()[-1]))
        ahead = max(one["traffic"]["clock_ahead_max_us"] for one in store.info())
        assert ahead > 5_000_000, "the clocks were not skewed"


@pytest.mark.parametrize("scheme", ["tcp", "shm"])
def test_restarted_server_loses_no_acknowledged_write(scheme, tmp_path):
    options = ["--kv-durability", "sync", "--kv-directory", f"{tmp_path}/log-{{index}}", "--kv-terminate-ms", "300"]
    with Store(scheme, 3, tmp_path, options) as store:
        store.bench({**CONTENDED, "operationcount": 1}, "--verify")
        client = store.start_bench({**CONTENDED, "operationcount": 0, "maxexecutiontime": 8, "status.interval": 1}, "--phase", "run", "--verify",
                                   modes=["--timeout", "20"])  # fmt: skip
        for victim in (0, 2):
            before = store.info()[1]["traffic"]["prepares"]
            wait_until(lambda: store.info()[1]["traffic"]["prepares"] > before + 10, 60, "partition 1 has prepared more transactions")
            store.partitions[victim].kill()
            store.partitions[victim].start()
        out, err = client.communicate(timeout=120)
        assert client.returncode == 0, err.decode()[-3000:] + store.logs()
        assert_held(json.loads(out.splitlines()[-1]))
        # Kill all partitions together. Every acknowledged write must be recovered from the logs.
        for partition in store.partitions:
            partition.kill()
        for partition in store.partitions:
            partition.begin()
        for partition in store.partitions:
            partition.wait_ready()
        result = store.bench({**READ_ONLY, "operationcount": 500}, "--phase", "run", "--verify")
        assert_held(result)
        assert result["failed"] == 0


@pytest.mark.parametrize("scheme", ["tcp", "shm"])
def test_partition_with_full_memory_refuses_writes_and_serves_reads(scheme, tmp_path):
    with Store(scheme, 2, tmp_path, ["--kv-memory", "8M"]) as store:
        large = {**CONTENDED, "fieldlength": 20000, "recordcount": 200}
        result = store.bench({**large, "operationcount": 1500}, "--verify", timeout=120)
        assert result["CHECK"]["Violations"] == 0
        assert result["failed"] > 0 and sum(one["memory"]["refused_memory"] for one in store.info()) > 0
        reads = store.bench({**large, "readproportion": 1, "updateproportion": 0, "operationcount": 200}, "--verify", "--phase", "run")
        assert_held(reads)


def test_client_detects_stale_addresses_after_a_restart(tmp_path):
    """A server restarts at the same address with empty memory. Clients must not accept the data that is now
    at the addresses they have cached."""
    with Store("shm", 2, tmp_path) as store:
        store.bench({**CONTENDED, "operationcount": 1}, "--verify")
        client = store.start_bench({**CONTENDED, "operationcount": 0, "maxexecutiontime": 5}, "--phase", "run", modes=["--one-sided", "on"])
        time.sleep(1.5)  # the client caches addresses and uses them
        store.partitions[0].kill()
        store.partitions[0].start()
        out, _ = client.communicate(timeout=60)
        assert client.returncode in (0, 1)
        assert json.loads(out.splitlines()[-1])["KV"]["Reconnects"] > 0
        # Reads must return only data that complete transactions have written since the restart.
        result = store.bench({**CONTENDED, "operationcount": 1000}, "--verify", modes=["--one-sided", "on"])
        assert_held(result)
