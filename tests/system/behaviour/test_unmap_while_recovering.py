# SPDX-License-Identifier: Apache-2.0
"""While its target is away a disk can be unmapped and the module unloaded, with and without force."""

from tests.system.behaviour.rig import Rig


def test_unmap_while_recovering(rig: Rig) -> None:
    first, second = rig.map("a", "fast_io_fail_tmo=off dev_loss_tmo=off"), rig.map("b")
    rig.target.process.kill()
    rig.driver.wait_for_state("recovering", 30)
    reader = rig.vm.start(f"dd if={second} of=/dev/null bs=4k count=1 iflag=direct")
    rig.driver.unmap(first)
    rig.driver.unmap(second, force=True)
    assert reader.wait(30).status == 1
