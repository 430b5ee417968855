# SPDX-License-Identifier: Apache-2.0
"""While a map waits for a target that does not answer, maps from other targets are not delayed, and the module can be unloaded."""

import signal

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig, Target


def test_dead_target_delays_no_map_from_another_target(rig: Rig) -> None:
    with Target(rig.vm, {"x": "ram:8M"}, port=5556) as dead:
        dead.process.signal(signal.SIGSTOP)
        first, second = (rig.vm.start(f"exec wssctl map rdma://{dead.address} {volume}") for volume in ("x", "y"))
        wait_until(lambda: "wss_chans" in first.stacks() + second.stacks(), "a map is waiting for the target", 20)
        device = rig.map("a")
        assert first.running and second.running, "the map must not wait for the others"
        rig.verify(device, mib=1)
        assert first.wait(60).status != 0 and second.wait(60).status != 0, "both maps must fail"
        third = rig.vm.start(f"exec wssctl map rdma://{dead.address} x")
        wait_until(lambda: "wss_chans" in third.stacks(), "a map is waiting for the target", 20)
        rig.driver.unmap(device)
        rig.driver.unload(60)
        assert third.wait(10).status != 0
        rig.driver.load()
        dead.process.signal(signal.SIGCONT)
    rig.verify(rig.map("a"), mib=1)
