# SPDX-License-Identifier: Apache-2.0
"""The driver detects a hung target within keepalive_tmo even without requests."""

import signal

from tests.system.behaviour.rig import Rig


def test_driver_detects_a_hung_target_without_io(rig: Rig) -> None:
    rig.map("a", "keepalive_tmo=5 reconnect_delay=1")
    rig.target.process.signal(signal.SIGSTOP)
    try:
        # The limit is 5 s plus the delay of a loaded machine. Without keep-alives, the hang would never be
        # detected.
        rig.driver.wait_for_state("recovering", 30)
    finally:
        rig.target.process.signal(signal.SIGCONT)
    rig.wait_live()
