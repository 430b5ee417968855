# SPDX-License-Identifier: Apache-2.0
"""A target that hangs is noticed within keepalive_tmo although nobody asks anything of it."""

import signal

from tests.system.behaviour.rig import Rig


def test_hung_target_is_noticed_when_idle(rig: Rig) -> None:
    rig.map("a", "reconnect_delay=1")
    rig.target.process.signal(signal.SIGSTOP)
    try:
        # 5 s, and what a loaded machine adds: without keep-alive nothing would ever tell.
        rig.driver.wait_for_state("recovering", 30)
    finally:
        rig.target.process.signal(signal.SIGCONT)
    rig.wait_live()
