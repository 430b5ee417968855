# SPDX-License-Identifier: Apache-2.0
"""Flushes and FUA writes reach the storage behind the target as such."""

from tests.system.behaviour.rig import Rig, difference


def test_flush_and_fua(rig: Rig) -> None:
    device = rig.map("file")
    flushes = lambda: rig.target.ask("stats --target")["target"]["volumes"]["file"]["flushes"]  # noqa: E731
    assert rig.vm.run("cat /sys/block/wss0/queue/write_cache").stdout.strip() == "write back"
    before = flushes()
    rig.dd(f"if=/dev/zero of={device} bs=4k count=8 oflag=direct")
    assert flushes() == before, "nobody asked for one"
    rig.dd(f"if=/dev/zero of={device} bs=4k count=8 oflag=direct conv=fsync")
    assert flushes() > before
    rig.assert_no_error()
