# SPDX-License-Identifier: Apache-2.0
"""The target has responded, but the RDMA device never completes the invalidation of the region or the SEND of the data. The
driver drops the connection and repeats the request."""

import pytest

from tests.lab.guest import wait_until
from tests.system.behaviour.rig import Rig


@pytest.mark.parametrize("words", ["if={device} of=/dev/null bs=64k iflag=direct", "if=/dev/zero of={device} bs=4k oflag=direct"],
                         ids=["invalidation", "immediate_send"])
def test_driver_detects_a_completion_that_never_arrives(rig: Rig, words: str) -> None:
    device = rig.map("a", "reconnect_delay=1")
    rig.io_timeout(device, 1000)
    rig.set("force_incomplete", 1)
    before = rig.counters()["faults"]
    request = rig.vm.start(f"exec dd status=none count=1 {words.format(device=device)}")
    wait_until(lambda: rig.counters()["faults"] > before, "the completion has been lost", 20)
    rig.set("force_incomplete", 0)
    mark = rig.vm.klog.mark()
    assert request.wait(60).status == 0
    counters = rig.counters()
    assert counters["reconnects"] == 1 and counters["aborts"] == counters["resets"] == 0, counters
    assert "the RDMA device has not completed a work request in time" in rig.said(mark)
    rig.assert_no_error()
