# SPDX-License-Identifier: Apache-2.0
"""Requests that are submitted together reach the driver as a list if the session has only one disk, because
its tags are then not shared."""

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import TRACING, Rig


def lists_taken(rig: Rig, device: str) -> int:
    """Submits requests 16 at a time and returns the number of calls of queue_rqs."""
    probe = f"{TRACING}/events/kprobes/lists/enable"
    rig.vm.run(f"mountpoint -q {TRACING} || mount -t tracefs tracefs {TRACING}; echo > {TRACING}/trace;"
               f" echo 'p:lists wss_queue_rqs' > {TRACING}/kprobe_events; echo 1 > {probe}")
    try:
        rig.vm.run(f"fio --name=lists --filename={device} --ioengine=io_uring --direct=1 --rw=randread --bs=4k --size=4m"
                   " --iodepth=32 --iodepth_batch_submit=16 --iodepth_batch_complete_min=16", 120)
        return int(rig.vm.run(f"grep -c lists: {TRACING}/trace", check=False).stdout)
    finally:
        rig.vm.run(f"echo 0 > {probe}; echo > {TRACING}/kprobe_events")


def test_driver_takes_lists_of_requests_only_while_a_session_has_one_disk(rig: Rig) -> None:
    first = rig.map("a")
    assert lists_taken(rig, first) > 0
    load = rig.start_verifying(first, 6)
    second = rig.map("b")
    rig.end_verified(load)
    rig.verify(second)
    rig.assert_no_error()


def test_driver_refuses_another_disk_of_a_session_while_requests_wait(rig: Rig) -> None:
    first = rig.map("a", "queues=1 keepalive_tmo=off caps=0xb")
    rig.io_timeout(first, 60000)
    rig.set("force_drop", 1)
    reader = rig.vm.start(f"exec dd if={first} of=/dev/null bs=4k count=1 iflag=direct")
    wait_until(lambda: "D" in rig.vm.run("ps -C dd -o state=", check=False).stdout, "a request is waiting", 30)
    refused = rig.vm.run(f"wssctl map rdma://{rig.target.address} b", 60, check=False)
    assert not refused.ok and "wait for the target: try again" in refused.stderr, refused
    rig.set("force_drop", 0)
    rig.reset()
    assert reader.wait(60).status == 0
    rig.verify(rig.map("b"))
    rig.assert_no_error()
