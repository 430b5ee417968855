# SPDX-License-Identifier: Apache-2.0
"""Checks for memory leaks of the driver, which only a kernel with kmemleak reports."""

from __future__ import annotations

from tests.lab.errors import LabError
from tests.lab.guest import Guest

KMEMLEAK = "/sys/kernel/debug/kmemleak"
AGE = 6  # seconds; kmemleak ignores objects younger than 5 s


def check_leaks(guest: Guest, module: str = "wss") -> None:
    """Raises an error that lists the unreferenced allocations of the module, or of functions that it
    called."""
    if guest.run(f"test -e {KMEMLEAK}", check=False).status != 0:
        return
    # The second scan finds objects to which something in flight still pointed during the first scan.
    guest.run(f"sleep {AGE}; echo scan > {KMEMLEAK}; sleep {AGE}; echo scan > {KMEMLEAK}", 120)
    records = guest.run(f"cat {KMEMLEAK}").stdout.split("unreferenced object")
    ours = [record for record in records if f"[{module}]" in record]
    if ours:
        raise LabError(f"{guest.name}: {len(ours)} objects leaked:\nunreferenced object" + "unreferenced object".join(ours[:5]))
