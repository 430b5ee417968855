# SPDX-License-Identifier: Apache-2.0
"""Tests that the commands of wssbench measure and describe what they claim, keep finished results after an
interruption, and refuse wrong arguments."""

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.bench.measurers import ceph, lab
from tests.lab.errors import LabError

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
def test_echo_works_on_every_connection(fabric):
    result = figure("echo", "--fabric", fabric, "--connections", "1,3", "--size", "512,64K", "--operation", "read,write", "--pinning", "on", "--depth", "4")
    assert len(rates(result)) == 8 and min(rates(result)) > 0
    assert all(row["server_cpu_us"] >= 0 and row["latency_us"] > 0 for row in result["rows"])
    assert result["measured"] == "seconds" and "median of 1" in result["method"], "every number needs its method"


@pytest.mark.parametrize("method", ["static", "dynamic", "aio", "uring", "ram"])
def test_local_and_remote_io_work_with_each_method(method, tmp_path):
    common = ("--method", method, "--size", "512", "--file-size", "8M", "--directory", tmp_path)
    assert min(rates(figure("local", "--threads", "1,5", "--operation", "read,write", *common))) > 0
    result = figure("remote", "--fabric", "shm", "--connections", "2", "--depth", "3", "--no-bounds", "--pattern", "random,sequential", *common)
    assert len(rates(result)) == 4
    counted = {(row["pattern"], row["operation"]) for row in result["rows"] if "reached_percent" in row}
    assert counted == (set() if method == "ram" else {("random", "read"), ("sequential", "read")}), "reads of storage must be proved by counters"
    assert list(tmp_path.iterdir()) == [], "a run must remove its files"


def test_remote_io_is_compared_with_the_slower_of_local_io_and_echo(tmp_path):
    result = figure("remote", "--fabric", "tcp", "--method", "aio", "--connections", "1", "--depth", "8", "--size", "4K", "--operation", "read", "--file-size", "8M",
                    "--directory", tmp_path, repeats=3)  # fmt: skip
    [row] = result["bounds"]
    assert row["bound"] == min(row["local"], row["echo"]) == result["bound"]
    turns = {line["what"]: line["turns"] for line in result["rows"]}
    assert turns.keys() == {"local", "echo", "remote"}
    pairs = [remote / min(others) for remote, *others in zip(*(turns[what]["rate"] for what in ("remote", "local", "echo")))]
    assert len(pairs) == 3 and row["ratio"] == pytest.approx(statistics.median(pairs)), "the ratio must be computed within each turn"
    assert row["ratio_spread_percent"] == pytest.approx(100 * max(abs(pair / row["ratio"] - 1) for pair in pairs)) and result["ratio"] == row["ratio"]
    assert row["ratio_same_method"] == pytest.approx(row["ratio"]), "all rows use the same method"
    by_cpu = {what: [1e6 / max(sides) for sides in zip(*(values for key, values in turns[what].items() if key.endswith("cpu_us")))] for what in turns}
    assert row["ratio_by_cpu"] == pytest.approx(statistics.median(remote / min(others) for remote, *others in zip(by_cpu["remote"], by_cpu["local"], by_cpu["echo"])))
    assert "same turn" in result["method"]


def test_remote_can_measure_a_running_target(tmp_path):
    with Target(f"shm://{tmp_path}/t", {"mine": "ram:8M"}, tmp_path) as target:
        result = figure("remote", "--target", target.address, "--volume", "mine", "--file-size", "8M", "--method", "ram", "--fabric", "shm", "--connections", "1")
    assert min(rates(result)) > 0


def test_replay_executes_a_complete_trace_and_can_write_a_generated_one(tmp_path):
    trace = tmp_path / "q3.txt"
    run(WSSBENCH, "replay", "--write", trace, "--size", "16K", "--accesses", "500", "--file-size", "8M")
    assert len(trace.read_text().splitlines()) == 501
    result = figure("replay", trace, "--threads", "4", "--file-size", "8M", "--directory", tmp_path)
    assert {row["where"] for row in result["rows"]} == {"local", "shm"}
    for row in result["rows"]:
        assert row["run_seconds"] == pytest.approx(500 / row["rate"], rel=0.01)
        assert not [key for key in row if "cpu" in key], "processor time would include connecting"
    assert "without warm-up" in result["method"] and "after" not in result["method"]


