# SPDX-License-Identifier: Apache-2.0
"""A response to ABORT TASK that arrives during LOGICAL UNIT RESET completes only the aborted command.

Storage delays the first two writes by nine seconds. The first one times out after one second, and its abort
after five more. Then the driver resets the unit. Storage completes the first write, and the target responds
to the abort. The second write, which was sent later, is still in storage. If the driver repeated it now, the
original could overwrite later data."""

from tests.system.behaviour.rig import RUN, Rig

BLOCK = "bs=4k count=1"
PLACE = 256  # position of the second write, in blocks


def test_driver_does_not_mistake_a_late_abort_response_for_the_response_to_a_reset(rig: Rig) -> None:
    rig.target.wssctl("volume create stuck delay:us=9000000,first=2,op=write:ram:8M")
    device = rig.map("stuck", "queues=1 keepalive_tmo=120 fast_io_fail_tmo=120 reconnect_delay=1")
    rig.io_timeout(device, 1000)
    rig.vm.run(f"for name in one two; do yes $name | head -c 4096 > {RUN}/$name; done")
    first = rig.vm.start(f"dd if={RUN}/one of={device} {BLOCK} oflag=direct")
    second = rig.vm.start(f"sleep 4; dd if={RUN}/one of={device} {BLOCK} seek={PLACE} oflag=direct && "
                          f"dd if={RUN}/two of={device} {BLOCK} seek={PLACE} oflag=direct")
    assert first.wait(90).status == 0 and second.wait(90).status == 0, "the repeated writes must succeed"
    rig.vm.run("sleep 10")  # the original writes have completed
    rig.vm.run(f"dd if={device} {BLOCK} skip={PLACE} iflag=direct status=none | cmp - {RUN}/two")
    counters = rig.counters()
    assert counters["resets"] == 1 and counters["reconnects"] == 1, counters
    rig.assert_no_error()
    rig.driver.unmap(device)
    rig.target.wssctl("volume delete stuck")
    rig.vm.run(f"rm {RUN}/one {RUN}/two")
