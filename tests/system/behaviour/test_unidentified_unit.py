# SPDX-License-Identifier: Apache-2.0
"""Requests for a volume wait until the driver has identified the unit at its LUN, but not for ever."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import PARAMETERS, Rig

OPTIONS = "fast_io_fail_tmo=3 reconnect_delay=1"
UNITS_CHANGED = 0x02063F0E  # REPORTED LUNS DATA HAS CHANGED
ABORTED = 0x020B0000  # the default


def test_driver_fails_requests_if_the_target_reports_changed_units_at_every_check(rig: Rig) -> None:
    rig.vm.klog.allow(r"I/O error, dev wss|Buffer I/O error", "requests fail after fast_io_fail_tmo")
    device = rig.map("b", OPTIONS)
    state = lambda: rig.vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/wss/state").stdout.strip()  # noqa: E731
    rig.vm.run(f"echo {UNITS_CHANGED} > {PARAMETERS}/force_sense")
    rig.set("force_refuse", 1)
    rig.target.wssctl("volume resize b 48M")
    wait_until(lambda: rig.counters()["faults"] > 0, "the driver has checked its volume", 30)
    end = rig.dd(f"if={device} of=/dev/null bs=4k count=1 iflag=direct", check=False, timeout=90)
    assert end.status != 0, "the read has reached a unit that was not identified"
    assert state() == "absent"
    rig.set("force_refuse", 0)
    wait_until(lambda: state() == "live", "the volume has returned", 90)
    rig.verify(device)
    assert rig.counters()["reconnects"] == 0, rig.counters()
    rig.target.wssctl("volume resize b 32M")
    rig.vm.run(f"echo {ABORTED} > {PARAMETERS}/force_sense")
