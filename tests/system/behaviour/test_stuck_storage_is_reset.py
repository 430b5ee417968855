# SPDX-License-Identifier: Apache-2.0
"""If storage behind the target is stuck, aborts succeed and the request times out, but the connection is not
lost."""

from tests.system.behaviour.rig import Rig


def test_read_of_stuck_storage_is_aborted_and_times_out(rig: Rig) -> None:
    rig.target.wssctl("volume create slow delay:op=read,us=3000000:ram:8M")
    device = rig.map("slow", "keepalive_tmo=120")
    rig.io_timeout(device, 1000)
    result = rig.dd(f"if={device} of=/dev/null bs=4k count=1 iflag=direct", check=False)
    counters = rig.counters()
    assert result.status == 1 and "timed out" in result.stderr, result
    assert counters["aborts"] == 3 and counters["reconnects"] == 0, counters
    assert counters["errors"] == 1, counters
    rig.driver.assert_nothing_leaks()
    rig.driver.unmap(device)
    rig.target.wssctl("volume delete slow")
