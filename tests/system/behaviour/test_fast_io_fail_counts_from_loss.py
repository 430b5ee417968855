# SPDX-License-Identifier: Apache-2.0
"""Requests fail fast_io_fail_tmo after the loss of the connection, even if the teardown takes longer.

force_event delays the handler of the connection's loss, and the teardown waits for that handler. The delay
stands for any delay of a teardown, especially one by a lack of memory that requests of the same disk hold."""

from tests.system.behaviour.rig import Rig

STUCK_SECONDS = 40


def test_fast_io_fail_tmo_starts_at_the_loss_of_the_connection(rig: Rig) -> None:
    device = rig.map("file", "queues=1 reconnect_delay=1 fast_io_fail_tmo=1 keepalive_tmo=off")
    rig.set("force_delay_ms", STUCK_SECONDS * 1000)
    rig.set("force_event", 1)
    rig.target.process.kill()
    rig.reset()
    read = rig.dd(f"if={device} of=/dev/null bs=4k count=1 iflag=direct", check=False, timeout=STUCK_SECONDS + 60)
    assert not read.ok
    assert read.seconds < STUCK_SECONDS / 2, read
    rig.set("force_event", 0)
    rig.target.start()
    rig.wait_live(STUCK_SECONDS + 60)
    rig.verify(device)
