# SPDX-License-Identifier: Apache-2.0
"""A target grants fewer channels than requested. All queues are served, including polled ones."""

from tests.system.behaviour.rig import SESSION, Rig


def test_driver_serves_all_queues_with_fewer_channels_than_requested(rig: Rig) -> None:
    rig.set("force_channels", 1)
    device = rig.map("a", "queues=3 poll_queues=1")
    assert rig.vm.run(f"cat {SESSION}/queues").stdout.strip() == "1"
    rig.verify(device, "--bs=4k --iodepth=32")
    rig.vm.run(f"fio --name=p --filename={device} --ioengine=pvsync2 --hipri --rw=randread --bs=4k --size=1m --direct=1")
    rig.assert_no_error()
