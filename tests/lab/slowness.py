# SPDX-License-Identifier: Apache-2.0
"""The slowdown of the machines compared with the stock kernel. WSS_LAB_SLOWNESS multiplies the time limits of
commands, boots, orderly power-offs, kernel log transfers and wait_until().

With KASAN and lockdep everything takes several times as long. The limits in tests are for the stock kernel. They protect against
endless waits, not against slowness.
"""

from __future__ import annotations

import os


def stretched(seconds: float) -> float:
    return seconds * float(os.environ.get("WSS_LAB_SLOWNESS") or 1)
