# SPDX-License-Identifier: Apache-2.0
"""A forced unmap and the outstanding requests end in bounded time even if the target hangs."""

import signal

from tests.system.behaviour.rig import Rig


def test_forced_unmap_ends_while_the_target_hangs(rig: Rig) -> None:
    device = rig.map("a", "keepalive_tmo=120 fast_io_fail_tmo=off dev_loss_tmo=off")
    load = rig.start_verifying(device, 120)
    rig.target.process.signal(signal.SIGSTOP)
    try:
        rig.driver.unmap(device, force=True)
        assert load.wait(30).status != 0
    finally:
        rig.target.process.signal(signal.SIGCONT)
