# SPDX-License-Identifier: Apache-2.0
"""A hung target is detected within keepalive_tmo although there are no requests."""

import signal

from tests.system.behaviour.rig import Rig


def test_hung_target_is_noticed_when_idle(rig: Rig) -> None:
    rig.map("a", "reconnect_delay=1")
    rig.target.process.signal(signal.SIGSTOP)
    try:
        # 5 s plus the delay of a loaded machine. Without keep-alive the hang would never be detected.
        rig.driver.wait_for_state("recovering", 30)
    finally:
        rig.target.process.signal(signal.SIGCONT)
    rig.wait_live()
