# SPDX-License-Identifier: Apache-2.0
"""The slowdown of the machines against the stock kernel: WSS_LAB_SLOWNESS stretches every limit of the lab.

With KASAN and lockdep everything takes several times as long. The limits in tests are written for the stock kernel; they
protect against endless waits, not against slowness.
"""

from __future__ import annotations

import os


def stretched(seconds: float) -> float:
    return seconds * float(os.environ.get("WSS_LAB_SLOWNESS") or 1)
