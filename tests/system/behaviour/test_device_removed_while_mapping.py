# SPDX-License-Identifier: Apache-2.0
"""The RDMA device is removed while a map connects over it. The map fails, and the removal does not wait for an unmap.

force_event delays each event of the connection manager. So the removal begins when the session has a
protection domain but has not logged in yet. The removal in rxe waits for user processes that use the device,
which is the target here. So the target is stopped after the driver has released the device."""

from tests.lab.rdma import ADD, REMOVE
from tests.system.behaviour.rig import Rig


DOMAINS = "rdma resource show | grep -o 'pd [0-9]*'"
REMOVE_WHEN_BOUND = (f'before=$({DOMAINS}); echo armed "$before"; '
                     f'while test "$({DOMAINS})" = "$before"; do sleep 0.1; done; {REMOVE}')


def test_map_fails_when_its_device_is_removed(rig: Rig) -> None:
    rig.set("force_delay_ms", 3000)
    rig.set("force_event", 1)
    removal = rig.vm.start(REMOVE_WHEN_BOUND)
    removal.wait_for("armed pd")
    mapping = rig.vm.start(f"echo target={rig.target.address} volume=a queues=1 keepalive_tmo=off > /sys/class/wss/map")
    assert mapping.wait(60).status != 0
    assert "the RDMA device is being removed" in rig.vm.run("cat /sys/class/wss/last_error").stdout
    rig.target.process.kill()
    assert removal.wait(30).status == 0
    rig.set("force_event", 0)
    rig.vm.run(ADD)
    rig.target.start()
    rig.verify(rig.map("a"))
