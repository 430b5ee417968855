# SPDX-License-Identifier: Apache-2.0
"""wssbench: its commands measure and describe what they claim, keep finished results when interrupted, and refuse wrong
arguments."""

import argparse
import json
import re
import signal
import statistics
import subprocess
import time

import pytest

from tests.bench.figures import core, everything, lab, ramp, report, scaling

from .programs import BUILD, Target, run

WSSBENCH = BUILD / "wssbench"
BRIEF = ("--seconds", "0.2", "--warm-up", "0.05", "--no-progress")
SHORT = (*BRIEF, "--repeats", "1")


def figure(*words, expect=0, timeout=120, repeats=1) -> dict:
    done = run(WSSBENCH, *words, "--json", *BRIEF, "--repeats", repeats, check=False, timeout=timeout)
    assert done.returncode == expect, f"{words}: exit {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr}"
    return json.loads(done.stdout)


def rates(result: dict) -> list[float]:
    assert all("error" not in row for row in result["rows"]), result["rows"]
    return [row["rate"] for row in result["rows"]]


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
def test_an_echo_answers_on_every_connection(fabric):
    result = figure("echo", "--fabric", fabric, "--connections", "1,3", "--size", "512,64K", "--operation", "read,write", "--pinning", "on", "--depth", "4")
    assert len(rates(result)) == 8 and min(rates(result)) > 0
    assert all(row["server_cpu_us"] >= 0 and row["latency_us"] > 0 for row in result["rows"])
    assert result["measured"] == "seconds" and "median of 1" in result["method"], "no number without its method"


@pytest.mark.parametrize("method", ["static", "dynamic", "aio", "uring", "ram"])
def test_local_and_remote_io_work_by_each_method(method, tmp_path):
    common = ("--method", method, "--size", "512", "--file-size", "8M", "--directory", tmp_path)
    assert min(rates(figure("local", "--threads", "1,5", "--operation", "read,write", *common))) > 0
    result = figure("remote", "--fabric", "shm", "--connections", "2", "--depth", "3", "--no-bounds", "--pattern", "random,sequential", *common)
    assert len(rates(result)) == 4
    assert list(tmp_path.iterdir()) == [], "files of a run end with it"


def test_remote_io_is_held_against_the_smaller_of_local_io_and_echo(tmp_path):
    result = figure("remote", "--fabric", "tcp", "--method", "aio", "--connections", "1", "--depth", "8", "--size", "4K", "--operation", "read", "--file-size", "8M",
                    "--directory", tmp_path, repeats=3)  # fmt: skip
    [row] = result["bounds"]
    assert row["bound"] == min(row["local"], row["echo"]) == result["bound"]
    turns = {line["what"]: line["turns"] for line in result["rows"]}
    assert turns.keys() == {"local", "echo", "remote"}
    pairs = [remote / min(others) for remote, *others in zip(*(turns[what]["rate"] for what in ("remote", "local", "echo")))]
    assert len(pairs) == 3 and row["ratio"] == pytest.approx(statistics.median(pairs)), "of the turns, not of medians of different ones"
    assert row["ratio_spread_percent"] == pytest.approx(100 * max(abs(pair / row["ratio"] - 1) for pair in pairs)) and result["ratio"] == row["ratio"]
    assert row["ratio_same_method"] == pytest.approx(row["ratio"]), "there is one method"
    by_cpu = {what: [1e6 / max(sides) for sides in zip(*(values for key, values in turns[what].items() if key.endswith("cpu_us")))] for what in turns}
    assert row["ratio_by_cpu"] == pytest.approx(statistics.median(remote / min(others) for remote, *others in zip(by_cpu["remote"], by_cpu["local"], by_cpu["echo"])))
    assert "same turn" in result["method"]


def test_a_target_that_runs_already_is_measured(tmp_path):
    with Target(f"shm://{tmp_path}/t", {"mine": "ram:8M"}, tmp_path) as target:
        result = figure("remote", "--target", target.address, "--volume", "mine", "--file-size", "8M", "--method", "ram", "--fabric", "shm", "--connections", "1")
    assert min(rates(result)) > 0


def test_a_trace_is_replayed_to_its_end_and_a_generated_one_can_be_written(tmp_path):
    trace = tmp_path / "q3.txt"
    run(WSSBENCH, "replay", "--write", trace, "--size", "16K", "--accesses", "500", "--file-size", "8M")
    assert len(trace.read_text().splitlines()) == 501
    result = figure("replay", trace, "--threads", "4", "--file-size", "8M", "--directory", tmp_path)
    assert {row["where"] for row in result["rows"]} == {"local", "shm"}
    for row in result["rows"]:
        assert row["run_seconds"] == pytest.approx(500 / row["rate"], rel=0.01)


