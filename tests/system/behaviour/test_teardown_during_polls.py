# SPDX-License-Identifier: Apache-2.0
"""A connection is torn down while its completion queues are still being polled. The teardown waits for every poller.

force_poll pauses a poll after it has removed completions, and again before it re-arms the queue. Without the wait, the poll would
then use a freed queue pair or completion queue."""

import pytest

from tests.system.behaviour.rig import THOROUGH, Rig


@pytest.mark.parametrize("options", ["queues=2", "queues=1 poll_queues=1"])
def test_teardown_waits_for_every_poller(rig: Rig, options: str) -> None:
    device = rig.map("a", f"{options} reconnect_delay=1 fast_io_fail_tmo=120 keepalive_tmo=off")
    load = rig.start_verifying(device, 12)
    rig.set("force_delay_ms", 40)
    rig.set("force_poll", 3)
    before = rig.counters()["reconnects"]
    rounds = 20 if THOROUGH else 3
    for _ in range(rounds):
        rig.reset()
        rig.wait_live()
    rig.set("force_poll", 0)
    rig.end_verified(load)
    assert rig.counters()["reconnects"] >= before + rounds
    rig.assert_no_error()