def test_replay_accepts_a_trace_with_two_volumes_and_writes(tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text("# two volumes\nR 0 0 4096\nW 7 1048576 512  # far\n\nR 7 0 131072\n")
    result = figure("replay", trace, "--threads", "2", "--file-size", "8M", "--directory", tmp_path)
    assert all(row["bytes"] == 131072 for row in result["rows"]) and min(rates(result)) > 0


def test_affinity_runs_a_query_with_each_placement(tmp_path):
    result = figure("affinity", "--nodes", "3", "--hot", "34,100", "--accesses", "600", "--fabric", "tcp,shm", "--file-size", "8M", "--directory", tmp_path)
    assert min(rates(result)) > 0
    queries = {(row["fabric"], row["hot_percent"], row["placement"]): row for row in result["rows"] if row["what"] == "query"}
    assert len(queries) == 16 and len(result["rows"]) == 22
    for (_, _, placement), row in queries.items():
        assert row["run_seconds"] == pytest.approx(600 / row["rate"], rel=0.01), "each access is counted once"
        if placement in ("local", "remote"):
            assert row["remote_percent"] == (100 if placement == "remote" else 0)
        if placement == "ours" and row["policy"] == "affinity":
            assert row["remote_percent"] < 100, "every home must run operators of its own"
    assert {(bound["fabric"], bound["hot_percent"]) for bound in result["bounds"]} == {(fabric, hot) for fabric in ("tcp", "shm") for hot in (34, 100)}
    assert "3 nodes on this machine" in result["method"] and "1000 us" in result["method"]
    assert list(tmp_path.iterdir()) == []


def test_affinity_accepts_devices_of_its_own_and_a_trace(tmp_path):
    (trace := tmp_path / "trace.txt").write_text("R 0 0 4096\nW 1 1048576 512\n" * 40)
    devices = [tmp_path / "d0", tmp_path / "d1"]
    for device in devices:
        device.write_bytes(bytes(4 << 20))
    result = figure("affinity", trace, "--nodes", "2", "--hot", "50", "--path", ",".join(map(str, devices)), "--stray", "10")
    assert min(rates(result)) > 0 and "a device of its own" in result["method"]
    done = run(WSSBENCH, "affinity", "--nodes", "3", "--path", devices[0], *SHORT, check=False)
    assert done.returncode == 1 and "1 devices for 3 nodes" in done.stderr


def test_wssbench_pollers_measures_both_methods_with_each_number_of_pollers(tmp_path):
    result = figure("pollers", "--quick", "--directory", tmp_path)
    assert min(rates(result)) > 0 and list(tmp_path.iterdir()) == []
    assert {(row["what"], row["pollers"]) for row in result["rows"]} == {*((what, n) for what in ("wait", "remote") for n in (0, 1, 4)), ("dispatch", 0)}
    assert {row["method"] for row in result["rows"]} == {"static", "dynamic"}
    assert len(result["bounds"]) == len(result["rows"]) / 2 and result["bound"] == 32


@pytest.mark.parametrize("line, said", [("R 0 x 1", "line 2"), ("Q 0 0 512", "line 2"), ("R 0 0 100", "multiples of 512"), ("R 0 0 2097152", "1 MiB")])
def test_wssbench_rejects_an_invalid_trace(tmp_path, line, said):
    trace = tmp_path / "trace.txt"
    trace.write_text(f"R 0 0 4096\n{line}\n")
    done = run(WSSBENCH, "replay", trace, check=False)
    assert done.returncode == 1 and said in done.stderr


@pytest.mark.parametrize("command", ["net", "mr", "burst", "scsi"])
def test_fabric_figures_have_every_point(command):
    result = figure(command, "--size", "4K", "--fabric", "shm,tcp")
    assert min(rates(result)) > 0
    assert {row["fabric"] for row in result["rows"]} == {"shm", "tcp"}
    assert result["cards"] and all(card["quoted"] for card in result["cards"]), "the result must include the paper's values"
    assert {row["badge"] for row in result["rows"]} == {"memory copy"}


def test_net_can_measure_a_single_operation():
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
    (("affinity", "--nodes", "1"), 2, "--nodes"),
    ((), 2, "subcommand"),
])  # fmt: skip
def test_error_for_invalid_usage_names_the_problem(words, code, said, tmp_path):
    done = run(WSSBENCH, *words, *SHORT, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr


@pytest.mark.parametrize("command", ["echo", "remote"])
def test_wssbench_refuses_more_connections_than_the_limit_of_open_files_allows(command, tmp_path):
    words = (command, "--fabric", "tcp", "--connections", "400", "--directory", tmp_path, *(("--method", "ram", "--no-bounds") if command == "remote" else ()))
    done = run("bash", "-c", 'ulimit -n 256 && exec "$@"', "-", WSSBENCH, *words, *SHORT, check=False, timeout=60)
    assert done.returncode == 1 and "ulimit -n" in done.stderr, done.stderr


def test_interrupted_figure_keeps_its_finished_rows(tmp_path):
    command = [str(word) for word in (WSSBENCH, "local", "--json", "--method", "ram", "--threads", "1,2,3,4", "--seconds", "0.3", "--repeats", "100", "--file-size", "8M",
                                      "--directory", tmp_path)]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "about" in process.stderr.readline(), "the progress must include an estimate of the remaining time"
    time.sleep(2.5)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    result = json.loads(output)
    assert process.returncode == 1 and result["interrupted"]
    assert result["rows"] and result["rows"][0]["rate"] > 0
    assert list(tmp_path.iterdir()) == []


def test_ramp_shows_throughput_and_server_cpu_time_and_fallbacks():
    result = figure("ramp", "transports", "--quick", timeout=180)
    assert result["figure"] == "ramp-transports" and min(rates(result)) > 0
    assert all({"server_cpu_us", "fallback_percent"} <= row.keys() for row in result["rows"])


def test_report_is_a_single_self_contained_file(tmp_path):
    out = tmp_path / "report"
    done = run(WSSBENCH, "all", "--out", out, "--only", "net", "mr", "--quick", "--no-progress", timeout=240)
    results = json.loads((out / "figures.json").read_text())
    assert [figure["figure"] for figure in results] == ["net", "mr"] and "2 of 2" in done.stdout
    assert all({"figure", "rows", "bound", "ratio", "method"} <= figure.keys() for figure in results)
    cards = {card["paper_figure"]: card for card in json.loads((out / "results.json").read_text())}
    assert len(cards) == 34 and [name for name, card in cards.items() if "measured" in card] == ["D8", "D9", "D10"]
    assert all(card["not_measured"] and card["verdict"].startswith("not measured: ") for card in cards.values() if "measured" not in card)
    points = [point for line in cards["D9"]["measured"] for point in line["points"]]
    assert points and all(point["badge"] == "memory copy" and point["y"] > 0 and len(point["turns"]) == 1 for point in points)
    assert "fewer than 5 turns" in cards["D9"]["verdict"] and cards["D9"]["y"] == "µs"
    page = (out / "report.html").read_text()
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])
    assert data["cards"] == list(cards.values()) + data["cards"][len(cards) :] and [one["rows"] for one in data["figures"]] == [one["rows"] for one in results]
    assert not any("not finished" in remark for remark in data["remarks"])
    (out / "report.html").unlink()
    run(WSSBENCH, "report", out)
    assert len((out / "report.html").read_text()) > len(page) / 2
    assert not re.search(r'(src|href)="?(http|/|\./)', page), "the page must load nothing"


