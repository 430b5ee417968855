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
    assert "Remote I/O error" in rig.vm.run(f"sync {device}", check=False).stderr
    rig.vm.run(f"sync {device}")


def test_multipath_does_not_repeat_a_flush_that_reports_lost_writes_on_another_path(rig: Rig) -> None:
    first, second = rig.map("file"), rig.map("file", "id_ext=0000000000000002")
    groups = " ".join(f"round-robin 0 1 1 {path} 1" for path in (first, second))  # the second one is used if the first fails
    rig.vm.run(f"modprobe dm-round-robin && dmsetup create --noudevsync paths --table \"0 $(blockdev --getsz {first}) multipath 0 0 2 1 {groups}\"")
    try:
        both = "/dev/" + rig.vm.run("dmsetup info -c --noheadings -o blkdevname paths").stdout.strip()
        write_and_lose(rig, both, first)
        assert "Remote I/O error" in rig.vm.run(f"sync {both}", check=False).stderr
        rig.vm.run(f"sync {both}")
    finally:
        rig.vm.run("dmsetup remove --noudevsync --retry paths")
