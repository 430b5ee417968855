# SPDX-License-Identifier: Apache-2.0
"""A logical unit that answers no administrative command delays neither the connection nor other disks of its session."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig

OPTIONS = "reconnect_delay=1 fast_io_fail_tmo=300"


def test_silent_unit_holds_up_no_other(rig: Rig) -> None:
    by_lun = {}
    for volume in ("a", "b", "file"):
        device = rig.map(volume, OPTIONS)
        by_lun[int(attribute(rig, device, "lun"), 16)] = device
    assert 0 in by_lun, by_lun
    answers, silent, unmapped = (by_lun[lun] for lun in sorted(by_lun))
    rig.set("force_silence", 1)
    rig.reset()
    # While the driver waits for its response, as for that of any volume of the session.
    rig.driver.unmap(unmapped)
    rig.wait_live()
    assert attribute(rig, silent, "state") == "absent"
    rig.dd(f"if=/dev/urandom of={answers} bs=64k count=1 oflag=direct")
    writer = rig.vm.start(f"exec dd if=/dev/urandom of={silent} bs=64k count=1 oflag=direct")
    rig.set("force_silence", 0)
    wait_until(lambda: attribute(rig, silent, "state") == "live", "the unit answers again", 90)
    assert writer.wait(90).status == 0, "what waited for the unit goes out"
    counters = rig.counters()
    assert counters["reconnects"] == 1 and counters["errors"] == 0, counters
    assert counters["aborts"] >= 1 and counters["resets"] == 0, counters
    rig.assert_no_error()


def test_recovery_waits_for_no_unit_that_was_absent_before(rig: Rig) -> None:
    devices = [rig.map(volume, OPTIONS) for volume in ("a", "b", "file")]
    silent = [device for device in devices if int(attribute(rig, device, "lun"), 16)]
    rig.set("force_silence", 1)
    mark = rig.vm.klog.mark()
    rig.reset()
    rig.wait_live()
    assert {attribute(rig, device, "state") for device in silent} == {"absent"}
    rig.reset()
    wait_until(lambda: rig.counters()["reconnects"] == 2, "it is live again", 60)
    recovered = rig.said(mark)
    rig.set("force_silence", 0)
    # Volumes that are checked when the session is live have more time.
    in_recovery = recovered.count("was not answered within 3000 ms") + recovered.count("was not answered within 300 ms")
    assert in_recovery <= len(silent), "each of them is waited for once"
    for device in silent:
        wait_until(lambda: attribute(rig, device, "state") == "live", "it is looked at again", 90)
    rig.assert_no_error()


def attribute(rig: Rig, device: str, name: str) -> str:
    return rig.vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/wss/{name}").stdout.strip()
