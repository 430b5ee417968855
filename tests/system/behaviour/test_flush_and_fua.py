# SPDX-License-Identifier: Apache-2.0
"""Flushes reach the storage behind the target."""

from tests.system.behaviour.rig import Rig, difference


def test_flush_reaches_the_storage_of_the_target(rig: Rig) -> None:
    device = rig.map("file")
    flushes = lambda: rig.target.ask("stats --target")["target"]["volumes"]["file"]["flushes"]  # noqa: E731
    assert rig.vm.run("cat /sys/block/wss0/queue/write_cache").stdout.strip() == "write back"
    before = flushes()
    rig.dd(f"if=/dev/zero of={device} bs=4k count=8 oflag=direct")
    assert flushes() == before, "no flush was requested"
    rig.dd(f"if=/dev/zero of={device} bs=4k count=8 oflag=direct conv=fsync")
    assert flushes() > before
    rig.assert_no_error()