def test_resumed_run_keeps_finished_figures_and_measures_the_others(tmp_path):
    run(WSSBENCH, "all", "--out", tmp_path, "--only", "mr", "--quick", "--no-progress")
    first = json.loads((tmp_path / "figures.json").read_text())
    run(WSSBENCH, "all", "--out", tmp_path, "--only", "mr", "net", "--quick", "--no-progress", "--resume", timeout=240)
    both = {figure["figure"]: figure for figure in json.loads((tmp_path / "figures.json").read_text())}
    assert both.keys() == {"mr", "net"} and [both["mr"]] == first
    run(WSSBENCH, "all", "--out", tmp_path, "--only", "mr", "--quick", "--no-progress")
    assert json.loads((tmp_path / "figures.json").read_text()) != first, "without --resume everything is measured again"


def test_every_number_of_a_row_is_a_median(tmp_path):
    result = figure("mr", "--fabric", "shm", "--size", "4K", repeats=3)
    for row in result["rows"]:
        assert row["mlock_us"] == pytest.approx(statistics.median(row["turns"]["mlock_us"]), rel=1e-3) and len(row["turns"]["mlock_us"]) == 3


def test_scaling_measures_each_kind_that_its_arguments_name():
    result = figure("scaling", "volumes", "engines", "--quick", timeout=180)
    assert {(row["of"], row["count"]) for row in result["rows"]} == {("volumes", 1), ("volumes", 16), ("volumes", 256), ("engines", 1), ("engines", 4)}
    assert min(rates(result)) > 0
    assert "the part keys: 1 s after 1 s of warm-up, not pinned" in result["method"]
    assert all(row["cpu_us"] == pytest.approx(row["client_cpu_us"] + row["server_cpu_us"], rel=1e-3) and row["server_mib"] > 0 for row in result["rows"])
    assert {bound["of"] for bound in result["bounds"]} == {"volumes", "engines"} and result["ratio"] == min(bound["ratio"] for bound in result["bounds"])


