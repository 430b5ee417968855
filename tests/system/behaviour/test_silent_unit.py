# SPDX-License-Identifier: Apache-2.0
"""A logical unit that responds to no administrative command delays neither the connection nor other disks of its session."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig

OPTIONS = "reconnect_delay=1 fast_io_fail_tmo=300"


def test_silent_unit_delays_no_other_disk(rig: Rig) -> None:
    by_lun = {}
    for volume in ("a", "b", "file"):
        device = rig.map(volume, OPTIONS)
        by_lun[int(attribute(rig, device, "lun"), 16)] = device
    assert 0 in by_lun, by_lun
    answers, silent, unmapped = (by_lun[lun] for lun in sorted(by_lun))
    rig.set("force_silence", 1)
    rig.reset()
    # Unmap a disk while the driver waits for the response of the silent unit.
    rig.driver.unmap(unmapped)
    rig.wait_live()
    assert attribute(rig, silent, "state") == "absent"
    rig.dd(f"if=/dev/urandom of={answers} bs=64k count=1 oflag=direct")
    writer = rig.vm.start(f"exec dd if=/dev/urandom of={silent} bs=64k count=1 oflag=direct")
    rig.set("force_silence", 0)
    wait_until(lambda: attribute(rig, silent, "state") == "live", "the unit responds again", 90)
    assert writer.wait(90).status == 0, "the waiting write must succeed"
    counters = rig.counters()
    assert counters["reconnects"] == 1 and counters["errors"] == 0, counters
    assert counters["aborts"] >= 1 and counters["resets"] == 0, counters
    rig.assert_no_error()


def test_recovery_does_not_wait_for_a_unit_that_was_absent_before(rig: Rig) -> None:
    devices = [rig.map(volume, OPTIONS) for volume in ("a", "b", "file")]
    silent = [device for device in devices if int(attribute(rig, device, "lun"), 16)]
    rig.set("force_silence", 1)
    mark = rig.vm.klog.mark()
    rig.reset()
    rig.wait_live()
    assert {attribute(rig, device, "state") for device in silent} == {"absent"}
    rig.reset()
    wait_until(lambda: rig.counters()["reconnects"] == 2, "the session has reconnected twice", 60)
    recovered = rig.said(mark)
    rig.set("force_silence", 0)
    # Checks of volumes while the session is live have a longer timeout.
    in_recovery = recovered.count("was not answered within 3000 ms") + recovered.count("was not answered within 300 ms")
    assert in_recovery <= len(silent), "the driver must wait for each of them only once"
    for device in silent:
        wait_until(lambda: attribute(rig, device, "state") == "live", "the disk is live again", 90)
    rig.assert_no_error()


def attribute(rig: Rig, device: str, name: str) -> str:
    return rig.vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/wss/{name}").stdout.strip()
