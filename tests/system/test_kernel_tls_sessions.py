# SPDX-License-Identifier: Apache-2.0
"""The tests of TLS sessions and the contract of fabrics, over kernel TLS at both ends."""

from __future__ import annotations

import pytest

from tests.lab.vm import Vm
from tests.system.test_kernel_tls import kernel_senders


@pytest.mark.parametrize("program, words", [("unit_tests", "TlsSession*:Tls.*"), ("conformance_tests", "*tls*")])
def test_sessions_and_the_fabric_pass_their_tests_over_kernel_tls(vm: Vm, program: str, words: str) -> None:
    vm.run("modprobe -a tls aesni_intel")
    before = kernel_senders(vm)
    done = vm.run(f"WSS_TEST_KERNEL_TLS=1 $BUILD/{program} --gtest_filter='{words}'", timeout=900)
    assert "SKIPPED" not in done.stdout
    assert kernel_senders(vm) > before + 10