# ---- An installed wssbench, without the source tree


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder of the installed programs."""
    root = tmp_path_factory.mktemp("installed")
    run("make", "-o", "programs", "install", "PREFIX=/usr", f"DESTDIR={root}", f"BUILD={BUILD}", cwd=Path(__file__).resolve().parents[2], timeout=120)
    return root / "usr/bin"


@pytest.fixture
def elsewhere(tmp_path) -> dict:
    """Options for run(), so that a process finds neither the source tree nor the build."""
    environment = {name: value for name, value in os.environ.items() if name != "WSS_SOURCE"}
    return {"cwd": tmp_path, "env": {**environment, "PATH": "/usr/bin:/bin"}}


def test_installed_wssbench_runs_figures_of_other_programs(installed, elsewhere, tmp_path):
    done = run(installed / "wssbench", "all", "--out", "report", "--only", "mr", "ramp-transports", *SHORT, "--quick", timeout=240, **elsewhere)
    results = {result["figure"]: result for result in json.loads((tmp_path / "report/figures.json").read_text())}
    assert results.keys() == {"mr", "ramp-transports"} and "2 of 2" in done.stdout
    assert all(rates(result) for result in results.values())
    assert results["ramp-transports"]["command"].startswith("wssbench ramp transports --quick")
    assert "left out" not in done.stderr + (tmp_path / "report/report.html").read_text()


def test_installed_wssbench_all_omits_figures_that_need_the_source_tree(installed, elsewhere, tmp_path):
    process = subprocess.Popen([installed / "wssbench", "all", "--out", "report", "--quick"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **elsewhere)
    remark, progress = process.stderr.readline(), process.stderr.readline()
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert remark.startswith("wssbench: all: left out: mlockv, raw, block, breakdown: ") and "WSS_SOURCE" in remark
    assert "local, 1 of 17" in progress and "of 17 figures" in output
    assert "left out: mlockv" in (tmp_path / "report/report.html").read_text()
    assert process.returncode == 1


@pytest.mark.parametrize("words", [("raw",), ("ceph",), ("all", "--out", "report", "--only", "net", "raw")])
def test_installed_wssbench_refuses_a_figure_that_needs_the_source_tree(installed, elsewhere, tmp_path, words):
    done = run(installed / "wssbench", *words, check=False, timeout=30, **elsewhere)
    assert done.returncode == 1 and words[-1] in done.stderr
    assert "needs the source tree" in done.stderr and "WSS_SOURCE" in done.stderr
    assert not list(tmp_path.iterdir())


# ---- Figures of the driver. A measurer in the source tree prints them one after another.


def measurer(tree: Path, program: str) -> dict:
    """Options for run(), so that wssbench has a source tree with `program` as the lab's measurer."""
    folder = tree / "tests/bench/measurers"
    folder.mkdir(parents=True)
    (folder / "lab.py").write_text(textwrap.dedent(program))
    return {"env": {**os.environ, "WSS_SOURCE": str(tree)}}


