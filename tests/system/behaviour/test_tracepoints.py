# SPDX-License-Identifier: Apache-2.0
"""Each stage of a request has a tracepoint. The tag identifies the tracepoints of one request."""

import re

from tests.system.behaviour.rig import Rig
from tests.system.behaviour.rig import TRACING


def test_each_stage_of_a_request_has_a_tracepoint(rig: Rig) -> None:
    device = rig.map("a")
    rig.vm.run(f"cd {TRACING} && echo > trace && echo 1 > events/wss/enable")
    try:
        rig.dd(f"if={device} of=/dev/null bs=4k count=1 iflag=direct")
        rig.reset()
        rig.wait_live()
    finally:
        rig.vm.run(f"echo 0 > {TRACING}/events/wss/enable")
    trace = rig.vm.run(f"cat {TRACING}/trace").stdout
    [tag] = set(re.findall(r"wss_map: .* tag=(0x[0-9a-f]+) .*mapping=region segments=1", trace))
    stages = re.findall(rf"(wss_\w+): .*tag={tag}\b", trace)
    assert sorted(stages) == ["wss_end", "wss_map", "wss_post", "wss_response"], trace
    assert "wss_state: session=0 live -> recovering" in trace and "wss_state: session=0 recovering -> live" in trace
    assert "wss_error: session=0 reset by the administrator" in trace
    assert re.search(r"wss_login: session=0 channel=0 credits=\d+ caps=0x", trace)
