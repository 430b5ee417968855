# SPDX-License-Identifier: Apache-2.0
"""The connection is dropped and established repeatedly under load. No request fails and no data is wrong."""

from tests.system.behaviour.rig import THOROUGH, Rig

RESETS = 100 if THOROUGH else 3


def test_connection_resets_under_load_fail_no_request(rig: Rig) -> None:
    device = rig.map("a", "fast_io_fail_tmo=off reconnect_delay=1")
    load = rig.start_verifying(device, 4 * RESETS)
    for times in range(1, RESETS + 1):
        rig.reset()
        rig.driver.wait_for_state("live", 60)
        assert rig.counters()["reconnects"] == times
    rig.end_verified(load, 60 + 8 * RESETS)
    rig.assert_no_error()
