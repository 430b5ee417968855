# SPDX-License-Identifier: Apache-2.0
"""Each I/O scheduler of the kernel works with the driver, and the scheduler can be changed under load."""

from tests.system.behaviour.rig import Rig


def test_every_io_scheduler_works_with_the_driver(rig: Rig) -> None:
    device = rig.map("a")
    rig.vm.run("modprobe -a bfq kyber-iosched mq-deadline", check=False)
    path = "/sys/block/wss0/queue/scheduler"
    names = rig.vm.run(f"cat {path}").stdout.replace("[", "").replace("]", "").split()
    assert "none" in names and len(names) > 1, names
    load = rig.start_verifying(device, 6)
    for name in [*names, "none"]:
        rig.vm.run(f"echo {name} > {path} && grep -F '[{name}]' {path}")
        rig.dd(f"if={device} of=/dev/null bs=64k count=16 iflag=direct skip=300")
    rig.end_verified(load)
    rig.assert_no_error()
