# SPDX-License-Identifier: Apache-2.0
"""Tests every mode of the key-value store over soft RDMA. Two clients perform 10^5 reads and writes of the
same keys, and each operation is checked during the run. WSS_KV_OPERATIONS=n changes the number."""

from __future__ import annotations

import os

import pytest

from tests.lab.vm import Vm
from tests.system.kv_store import CLIENTS, MODES, Store, assert_held, keys_of

OPERATIONS = int(os.environ.get("WSS_KV_OPERATIONS", 100_000))


@pytest.mark.parametrize("mode", MODES)
def test_contended_transactions_are_read_atomic_over_rdma(vm: Vm, mode: str, lab_say) -> None:
    with Store(vm) as store:
        store.load(MODES[mode])
        transactions = OPERATIONS // CLIENTS // keys_of(MODES[mode])
        results = store.verified(MODES[mode], transactions, 1800)
    lab_say(f"{mode}: transactions of {keys_of(MODES[mode])} keys, {[int(result['throughput']) for result in results]} transactions a second, {[result['failed'] for result in results]} failed, "
            f"{[result['CHECK'] for result in results]}")  # fmt: skip
    if mode.startswith("none"):
        # Without concurrency control the load must show fractured reads. Otherwise it would prove nothing
        # about the other modes. All other checks must pass here as well.
        assert any(result["CHECK"]["FracturedReads"] for result in results)
    else:
        assert not any(result["CHECK"]["FracturedReads"] for result in results)
    if mode.startswith("one-sided"):
        assert all(result["KV"]["OneSidedReads"] > 0 for result in results)
    assert_held(results)
    assert sum(result["operations"] for result in results) == CLIENTS * transactions
