# SPDX-License-Identifier: Apache-2.0
"""If data cannot be mapped for the RDMA device, its request fails. It fails at once if the cause is
permanent, and otherwise after a bounded time."""

import pytest

from tests.lab.rdma import DEVICE
from tests.system.behaviour.rig import Rig


def read(rig: Rig, device: str) -> str:
    return rig.dd(f"if={device} of=/dev/null bs=64k count=1 iflag=direct", check=False, timeout=40).stderr


@pytest.mark.parametrize("fault,words", [("force_unmappable", "(error -121)"), ("force_map", "(error -12, for too long)")])
def test_driver_fails_requests_whose_data_cannot_be_mapped(rig: Rig, fault: str, words: str) -> None:
    device = rig.map("a", "keepalive_tmo=off")
    rig.io_timeout(device, 500)
    rig.vm.klog.allow(r"I/O error, dev wss|Buffer I/O error", "the test makes the mapping fail")
    mark = rig.vm.klog.mark()
    rig.set(fault, 1)
    try:
        assert "Input/output error" in read(rig, device)
    finally:
        rig.set(fault, 0)
    tries = rig.counters()["faults"]
    assert tries <= 2 if fault == "force_unmappable" else tries > 10, "only a temporary failure may be retried"
    said = rig.said(mark)
    assert "/dev/wss0: 65536 bytes in " in said and f"cannot be mapped for {DEVICE} {words}: the request fails" in said, said
    assert not read(rig, device)
    counters = rig.counters()
    assert counters["errors"] == 1 and counters["reconnects"] == counters["timeouts"] == 0, counters
    rig.driver.assert_nothing_leaks()


def test_driver_requests_no_larger_mapping_than_the_device_supports(rig: Rig) -> None:
    rig.set("force_mapping", 256 << 10)
    device = rig.map("a")
    assert rig.vm.run(f"cat /sys/block/{device.removeprefix('/dev/')}/queue/max_hw_sectors_kb").stdout.strip() == "256"
    before = rig.counters()["requests"]
    rig.dd(f"if={device} of=/dev/null bs=1M count=1 iflag=direct")
    assert rig.counters()["requests"] - before >= 4
    rig.assert_no_error()
