# SPDX-License-Identifier: Apache-2.0
"""A target has no keep-alive messages, and its LUN 0 does not respond to commands sent as keep-alives. The
connection stays, because the target itself responds."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig

# All capabilities except keep-alive messages, so that the driver uses commands.
OPTIONS = "caps=0xb keepalive_tmo=2 reconnect_delay=1"


def test_connection_survives_a_unit_that_responds_to_no_keep_alive(rig: Rig) -> None:
    devices = [rig.map(volume, OPTIONS) for volume in ("a", "b")]
    rig.set("force_mute", 1)
    wait_until(lambda: rig.counters()["faults"] > 0, "a keep-alive command was dropped", 30)
    rig.vm.run("sleep 8")  # four times keepalive_tmo
    for device in devices:
        rig.verify(device)
    counters = rig.counters()
    assert counters["reconnects"] == 0, counters
    rig.assert_no_error()


def test_connection_survives_if_its_only_unit_responds_to_no_keep_alive(rig: Rig) -> None:
    """If there is no other unit, each command sent as a keep-alive is aborted. The response to the abort
    shows that the target is alive."""
    device = rig.map("a", OPTIONS)
    rig.set("force_mute", 1)
    wait_until(lambda: rig.counters()["aborts"] > 2 or rig.counters()["reconnects"] > 0, "keep-alive commands have been aborted", 60)
    rig.verify(device)
    assert rig.counters()["reconnects"] == 0, rig.counters()
    rig.assert_no_error()
