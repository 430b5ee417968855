# SPDX-License-Identifier: Apache-2.0
"""wssbench cache-sim compares the cache's replacement policy with LRU, ARC and the optimum, on traces of the
loads for which it is intended."""

import json

import pytest

from .programs import BUILD, run

WSSBENCH = BUILD / "wssbench"


def hit_ratios(*words) -> dict[str, dict[str, float]]:
    rows = json.loads(run(WSSBENCH, "cache-sim", "--json", *words, timeout=120).stdout)["traces"]
    return {row["trace"]: row["hit_ratio"] for row in rows}


@pytest.mark.parametrize("seed", [1, 2])
def test_policy_hits_at_least_as_often_as_arc_on_each_kind_of_trace(seed):
    ratios = hit_ratios("--seed", seed, "--cache-percent", 10, "--kind", "zipf", "--kind", "zipf-scan", "--kind", "loops")
    assert set(ratios) == {"zipf-0.99", "zipf-scan", "tpch-loops"}
    for trace, ratio in ratios.items():
        assert ratio["wss"] >= ratio["arc"], trace
        assert ratio["arc"] >= ratio["lru"], f"{trace}: ARC must be at least as good as LRU"
        assert ratio["belady"] >= max(ratio.values()), f"{trace}: no policy may exceed the optimum"


def test_policy_stays_within_5_points_of_arc_on_a_moving_working_set():
    ratios = hit_ratios("--lines", 20000, "--accesses", 400000, "--kind", "shifting-zipf", "--kind", "sliding-set")
    for trace, ratio in ratios.items():
        assert ratio["wss"] >= ratio["arc"] - 0.05, trace


def test_recorded_trace_yields_the_hit_ratios_of_the_generated_one(tmp_path):
    words = ("--lines", 2000, "--accesses", 20000, "--kind", "zipf")
    run(WSSBENCH, "cache-sim", "--write", tmp_path, *words)
    generated = hit_ratios(*words)["zipf-0.99"]
    assert hit_ratios("--trace", tmp_path / "zipf-0.99.txt")[str(tmp_path / "zipf-0.99.txt")] == generated


def test_access_to_two_lines_counts_once_per_line(tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("# two lines of 64 KiB, then the second of them again\nR 0 0 131072\nW 0 65536 4096  # a hit\n")
    assert hit_ratios("--trace", trace, "--cache-percent", 100)[str(trace)]["lru"] == pytest.approx(1 / 3)


@pytest.mark.parametrize("line, said", [("R 0 x 1", "line 2"), ("Q 0 0 1", "line 2"), ("R 0 0 99999999999", "4 GiB")])
def test_wssbench_rejects_an_invalid_trace(tmp_path, line, said):
    trace = tmp_path / "trace.txt"
    trace.write_text(f"R 0 0 4096\n{line}\n")
    done = run(WSSBENCH, "cache-sim", "--trace", trace, check=False)
    assert done.returncode == 1
    assert said in done.stderr
