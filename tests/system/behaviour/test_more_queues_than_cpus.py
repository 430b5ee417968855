# SPDX-License-Identifier: Apache-2.0
"""A map with more queues than the machine has CPUs gets one per CPU."""

from tests.system.behaviour.rig import SESSION, Rig


def test_driver_creates_at_most_one_queue_of_each_kind_per_cpu(rig: Rig) -> None:
    cpus = int(rig.vm.run("lscpu -p | grep -vc '#'").stdout)
    for options, queues in (("queues=32", cpus), ("queues=32 poll_queues=16", 2 * cpus)):
        device = rig.map("a", options)
        assert int(rig.vm.run(f"cat {SESSION}/queues").stdout) == queues
        rig.verify(device, "--bs=4k --iodepth=32")
        for cpu in range(cpus):
            rig.vm.run(f"taskset -c {cpu} dd if={device} of=/dev/null bs=4k count=4 iflag=direct status=none")
        rig.assert_no_error()
        rig.driver.unmap(device)
