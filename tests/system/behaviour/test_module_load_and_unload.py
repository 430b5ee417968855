# SPDX-License-Identifier: Apache-2.0
"""The module is repeatedly loaded together with a mapped disk, used, and unloaded."""

import signal

from tests.system.behaviour.rig import THOROUGH, Rig
from tests.system.block_setup import MODULE

LOOPS = 100 if THOROUGH else 4


def test_module_can_be_loaded_and_unloaded_repeatedly(rig: Rig) -> None:
    rig.vm.run(f"""set -e
        for i in $(seq {LOOPS}); do
            rmmod wss
            insmod {MODULE} target={rig.target.address} volume=a queue_depth=16
            dd if=/dev/wss0 of=/dev/null bs=64k count=2 iflag=direct status=none
        done""", 60 + 5 * LOOPS)


def test_nothing_else_can_be_mapped_before_the_volume_of_the_module_parameters(rig: Rig) -> None:
    """If that volume cannot be mapped, the module goes, and would take the other disks with it."""
    rig.vm.run("rmmod wss")
    rig.target.process.signal(signal.SIGSTOP)
    try:
        loading = rig.vm.start(f"insmod {MODULE} target={rig.target.address} volume=a")
        rig.vm.run("until test -e /sys/class/wss/map; do sleep 0.1; done", 20)
        other = rig.vm.run(f"echo target={rig.target.address} volume=b id_ext=00000000000000bb > /sys/class/wss/map", check=False)
        assert not other.ok
        assert "the module is still being loaded" in rig.vm.run("cat /sys/class/wss/last_error").stdout
        assert loading.wait(30).status != 0
    finally:
        rig.target.process.signal(signal.SIGCONT)
    rig.driver.load()
    assert rig.map("b")
