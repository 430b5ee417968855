# SPDX-License-Identifier: Apache-2.0
"""Flushes reach the storage behind the target. If writes that the target has acknowledged are lost, a flush fails."""

from tests.system.behaviour.rig import PARAMETERS, Rig, difference


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


def write_and_lose(rig: Rig, written: str, device: str) -> None:
    """Writes a block. The target then reports with a read that an earlier command has failed."""
    rig.set("force_deferred", 1)
    rig.set("force_error", 0)
    rig.dd(f"if=/dev/zero of={written} bs=4k count=1 oflag=direct")
    rig.vm.run(f"echo {0x02030C00} > {PARAMETERS}/force_sense; echo 2 > {PARAMETERS}/force_error; "
               f"dd if={device} of=/dev/null bs=4k count=2 iflag=direct status=none; "
               f"echo 0 > {PARAMETERS}/force_error; echo {0x020b0000} > {PARAMETERS}/force_sense")


def test_one_flush_fails_after_the_target_has_reported_that_an_earlier_write_failed(rig: Rig) -> None:
    device = rig.map("file")
    write_and_lose(rig, device, device)
    assert not rig.vm.run(f"sync {device}", check=False).ok
    rig.vm.run(f"sync {device}")
