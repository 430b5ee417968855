# SPDX-License-Identifier: Apache-2.0
"""Polled I/O completes without interrupts, even after I/O that uses interrupts, and its timeouts work."""

from tests.system.behaviour.rig import Rig

REQUESTS = 256


def test_polled_io_completes_without_interrupts(rig: Rig) -> None:
    device = rig.map("a", "queues=1 poll_queues=1")
    # Use io_uring, because since Linux 6.0 polled synchronous requests (pvsync2) are handled like ordinary
    # ones.
    polled = f"fio --name=p --filename={device} --ioengine=io_uring --hipri --direct=1 --bs=4k --size={4 * REQUESTS}k --verify_state_save=0"
    found = lambda: rig.counters()["polled_completions"]  # noqa: E731
    rig.vm.run(f"{polled} --rw=write --verify=crc32c --verify_fatal=1", 120)
    written_and_read = found()
    assert written_and_read >= 2 * REQUESTS, rig.counters()
    rig.verify(device, "--bs=4k --iodepth=8")
    assert found() == written_and_read, "ordinary I/O must not be polled"
    rig.io_timeout(device, 1000)
    rig.set("force_drop", 50)
    rig.vm.run(f"{polled} --rw=randread", 180)
    rig.set("force_drop", 0)
    # The completions of commands that were dropped are not found by pollers.
    assert found() > written_and_read + REQUESTS / 2, rig.counters()
    assert rig.counters()["aborts"] > 0 and rig.counters()["reconnects"] == 0, rig.counters()
    rig.assert_no_error()
