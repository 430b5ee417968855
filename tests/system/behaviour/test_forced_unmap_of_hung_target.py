# SPDX-License-Identifier: Apache-2.0
"""A forced unmap and the outstanding requests end in bounded time even if the target hangs."""

import signal

from tests.system.behaviour.rig import Rig, wait_until


def test_forced_unmap_ends_while_the_target_hangs(rig: Rig) -> None:
    device = rig.map("a", "keepalive_tmo=120 fast_io_fail_tmo=off dev_loss_tmo=off")
    load = rig.start_verifying(device, 120)
    rig.target.process.signal(signal.SIGSTOP)
    try:
        rig.driver.unmap(device, force=True)
        assert load.wait(30).status != 0
    finally:
        rig.target.process.signal(signal.SIGCONT)


def test_target_ends_the_writes_of_an_unmapped_disk_before_it_serves_the_disk_that_is_mapped_again(rig: Rig) -> None:
    rig.target.wssctl("volume create slow delay:op=write,us=2500000:ram:8M")
    port_id = lambda: [session["initiator"] for session in rig.target.ask("session list")["sessions"]]  # noqa: E731
    device = rig.map("slow")
    before = port_id()
    requests = rig.counters()["requests"]
    writer = rig.vm.start(f"head -c 4k /dev/zero | tr '\\0' x | dd of={device} bs=4k count=1 iflag=fullblock oflag=direct status=none")
    wait_until(lambda: rig.counters()["requests"] > requests, "the write has begun", 20)
    rig.driver.unmap(device, force=True)
    assert writer.wait(20).status != 0
    device = rig.map("slow")
    assert rig.vm.run(f"head -c 3 {device}").stdout == "xxx", "the failed write has taken effect before the new session begins"
    other = rig.map("slow", "id_ext=0000000000000002")
    now = port_id()
    assert now[0] == before[0] and now[1] != before[0], "only the session that replaces another one has the same port id"
    for each in (device, other):
        rig.driver.unmap(each)
    rig.target.wssctl("volume delete slow")
