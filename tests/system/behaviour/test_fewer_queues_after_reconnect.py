# SPDX-License-Identifier: Apache-2.0
"""A target grants fewer channels after a reconnection, and then more again. All queues are still served."""

from tests.system.behaviour.rig import SESSION, Rig


def queues(rig: Rig) -> int:
    return int(rig.vm.run(f"cat {SESSION}/queues").stdout)


def test_driver_serves_all_queues_with_fewer_channels_after_a_reconnection(rig: Rig) -> None:
    device = rig.map("a", "queues=2 poll_queues=1 reconnect_delay=1")
    assert queues(rig) == 3
    load = rig.start_verifying(device, 8, "--numjobs=1")
    for granted in (1, 2, 0):
        rig.set("force_channels", granted)
        rig.reset()
        rig.wait_live()
        assert queues(rig) == (granted or 3)
        assert len(rig.vm.run("ls -d /sys/block/wss0/mq/[0-9]*").stdout.split()) == 3
        rig.verify(device, "--bs=4k --iodepth=32 --offset=20m")
    rig.end_verified(load)
    rig.assert_no_error()
