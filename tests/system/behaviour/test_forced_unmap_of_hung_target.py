# SPDX-License-Identifier: Apache-2.0
"""A forced unmap ends in bounded time, whatever the target does, and so do the requests."""

import signal

from tests.system.behaviour.rig import Rig


def test_forced_unmap_of_hung_target(rig: Rig) -> None:
    device = rig.map("a", "keepalive_tmo=120 fast_io_fail_tmo=off dev_loss_tmo=off")
    load = rig.start_verifying(device, 120)
    rig.target.process.signal(signal.SIGSTOP)
    try:
        rig.driver.unmap(device, force=True)
        assert load.wait(30).status != 0
    finally:
        rig.target.process.signal(signal.SIGCONT)
