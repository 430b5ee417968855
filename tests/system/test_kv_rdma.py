# SPDX-License-Identifier: Apache-2.0
"""The key-value store over soft RDMA, in short; test_kv_modes.py is the long form."""

from __future__ import annotations

from tests.lab.vm import Vm
from tests.system.kv_store import MODES, Store, assert_held


def test_one_sided_reads_and_messages_are_read_atomic_over_rdma(vm: Vm) -> None:
    mode = MODES["one-sided ours and messages"]
    with Store(vm) as store:
        store.load(mode)
        results = store.verified(mode, 100, 300)
    assert_held(results)
    assert not any(result["CHECK"]["FracturedReads"] for result in results)
    assert all(result["KV"]["OneSidedReads"] > 0 for result in results)
