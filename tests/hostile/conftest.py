# SPDX-License-Identifier: Apache-2.0
import pytest

from tests.native import programs

from .setup import HOSTILE, SEED


@pytest.fixture(autouse=True)
def programs_of_the_attacked_build(monkeypatch):
    print(f"seed {SEED}: repeat with WSS_ATTACK_SEED={SEED}")
    monkeypatch.setattr(programs, "TARGET", HOSTILE / "wss-target")
    monkeypatch.setenv("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=0:exitcode=99:allocator_may_return_null=0")
    monkeypatch.setenv("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1:exitcode=99")
