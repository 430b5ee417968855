# SPDX-License-Identifier: Apache-2.0
"""After a reconnection, the LUN of a disk may belong to another volume. The driver sends no request before it
has checked the identity of the volume."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import SESSION, Rig


def test_driver_checks_the_identity_of_its_volumes_before_it_sends_requests(rig: Rig) -> None:
    device = rig.map("a", "reconnect_delay=1 fast_io_fail_tmo=60")
    rig.dd(f"if=/dev/urandom of={device} bs=64k count=1 oflag=direct")
    wanted = rig.dd(f"if={device} bs=64k count=1 iflag=direct | sha256sum").stdout
    rig.set("force_map", 1)  # administrative commands cannot be mapped either, so the check is not possible
    rig.reset()
    wait_until(lambda: "no memory region" in rig.last_error(), "the check has failed", 30)
    assert rig.vm.run(f"cat {SESSION}/state").stdout.strip() == "recovering"
    rig.set("force_map", 0)
    rig.wait_live()
    assert rig.dd(f"if={device} bs=64k count=1 iflag=direct | sha256sum").stdout == wanted
    rig.assert_no_error()
