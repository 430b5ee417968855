# SPDX-License-Identifier: Apache-2.0
"""A user gets a distinct errno for each kind of storage error, and other blocks remain accessible."""

from tests.system.behaviour.rig import Rig

ERRORS = {"EIO": "Input/output error|No data available", "ENOSPC": "No space left on device"}


def test_driver_reports_the_errno_of_each_storage_error(rig: Rig) -> None:
    import re
    for name, said in ERRORS.items():
        op = "write" if name == "ENOSPC" else "read"
        rig.target.wssctl(f"volume create bad error:op={op},errno={name},from=1M,to=2M:ram:4M")
        device = rig.map("bad")
        words = (f"if={device} of=/dev/null bs=64k skip={{}} count=1 iflag=direct" if op == "read" else
                 f"if=/dev/zero of={device} bs=64k seek={{}} count=1 oflag=direct")
        rig.dd(words.format(2))
        failed = rig.dd(words.format(20), check=False)
        assert failed.status == 1 and re.search(said, failed.stderr), failed
        rig.dd(words.format(40))
        assert rig.counters()["errors"] >= 1
        rig.driver.assert_nothing_leaks()
        rig.driver.unmap(device)
        rig.target.wssctl("volume delete bad")
