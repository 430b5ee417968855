# SPDX-License-Identifier: Apache-2.0
"""If a target does not grant keep-alive messages, the driver sends it commands as keep-alives. The connection
stays even if the target sends the shortest possible response."""

import time

from tests.system.behaviour.rig import Rig


def test_driver_sends_keep_alive_commands_to_a_target_without_keep_alive_messages(rig: Rig) -> None:
    device = rig.map("a", "caps=0xb keepalive_tmo=2 reconnect_delay=1")
    time.sleep(4)  # the driver sends a keep-alive command every 0.8 s
    rig.verify(device)
    counters = rig.counters()
    assert counters["reconnects"] == 0, counters
    rig.assert_no_error()
