# SPDX-License-Identifier: Apache-2.0
"""A disk is unmapped while requests of another disk of its session wait for the target."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig


def test_disk_can_be_unmapped_while_requests_of_another_wait(rig: Rig) -> None:
    first, second = rig.map("a", "fast_io_fail_tmo=off dev_loss_tmo=off"), rig.map("b")
    reader = rig.start_verifying(second, 600)
    rig.target.process.kill()
    rig.driver.wait_for_state("recovering", 30)
    # Requests that wait in the disk's queue do not count as in flight. Their submitter sleeps in the kernel.
    waiting = rig.vm.start(f"exec dd if={second} of=/dev/null bs=4k count=1 iflag=direct")
    wait_until(lambda: "D" in rig.vm.run("ps -C dd -o state=", check=False).stdout, "a request is waiting", 30)
    rig.driver.unmap(first)
    assert reader.running and waiting.running
    rig.driver.unmap(second, force=True)
    assert reader.wait(30).status != 0
    assert waiting.wait(30).status != 0