PART = 'print(json.dumps({"figure": "%s", "kernel": "6.1.0", "network": "rxe", "measured": {"rows": [{"operation": "read", "bytes": 4096, "rate": %d}]}}), flush=True)'


def test_driver_figures_share_one_boot_and_the_finished_ones_survive_its_failure(tmp_path):
    inside = measurer(tmp_path / "tree", f"""
        import json, pathlib, sys
        with pathlib.Path("boots").open("a") as boots:
            print(sys.argv, file=boots)
        {PART % ("mlockv", 1)}
        {PART % ("raw", 2)}
        print(json.dumps({{"error": "the machine died"}}))
        sys.exit(1)
    """)  # fmt: skip
    done = run(WSSBENCH, "all", "--out", tmp_path / "out", "--only", "mlockv", "raw", "block", "--quick", "--no-progress", check=False, **inside)
    results = {result["figure"]: result for result in json.loads((tmp_path / "out/figures.json").read_text())}
    [boot] = (tmp_path / "tree/boots").read_text().splitlines()
    assert "'--figures', 'mlockv', 'raw', 'block'" in boot and "'--quick'" in boot
    assert done.returncode == 1 and "block: the machine died" in done.stderr
    assert rates(results["mlockv"]) == [1] and rates(results["raw"]) == [2]
    assert results["raw"]["measured"] == "counted instructions" and results["raw"]["command"] == "wssbench raw --quick"
    assert results["block"]["error"] == "the machine died" and "Not measured" in (tmp_path / "out/report.html").read_text()


def test_wssbench_reports_raw_io_that_is_faster_than_the_network_alone(tmp_path):
    measured = {"rows": [{"operation": "read", "bytes": 4096, "rate": 1}], "bounds": [{"operation": "read", "bound": 100, "ratio": 1.1}], "bound": 100, "ratio": 1.1}
    inside = measurer(tmp_path, f"""
        import json
        print(json.dumps({{"figure": "raw", "kernel": "6.1.0", "network": "rxe", "measured": {measured!r}}}), flush=True)
    """)  # fmt: skip
    assert "ratio 1.100 exceeds its bound" in run(WSSBENCH, "raw", "--no-progress", **inside).stdout


