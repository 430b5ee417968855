# SPDX-License-Identifier: Apache-2.0
"""A disk can be unmapped during recovery, with and without force."""

from tests.system.behaviour.rig import Rig


def test_disk_can_be_unmapped_during_recovery(rig: Rig) -> None:
    first, second = rig.map("a", "fast_io_fail_tmo=off dev_loss_tmo=off"), rig.map("b")
    rig.target.process.kill()
    rig.driver.wait_for_state("recovering", 30)
    reader = rig.vm.start(f"dd if={second} of=/dev/null bs=4k count=1 iflag=direct")
    rig.driver.unmap(first)
    rig.driver.unmap(second, force=True)
    assert reader.wait(30).status == 1
