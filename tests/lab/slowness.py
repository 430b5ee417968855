# SPDX-License-Identifier: Apache-2.0
"""How much slower than the stock kernel the machines are: WSS_LAB_SLOWNESS stretches every limit of the lab.

A kernel with KASAN and lockdep takes several times as long for everything. The limits in tests are written for the
stock kernel; what they protect against is waiting for ever, not being slow.
"""

from __future__ import annotations

import os


def stretched(seconds: float) -> float:
    return seconds * float(os.environ.get("WSS_LAB_SLOWNESS") or 1)
