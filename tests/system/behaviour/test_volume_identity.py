# SPDX-License-Identifier: Apache-2.0
"""A disk follows its volume by identity. It never uses a volume that merely has this identity as its name."""

from tests.system.behaviour.rig import Rig, wait_until


def test_driver_follows_no_volume_whose_name_equals_the_wwid_of_another(rig: Rig) -> None:
    rig.target.wssctl("volume create mine ram:8M")
    wwid = next(volume["wwid"] for volume in rig.target.ask("volume list") if volume["name"] == "mine")
    rig.target.wssctl(f"volume create {wwid} ram:8M")
    device = rig.map("mine")
    rig.target.wssctl("volume delete mine")
    state = lambda: rig.vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/wss/state").stdout.strip()  # noqa: E731
    try:
        wait_until(lambda: state() != "live", "the disk has lost its volume", 20)
        assert "Input/output error" in rig.dd(f"if={device} of=/dev/null bs=4k count=1 iflag=direct", check=False).stderr
    finally:
        rig.target.wssctl(f"volume delete {wwid}")


def test_requests_of_a_recreated_volume_fail_even_while_its_target_is_away(rig: Rig) -> None:
    rig.target.wssctl("volume create mine ram:8M")
    device = rig.map("mine", "fast_io_fail_tmo=off dev_loss_tmo=off")
    rig.target.wssctl("volume delete mine")
    rig.target.wssctl("volume create mine ram:8M")
    state = f"cat /sys/block/{device.removeprefix('/dev/')}/wss/state"
    wait_until(lambda: rig.vm.run(state).stdout.strip() == "dead", "the disk is dead", 20)
    rig.set("force_reject", 1)
    rig.reset()
    rig.driver.wait_for_state("recovering")
    read = rig.vm.start(f"dd if={device} of=/dev/null bs=4k count=1 iflag=direct")
    try:
        assert "Input/output error" in read.wait(10).stderr
    finally:
        rig.set("force_reject", 0)
        rig.wait_live()
        rig.target.wssctl("volume delete mine")
