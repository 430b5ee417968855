# SPDX-License-Identifier: Apache-2.0
"""wssctl trace shows the stages of requests under load. Afterwards it turns the measurement off."""

import json
import signal

from tests.system.behaviour.rig import DEBUGFS, Rig


def test_wssctl_trace_shows_the_stages_of_requests(rig: Rig) -> None:
    device = rig.map("a")
    load = rig.start_verifying(device, 600)  # longer than both traces take
    said = rig.vm.run("wssctl --json trace --interval 1 --count 2", 60).stdout.splitlines()
    assert len(said) == 2
    kinds = json.loads(said[-1])["session0"]["kinds"]
    for kind in ("read", "write"):
        stages, classes = kinds[kind]["stages"], kinds[kind]["classes"]
        assert set(stages) == {"block", "map", "post", "remote", "finish", "total"}
        assert set(classes) == {"kernel", "WSS and SRP", "communication"}
        assert 0.9 < sum(classes.values()) < 1.1, classes
        assert 0 < stages["total"]["p50_us"] <= stages["total"]["p99_us"]
    assert rig.vm.run(f"cat {DEBUGFS}/wss/measure").stdout.strip() == "0"
    table = rig.vm.run("wssctl trace --interval 3 --count 1", 60).stdout
    assert "session0, 3.0 s" in table and "remote" in table, table
    load.signal(signal.SIGINT)
    rig.end_verified(load, interrupted=True)
