# SPDX-License-Identifier: Apache-2.0
"""The part of wssbench's driver figures that runs inside the machine."""

from __future__ import annotations

import json

from tests.lab.vm import Vm

GUEST = "python3 -B tests/bench/measurers/lab_guest.py --build $BUILD --module $BUILD/kernel/wss.ko --quick --seconds 0.5 --mib 48 --figures"


def test_wssbench_measures_the_driver(vm: Vm) -> None:
    said = vm.run(f"{GUEST} mlockv block breakdown", 600).stdout
    parts = [json.loads(line) for line in said.splitlines()]
    assert [(part["figure"], part["network"]) for part in parts] == [("mlockv", "rxe"), ("block", "rxe"), ("breakdown", "rxe")], "each figure must be a separate line"
    figures = {part["figure"]: part["measured"] for part in parts}
    assert not [figure["error"] for figure in figures.values() if "error" in figure]
    regions = {(row["registered"], row["operation"]): row["regions_per_request"] for row in figures["mlockv"]["rows"]}
    assert regions == {("one region", "read"): 1, ("one region", "write"): 1, ("one region a segment", "read"): 32, ("one region a segment", "write"): 32}
    assert [row["network_alone"] > 0 and row["ratio"] > 0 for row in figures["mlockv"]["bounds"]] == [True, True]
    assert {row["pieces"] for row in figures["mlockv"]["rows"]} == {2, 8, 32}, "a quick run has three points of each axis"
    assert {(row["where"], row["operation"]) for row in figures["block"]["rows"] if row["of_model"] > 0} == {
        (where, operation) for where in ("device", "file") for operation in ("write", "rewrite", "read")}
    assert {bound["operation"] for bound in figures["block"]["bounds"] if 0 < bound["ratio_to_net"] < bound["ratio"]} == {"read", "write"}
    reads = [row for row in figures["block"]["rows"] if row["operation"] == "read"]
    assert {row["bytes"] for row in reads} == {4096, 65536, 1 << 20} and all(row["reached_percent"] >= 99 for row in reads), "reads must reach the target"
    assert {row["stage"] for row in figures["breakdown"]["rows"]} >= {"map", "post", "remote", "finish", "total"}
