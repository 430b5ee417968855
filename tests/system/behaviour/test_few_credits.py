# SPDX-License-Identifier: Apache-2.0
"""If a target grants few credits, the driver uses no more than these, and task management still gets one."""

import pytest

from tests.system.behaviour.rig import Rig, wait_until


@pytest.mark.parametrize("credits", [2, 3, 5])
def test_driver_works_with_few_credits(rig: Rig, credits: int) -> None:
    rig.set("force_credits", credits)
    device = rig.map("a", "queues=1 keepalive_tmo=3 caps=0xb reconnect_delay=1")
    load = rig.start_verifying(device, 10)  # more than one keep-alive interval
    for number in range(3):  # causes commands that query the volumes
        rig.target.wssctl(f"volume create t{number} ram:1M")
        rig.target.wssctl(f"volume delete t{number}")
    rig.end_verified(load)
    assert rig.counters()["reconnects"] == 0, rig.counters()
    rig.assert_no_error()


def test_driver_aborts_commands_even_if_no_credits_are_left(rig: Rig) -> None:
    rig.set("force_credits", 4)
    device = rig.map("a", "queues=1 keepalive_tmo=3 caps=0xb reconnect_delay=1")
    rig.io_timeout(device, 1000)
    load = rig.start_verifying(device, 20)
    rig.set("force_drop", 20)
    wait_until(lambda: rig.counters()["aborts"] > 2, "commands have been aborted", 60)
    rig.set("force_drop", 0)
    rig.end_verified(load)
    assert rig.counters()["reconnects"] == 0, rig.counters()
    rig.assert_no_error()


def test_driver_refuses_a_target_that_grants_a_single_credit(rig: Rig) -> None:
    rig.set("force_credits", 1)
    result = rig.vm.run(f"wssctl map rdma://{rig.target.address} a", check=False)
    assert result.status != 0 and "grants 1 credit per channel, the driver needs at least 2" in result.stderr, result.stderr


def test_driver_ends_the_connection_to_a_target_that_returns_no_credits(rig: Rig) -> None:
    device = rig.map("a", "queues=1 queue_depth=2 reconnect_delay=1")
    rig.io_timeout(device, 500)
    rig.set("force_withhold", 1)
    reader = rig.vm.start(f"dd if={device} of=/dev/null bs=4k count=20 iflag=direct")
    rig.driver.wait_for_state("recovering", 30)
    assert rig.last_error() == "the target returns no credits"
    rig.set("force_withhold", 0)
    assert reader.wait(30).status == 0, reader.stderr
    rig.assert_no_error()
