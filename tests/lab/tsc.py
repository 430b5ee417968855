# SPDX-License-Identifier: Apache-2.0
"""The frequency of this machine's time stamp counter, which is also that of an emulated machine.

At boot, a kernel measures the frequency against other timers. If these are emulated and the host is busy, the
result can be wrong by a factor of 30. The machine's clock and all its time limits then have the same error.
So the lab measures the frequency and passes it to the kernel."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from functools import cache

READ = bytes.fromhex("0f31" "48c1e220" "4809d0" "c3")  # rdtsc; shl rdx, 32; or rax, rdx; ret
SECONDS = 0.1


@cache
def tsc_khz() -> int | None:
    """Returns the frequency in kHz, or None if this machine has no such counter or does not execute generated
    code."""
    if os.uname().machine != "x86_64":
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None
    code.write(READ)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))

    def sample() -> tuple[int, int]:
        """Returns the time and the counter: the best of 20 attempts, because this process may be preempted
        between two readings."""
        best = (1 << 63, 0, 0)
        for _ in range(20):
            before, ticks, after = time.monotonic_ns(), read(), time.monotonic_ns()
            best = min(best, (after - before, (before + after) // 2, ticks))
        return best[1:]

    from_time, from_ticks = sample()
    time.sleep(SECONDS)
    to_time, to_ticks = sample()
    return round((to_ticks - from_ticks) * 1_000_000 / (to_time - from_time))
