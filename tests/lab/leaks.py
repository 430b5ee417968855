# SPDX-License-Identifier: Apache-2.0
"""Leaks of the driver, as reported by a kernel with kmemleak. Other kernels cannot report them."""

from __future__ import annotations

from tests.lab.errors import LabError
from tests.lab.guest import Guest

KMEMLEAK = "/sys/kernel/debug/kmemleak"
AGE = 6  # seconds: kmemleak ignores objects younger than 5 s


def check_leaks(guest: Guest, module: str = "wss") -> None:
    """Fails with the allocations by the module, or through it, that nothing points to."""
    if guest.run(f"test -e {KMEMLEAK}", check=False).status != 0:
        return
    # Two scans: the second one finds objects that something in flight pointed to during the first.
    guest.run(f"sleep {AGE}; echo scan > {KMEMLEAK}; sleep {AGE}; echo scan > {KMEMLEAK}", 120)
    records = guest.run(f"cat {KMEMLEAK}").stdout.split("unreferenced object")
    ours = [record for record in records if f"[{module}]" in record]
    if ours:
        raise LabError(f"{guest.name}: {len(ours)} objects leaked:\nunreferenced object" + "unreferenced object".join(ours[:5]))
