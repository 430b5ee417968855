# SPDX-License-Identifier: Apache-2.0
"""A target that grants no keep-alive, and whose LUN 0 answers no command: the connection stays, as the target itself answers."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig

# All capabilities but the keep-alive message, so that a command is used.
OPTIONS = "caps=0xb keepalive_tmo=2 reconnect_delay=1"


def test_connection_outlives_a_unit_that_answers_no_keep_alive(rig: Rig) -> None:
    devices = [rig.map(volume, OPTIONS) for volume in ("a", "b")]
    rig.set("force_mute", 1)
    wait_until(lambda: rig.counters()["faults"] > 0, "LUN 0 was asked", 30)
    rig.vm.run("sleep 8")  # several times keepalive_tmo
    for device in devices:
        rig.verify(device)
    counters = rig.counters()
    assert counters["reconnects"] == 0, counters
    rig.assert_no_error()


def test_connection_to_a_unit_that_answers_no_keep_alive_alone(rig: Rig) -> None:
    """There is no other unit: each keep-alive command is aborted, and the response to the abort shows that the target is alive."""
    device = rig.map("a", OPTIONS)
    rig.set("force_mute", 1)
    wait_until(lambda: rig.counters()["aborts"] > 2 or rig.counters()["reconnects"] > 0, "questions are aborted", 60)
    rig.verify(device)
    assert rig.counters()["reconnects"] == 0, rig.counters()
    rig.assert_no_error()