def test_interrupted_wssbench_all_keeps_the_figures_that_the_machine_has_measured(tmp_path):
    inside = measurer(tmp_path / "tree", f"""
        import json, sys, time
        {PART % ("raw", 2)}
        print("measured", file=sys.stderr, flush=True)
        time.sleep(60)
    """)  # fmt: skip
    process = subprocess.Popen([WSSBENCH, "all", "--out", tmp_path / "out", "--only", "mlockv", "raw", "--no-progress"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, **inside)  # fmt: skip
    assert process.stderr.readline() == "measured\n"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    [result] = json.loads((tmp_path / "out/figures.json").read_text())
    assert process.returncode == 1 and result["figure"] == "raw" and rates(result) == [2]
    assert "1 of 2 figures" in output and "not finished" in (tmp_path / "out/report.html").read_text()


def test_wssbench_passes_the_lab_options_to_its_measurer(tmp_path):
    inside = measurer(tmp_path / "tree", f"""
        import json, sys
        {PART % ("raw", 2)}
        print(sys.argv[1:], file=sys.stderr)
    """)  # fmt: skip
    done = run(WSSBENCH, "raw", "--rdma", "siw", "rxe", "--kernel", "newer", "--kernel-argument", "init_on_alloc=0", "--module", "wss.ko", "--json", check=False,
               cwd=tmp_path, **inside)  # fmt: skip
    for words in ("'--figures', 'raw'", "'--rdma', 'siw', 'rxe'", "'--kernel', 'newer'", "'--kernel-argument=init_on_alloc=0'", f"'--module', '{tmp_path}/wss.ko'"):
        assert words in done.stderr
    result = json.loads(done.stdout)
    assert result["interrupted"] and "kernel argument init_on_alloc=0" in result["method"], "the measurer printed one part of two"


def test_driver_can_be_measured_on_this_machine(tmp_path):
    inside = measurer(tmp_path / "tree", f"import json\n{PART % ('raw', 5)}")
    inside["env"]["LAB"] = "host"
    result = json.loads(run(WSSBENCH, "raw", "--rdma", "siw", "rxe", "--json", **inside).stdout)
    assert result["measured"] == "seconds" and rates(result) == [5] and "interrupted" not in result


def test_output_of_the_machine_is_forwarded_in_complete_lines():
    lines = []
    joined = lab.Lines(lines.append)
    for piece in (b"a", b"b\nc", b"d\n", b"half"):
        joined.add(piece)
    assert lines == ["ab", "cd"]


def test_measurer_boots_no_machine_if_it_measures_this_one(tmp_path, monkeypatch, capsys):
    def no_machine(*_):
        raise AssertionError("a virtual machine was created")

    for name, value in {"LAB": "host", "WSS_LAB_ADDRESS": "127.0.0.1", "BUILD": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(lab, "Lab", no_machine)
    monkeypatch.setattr("tests.lab.lab.Lab", no_machine)
    monkeypatch.setattr(lab, "guest_words", lambda *_: ["echo", "a part"])
    (module := tmp_path / "wss.ko").touch()
    options = argparse.Namespace(build=tmp_path, module=module, quick=True, no_progress=True, rdma=["siw"], kernel=["installed"], kernel_argument=[], figures=["raw"])
    lab.run(options, sys.stdout)
    assert capsys.readouterr().out == "a part\n"
    options.kernel_argument = ["quiet"]
    with pytest.raises(LabError, match="--kernel-argument"):
        lab.run(options, sys.stdout)


def test_output_of_a_measurer_contains_only_results():
    program = """
        import os
        from tests.bench.measurers import own_output, put
        output = own_output()
        os.system("echo noise")
        print("noise", flush=True)
        put(output, {"rate": 1})
    """  # fmt: skip
    done = run("/usr/bin/python3", "-B", "-c", textwrap.dedent(program), cwd=Path(__file__).resolve().parents[2])
    assert done.stdout == '{"rate": 1}\n' and done.stderr == "noise\nnoise\n"


def test_ceph_measurer_survives_a_point_without_latencies(monkeypatch):
    def no_latency(*_, **__):
        raise KeyError("latency_us")

    monkeypatch.setattr(ceph, "measure", no_latency)
    assert "latency_us" in ceph.answer(None, "", '{"way": "target"}', argparse.Namespace())["error"]
    served = ceph.Served.__new__(ceph.Served)
    served.ceph, served.cluster, served.pids, served.target = None, None, [], argparse.Namespace(address="shm:///t")
    monkeypatch.setattr(ceph, "daemons_cpu", lambda _: 0)
    monkeypatch.setattr(ceph, "remote_row", lambda *_: {"rate": 2, "client_cpu_us": 3})
    assert served.measure("write", "4K", 1, argparse.Namespace(seconds=1)) == {"rate": 2, "cpu_us": 3, "osd_us": 0}
