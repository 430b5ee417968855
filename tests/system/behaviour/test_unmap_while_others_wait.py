# SPDX-License-Identifier: Apache-2.0
"""A disk is unmapped while another one of the same target has requests that wait for the target, for as long as it takes."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig, Stopwatch


def test_unmap_while_others_wait(rig: Rig) -> None:
    first, second = rig.map("a", "fast_io_fail_tmo=off dev_loss_tmo=off"), rig.map("b")
    reader = rig.start_verifying(second, 600)
    rig.target.process.kill()
    rig.driver.wait_for_state("recovering", 30)
    inflight = f"cat /sys/block/{second.removeprefix('/dev/')}/inflight"
    wait_until(lambda: any(int(word) for word in rig.vm.run(inflight).stdout.split()), "requests wait", 30)
    clock = Stopwatch()
    rig.driver.unmap(first)
    assert clock.seconds < 20
    assert reader.running
    rig.driver.unmap(second, force=True)
    assert reader.wait(30).status != 0
