# SPDX-License-Identifier: Apache-2.0
"""A map connects in the network namespace of its caller."""

from tests.system.behaviour.rig import Rig


def test_map_connects_in_the_network_namespace_of_its_caller(rig: Rig) -> None:
    rig.vm.run("ip netns add elsewhere")
    try:
        refused = rig.vm.run(f"ip netns exec elsewhere wssctl map {rig.target.address} a", 60, check=False)
        assert refused.status != 0 and not rig.vm.run("ls /dev/wss0", check=False).ok, refused
    finally:
        rig.vm.run("ip netns delete elsewhere")
    rig.verify(rig.map("a"))
