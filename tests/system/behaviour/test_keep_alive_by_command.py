# SPDX-License-Identifier: Apache-2.0
"""To a target that grants no keep-alive the driver sends a command, which may be answered in the shortest form; the connection
stays."""

import time

from tests.system.behaviour.rig import Rig


def test_keep_alive_by_command(rig: Rig) -> None:
    device = rig.map("a", "caps=0xb keepalive_tmo=2 reconnect_delay=1")
    time.sleep(4)  # several keep-alive commands, one every 0.8 s
    rig.verify(device)
    counters = rig.counters()
    assert counters["reconnects"] == 0, counters
    rig.assert_no_error()
