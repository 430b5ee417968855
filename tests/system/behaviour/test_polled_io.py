# SPDX-License-Identifier: Apache-2.0
"""Polled I/O completes without interrupts, next to I/O with them; timeouts are seen to there too."""

from tests.system.behaviour.rig import Rig


def test_polled_io(rig: Rig) -> None:
    device = rig.map("a", "queues=1 poll_queues=1")
    polled = f"fio --name=p --filename={device} --ioengine=pvsync2 --hipri --direct=1 --bs=4k --size=1m --verify_state_save=0"
    rig.vm.run(f"{polled} --rw=write --verify=crc32c --verify_fatal=1", 120)
    rig.verify(device, "--bs=4k --iodepth=8")
    rig.io_timeout(device, 1000)
    rig.set("force_drop", 50)
    rig.vm.run(f"{polled} --rw=randread", 180)
    rig.set("force_drop", 0)
    assert rig.counters()["aborts"] > 0 and rig.counters()["reconnects"] == 0, rig.counters()
    rig.assert_no_error()
