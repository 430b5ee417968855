# SPDX-License-Identifier: Apache-2.0
"""A connection that is lost right after each login does not stop dev_loss_tmo. A request that is lost with many connections
fails."""

import time

from tests.system.behaviour.rig import SESSION, Rig

# Drops each connection as soon as it exists, until the driver gives the session up or the time has passed.
FLAP = """
end=$(($(date +%s) + {seconds}))
while [ $(date +%s) -lt $end ]; do
    case $(cat {session}/state) in
    live) echo 1 > {session}/reset ;;
    failed) exit 0 ;;
    esac
    {check}
    sleep 0.1
done
exit 1
"""


def test_driver_gives_up_on_a_target_whose_connections_do_not_last(rig: Rig) -> None:
    rig.vm.klog.allow(r"I/O error, dev wss|Buffer I/O error", "the session is given up")
    rig.map("a", "keepalive_tmo=off reconnect_delay=1 fast_io_fail_tmo=4 dev_loss_tmo=8")
    end = rig.vm.run(FLAP.format(session=SESSION, seconds=60, check=":"), 120, check=False)
    assert end.status == 0, rig.counters()
    assert rig.counters()["reconnects"] > 0


def test_driver_keeps_a_target_whose_connections_last(rig: Rig) -> None:
    rig.map("a", "keepalive_tmo=1 reconnect_delay=1 fast_io_fail_tmo=3 dev_loss_tmo=5")
    for _ in range(4):
        time.sleep(2)  # longer than keepalive_tmo
        rig.reset()
        rig.wait_live()
    rig.assert_no_error()


def test_driver_fails_a_request_that_is_lost_with_many_connections(rig: Rig) -> None:
    rig.vm.klog.allow(r"I/O error, dev wss|Buffer I/O error", "a request is never answered")
    device = rig.map("a", "keepalive_tmo=off reconnect_delay=1 fast_io_fail_tmo=off dev_loss_tmo=off")
    rig.io_timeout(device, 4000)
    rig.set("force_drop", 1)
    mark = rig.vm.klog.mark()
    reader = rig.vm.start(f"exec dd if={device} of=/dev/null bs=4k count=1 iflag=direct")
    # Each connection is shorter than the timeout of the request, so that the driver hardly ever aborts it.
    flapping = rig.vm.start(FLAP.format(session=SESSION, seconds=180, check="kill -0 $(pidof dd) 2> /dev/null || exit 0"))
    result = reader.wait(200)
    assert result.status != 0 and "Input/output error" in result.stderr, result
    assert flapping.wait(30).status == 0
    rig.set("force_drop", 0)
    assert "connections were lost while it was in flight" in rig.said(mark)
    assert rig.counters()["reconnects"] > 5, rig.counters()
    rig.verify(device)