def test_a_trace_of_several_volumes_and_writes_is_understood(tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("# two volumes\nR 0 0 4096\nW 7 1048576 512  # far\n\nR 7 0 131072\n")
    result = figure("replay", trace, "--threads", "2", "--file-size", "8M", "--directory", tmp_path)
    assert all(row["bytes"] == 131072 for row in result["rows"]) and min(rates(result)) > 0


@pytest.mark.parametrize("line, said", [("R 0 x 1", "line 2"), ("Q 0 0 512", "line 2"), ("R 0 0 100", "multiples of 512"), ("R 0 0 2097152", "1 MiB")])
def test_a_broken_trace_is_refused_by_line(tmp_path, line, said):
    trace = tmp_path / "trace.txt"
    trace.write_text(f"R 0 0 4096\n{line}\n")
    done = run(WSSBENCH, "replay", trace, check=False)
    assert done.returncode == 1 and said in done.stderr


@pytest.mark.parametrize("command", ["net", "mr", "burst", "scsi"])
def test_the_figures_of_the_fabric_alone_have_every_point(command):
    result = figure(command, "--size", "4K", "--fabric", "shm,tcp")
    assert min(rates(result)) > 0
    assert {row["fabric"] for row in result["rows"]} == {"shm", "tcp"}
    assert result["paper_values"], "the paper's own values stand beside ours"


def test_one_operation_of_the_network_can_be_measured_alone():
    result = figure("net", "--operation", "rdma read", "--size", "4K", "--fabric", "shm")
    assert {row["operation"] for row in result["rows"]} == {"rdma read"} and min(rates(result)) > 0


@pytest.mark.parametrize("words, code, said", [
    (("echo", "--fabric", "morse"), 2, "--fabric"),
    (("net", "--operation", "morse"), 2, "--operation"),
    (("mlockv", "--rdma", "morse"), 2, "--rdma"),
    (("echo", "--size", "7"), 1, "between 8 and 1M"),
    (("echo", "--fabric", "rdma", "--connections", "1"), 1, "--address"),
    (("local", "--path", "/nonexistent/file"), 1, "/nonexistent/file"),
    (("remote", "--target", "tcp://127.0.0.1:1", "--fabric", "tcp", "--connections", "1"), 1, "127.0.0.1:1"),
    (("ramp", "sideways"), 2, "sideways"),
    (("all",), 2, "--out"),
    (("scaling", "sideways"), 2, "sideways"),
    ((), 2, "subcommand"),
])  # fmt: skip
def test_bad_use_says_what_is_wrong(words, code, said, tmp_path):
    done = run(WSSBENCH, *words, *SHORT, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("command", ["echo", "remote"])
def test_connections_without_open_files_for_them_are_refused_at_once(command, tmp_path):
    words = (command, "--fabric", "tcp", "--connections", "400", "--directory", tmp_path, *(("--method", "ram", "--no-bounds") if command == "remote" else ()))
    done = run("bash", "-c", 'ulimit -n 256 && exec "$@"', "-", WSSBENCH, *words, *SHORT, check=False, timeout=60)
    assert done.returncode == 1 and "ulimit -n" in done.stderr, done.stderr


def test_an_interruption_keeps_what_is_done(tmp_path):
    command = [str(word) for word in (WSSBENCH, "local", "--json", "--method", "ram", "--threads", "1,2,3,4", "--seconds", "0.3", "--repeats", "100", "--file-size", "8M",
                                      "--directory", tmp_path)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "about" in process.stderr.readline(), "progress, with an estimate of the time left"
    time.sleep(2.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    result = json.loads(output)
    assert process.returncode == 1 and result["interrupted"]
    assert result["rows"] and result["rows"][0]["rate"] > 0
    assert list(tmp_path.iterdir()) == []


def test_ramp_shows_throughput_server_processor_and_fallbacks():
    result = figure("ramp", "transports", "--quick", timeout=180)
    assert result["figure"] == "ramp-transports" and min(rates(result)) > 0
    assert all({"server_cpu_us", "fallback_percent"} <= row.keys() for row in result["rows"])


def test_the_report_holds_everything_in_one_file(tmp_path):
    out = tmp_path / "report"
    done = run(WSSBENCH, "all", "--out", out, "--only", "net", "mr", "--quick", "--no-progress", timeout=240)
    results = json.loads((out / "results.json").read_text())
    assert [figure["figure"] for figure in results] == ["net", "mr"] and "2 of 2" in done.stdout
    assert all({"figure", "rows", "bound", "ratio", "method"} <= figure.keys() for figure in results)
    page = (out / "report.html").read_text()
    assert page.count("<svg") >= 2 and "paper" in page and "not finished" not in page
    assert not re.search(r'(src|href)="?(http|/|\./)', page), "nothing is loaded from elsewhere"


# ---- the core of the Python side


def options(**more) -> argparse.Namespace:
    return argparse.Namespace(**{"repeats": 3, "no_progress": True, "seconds": 1, "warm_up": 0.3, **more})


def figure_of(points: list[core.Point], **more) -> core.Figure:
    return core.Figure("test", "none", "a test", "things/s", "n", ["kind"], points, **more)


def test_points_are_measured_in_turns_and_the_median_counts():
    order, values = [], iter([10, 1, 30, 2, 20, 3])

    def measure(name):
        order.append(name)
        return {"rate": next(values)}

    result = core.run(figure_of([core.Point({"n": name}, lambda name=name: measure(name)) for name in (1, 2)]), options())
    assert order == [1, 2] * 3
    assert [row["rate"] for row in result["rows"]] == [20, 2]
    assert result["rows"][0]["spread_percent"] == 50


def test_a_point_that_fails_leaves_the_others_alone(capsys):
    def broken():
        raise RuntimeError("out of luck")

    result = core.run(figure_of([core.Point({"n": 1}, broken), core.Point({"n": 2}, lambda: {"rate": 5})]), options())
    assert result["rows"] == [{"n": 1, "error": "out of luck"}, {"n": 2, "rate": 5, "min": 5, "max": 5, "spread_percent": 0.0, "repeats": 3, "turns": {"rate": [5] * 3}}]
    assert core.show(result, as_json=True) == 1


def test_a_plot_has_a_line_for_each_system_and_the_papers_points():
    rows = [{"system": system, "bytes": size, "n": n, "rate": n * 10} for system in ("a", "b") for size in (512, 4096) for n in (1, 2)]
    plots = report.groups_of({"rows": rows, "series": ["system", "none", "bytes"], "x": "n"})
    assert plots.keys() == {"bytes 512", "bytes 4096"}
    assert plots["bytes 512"] == {"a": [(1, 10), (2, 20)], "b": [(1, 10), (2, 20)]}


def test_a_papers_value_stands_in_the_plots_that_it_may_be_compared_with():
    rows = [{"system": "a", "bytes": size, "operation": operation, "n": 1, "rate": 10} for size in (512, 4096) for operation in ("read", "write")]
    value = {"text": "…", "x": 1, "value": 7, "series": "static", "where": {"bytes": 512, "operation": "read"}}
    result = {"rows": rows, "series": ["system", "none", "bytes", "operation"], "x": "n", "paper_values": [value]}
    assert report.papers_points(result, "bytes 512, operation read") == {"paper static": [(1, 7)]}
    for plot in ("bytes 512, operation write", "bytes 4096, operation read"):
        assert report.papers_points(result, plot) == {}


def test_further_numbers_of_a_row_are_medians_too(tmp_path):
    result = figure("mr", "--fabric", "shm", "--size", "4K", repeats=3)
    for row in result["rows"]:
        assert row["mlock_us"] == pytest.approx(statistics.median(row["turns"]["mlock_us"]), rel=1e-3) and len(row["turns"]["mlock_us"]) == 3


def test_a_single_run_has_no_spread():
    assert core.summary([{"rate": 5}])["spread_percent"] is None
    assert figure("net", "--operation", "ping-pong", "--size", "8", "--fabric", "shm")["rows"][0]["spread_percent"] is None


def test_a_ratio_is_doubted_that_varies_that_has_few_turns_or_exceeds_its_limit():
    def doubted(*ratios: float, **more) -> list[str]:
        low, high = core.interval_of_median(list(ratios))
        row = {"fabric": "tcp", "ratio": statistics.median(ratios), "ratio_low": low, "ratio_high": high}
        return core.doubts({"figure": "f", "series": ["fabric"], "rows": [{"repeats": len(ratios)}], "bounds": [row], **more})

    steady = (0.9, 0.91, 0.92, 0.9, 0.91, 0.9, 0.92)
    assert doubted(*steady) == []
    assert [line for line in doubted(0.5, 0.9, 1.8, 0.4, 2.0) if "95 % interval" in line and line.startswith("tcp")]
    assert [line for line in doubted(0.9, 0.91, 0.9) if "fewer than" in line]
    assert doubted(*(6 * ratio for ratio in steady)) == [], "some bounds are ratios of a paper, which may be exceeded"
    assert [line for line in doubted(*(6 * ratio for ratio in steady), bound_is_limit=True) if "exceeds" in line]


def test_growth_beyond_the_logarithm_is_seen():
    def ratio(first: list[float], last: list[float]) -> float:
        costs = ((1000, first), (1_000_000, last))
        result = {"rows": [{"of": "keys", "count": count, "cpu_us": 1, "server_mib": 10.0, "turns": {"cpu_us": cost}} for count, cost in costs]}
        scaling.judge(result)
        return result["ratio"]

    assert ratio([1], [1.5]) > 1 > ratio([1], [3])
    assert ratio([1, 10, 1], [1.5, 15, 15]) == ratio([1], [1.5]), "a machine that was slow for a whole turn"


def test_systems_are_compared_turn_by_turn():
    def row(system: str, *rates: float) -> dict:
        return {"system": system, "n": 8, **core.summary([{"rate": rate} for rate in rates])}

    result = {"rows": [row("base", 100, 10, 20), row("ours", 200, 20, 200)]}
    ramp.compare("n", 8, "base", {"ours": 2.5})(result)
    assert result["ratio"] == 2 and result["bounds"][0]["rate"] == 200


# ---- the figures of the lab: the machine delivers each separately


def part_of(figure: str, network: str, rate: float, kernel: str = "6.1.0") -> bytes:
    rows = [{"operation": "read", "bytes": 4096, "rate": rate}]
    return json.dumps({"figure": figure, "kernel": kernel, "network": network, "measured": {"rows": rows, "bounds": [], "bound": 1.7, "ratio": rate}}).encode() + b"\n"


def test_what_comes_out_of_the_machine_in_pieces_is_put_together():
    said = []
    measured = lab.Measured(3, said.append)
    stream = part_of("mlockv", "rxe", 1) + part_of("raw", "rxe", 2) + part_of("mlockv", "siw", 3) + part_of("mlockv", "rxe", 2, "6.12")
    for offset in range(0, len(stream), 7):
        measured.take(stream[offset : offset + 7], True)
        measured.take(b"lab: ra"[offset:offset + 7], False)
    measured.take(b"w\nnoise\n", False)
    assert said == ["raw"]
    figure = measured.figure("mlockv")
    assert [(row["kernel"], row["network"], row["rate"]) for row in figure["rows"]] == [("6.1.0", "rxe", 1), ("6.1.0", "siw", 3), ("6.12", "rxe", 2)]
    assert figure["ratio"] == 1 and "interrupted" not in figure, "the first one's, not the best"
    assert measured.figure("raw")["interrupted"], "one part of three"
    assert measured.figure("block") is None


def test_on_this_machine_itself_no_other_is_booted(tmp_path, monkeypatch):
    def no_machine(*_):
        raise AssertionError("a virtual machine")

    for name, value in {"LAB": "host", "WSS_LAB_ADDRESS": "127.0.0.1", "BUILD": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(lab, "Lab", no_machine)
    monkeypatch.setattr("tests.lab.lab.Lab", no_machine)
    monkeypatch.setattr(lab, "guest_words", lambda *_: ["printf", "%s", part_of("raw", "this machine's", 5).decode()])
    (module := tmp_path / "wss.ko").touch()
    wanted = options(build=tmp_path, module=module, quick=True, rdma=["siw"])
    result = lab.figure("raw", wanted)
    assert result["measured"] == "seconds" and [(row["network"], row["rate"]) for row in result["rows"]] == [("this machine's", 5)]
    wanted.kernel_argument = ["quiet"]
    with pytest.raises(lab.NoLab, match="--kernel-argument"):
        lab.figure("raw", wanted)


@pytest.mark.parametrize("end", [KeyboardInterrupt(), lab.NoLab("the machine died")])
def test_what_the_lab_measured_before_its_end_is_kept(end, tmp_path, monkeypatch):
    boots = []

    def run_guest(names, _, measured):
        boots.append(names)
        measured.take(part_of("mlockv", "rxe", 1) + part_of("raw", "rxe", 2) + b'{"figure": "blo', True)
        raise end

    monkeypatch.setattr(lab, "run_guest", run_guest)
    status = everything.make(options(out=tmp_path, only=["mlockv", "raw", "block"], no_lab=False, quick=True, rdma=None))
    results = {result["figure"]: result for result in json.loads((tmp_path / "results.json").read_text())}
    assert status == 1 and boots == [["mlockv", "raw", "block"]], "one boot, even if it ended early"
    assert results["mlockv"]["rows"][0]["rate"] == 1 and results["raw"]["rows"][0]["rate"] == 2
    assert not results.get("block", {}).get("rows")
    assert "not measured" in (page := (tmp_path / "report.html").read_text()).lower() or "not finished" in page
