# SPDX-License-Identifier: Apache-2.0
"""Tests the hardware kit (`make check-hardware`) without RDMA: its parts that also work over tcp, its report,
and what an interruption leaves behind. tests/system/test_hardware_kit.py runs it over soft RDMA."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from tests.hardware.kit import Failed, chosen_pair
from tests.hardware.main import PARTS
from tests.hardware.performance import LIBWSS, NETWORK, numbers_of, ratios
from tests.hardware.report import Redactor

from .ports import free_port
from .programs import BUILD, run

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "tests/hardware/check"
ADDRESSES = ("--target-address", "127.0.0.1", "--client-address", "127.0.0.2")
# For the kit's option --ssh, a local shell stands for the other machine. Like ssh, it receives the command as
# one word.
SHELL = """sh -c 'echo connected to {host} >&2; exec sh -c "$1"' shell"""


def kit_command(out: Path, *words: str, build: Path = BUILD, where: tuple[str, ...] = ("--local", "--target", "127.0.0.1")) -> list[str]:
    return [str(KIT), *where, "--scheme", "tcp", "--quick", "--build", str(build), "--out", str(out), "--port", str(free_port()), *words]


def report_of(out: Path) -> dict:
    """Returns the JSON of the only report in the directory, with its text, its logs and the names in the archive."""
    [archive] = out.glob("report-*.tar.gz")
    with tarfile.open(archive) as tar:
        texts = {name.partition("/")[2]: tar.extractfile(name).read().decode() for name in tar.getnames()}
    report = json.loads(texts["report.json"])
    assert texts["report.md"] == archive.with_name(archive.name.replace(".tar.gz", ".md")).read_text()
    return {**report, "text": texts["report.md"], "files": texts, "states": {part["name"]: part["state"] for part in report["parts"]}}


def processes_with(text: str) -> list[str]:
    """Returns the command lines of running processes whose command line or environment contains the text."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words, environment = (path.joinpath(name).read_bytes().replace(b"\0", b" ").decode(errors="replace") for name in ("cmdline", "environ"))
        except OSError:
            continue
        if text in words + environment:
            found.append(words)
    return found


@pytest.fixture
def programs(tmp_path) -> Path:
    """A build directory that only this test uses, so that its processes can be recognised and its programs
    replaced."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("wss-target", "wss-cache", "wssctl", "kvctl", "wssbench", "nbdkit-wss-plugin.so"):
        (folder / name).symlink_to(BUILD / name)
    return folder


def test_kit_runs_its_parts_and_reports_each_with_its_measurements(tmp_path):
    done = run(*kit_command(tmp_path / "out", "--only", "io-ram", "io-cache", "io-kv", "fault-target", "perf-libwss"), timeout=300)
    report = report_of(tmp_path / "out")
    ran = {"identify", "programs", "io-ram", "io-cache", "io-kv", "fault-target", "perf-libwss"}
    assert report["states"] == {part.name: "ok" if part.name in ran else "not run" for part in PARTS}
    assert f"{len(ran)} ok, 0 failed, {len(PARTS) - len(ran)} not run" in done.stdout
    assert all(part["text"] for part in report["parts"]), "each part has what it verified, or the reason"
    points = {(one["operation"], one["bytes"], one["depth"]) for one in report["measures"] if one["iops"] > 0}
    assert {("read", 4096, 1), ("write", 4096, 32), ("read", 65536, 8), ("write", 1 << 20, 8)} <= points
    assert any("wss-target" in name for name in report["files"]), "the logs of the programs must be in the archive"
    assert re.search(r"^\| io-ram \| ok ", report["text"], re.M)
    assert not list((tmp_path / "out").glob("run-*")), "the logs are in the archive alone"


def test_failed_part_is_reported_and_stops_no_other_part(tmp_path, programs):
    (programs / "kvctl").unlink()
    (programs / "kvctl").write_text("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho no store today >&2\nexit 3\n")
    (programs / "kvctl").chmod(0o755)
    done = run(*kit_command(tmp_path / "out", "--only", "io-kv", "fault-target", build=programs), check=False, timeout=300)
    report = report_of(tmp_path / "out")
    assert done.returncode == 1, done.stdout
    assert (report["states"]["io-kv"], report["states"]["fault-target"]) == ("failed", "ok")
    [failed] = [part for part in report["parts"] if part["state"] == "failed"]
    assert "no store today" in failed["text"] and "no store today" in report["text"]
    assert "check-hardware: io-kv failed: " in done.stdout
    assert not processes_with(str(programs)), "the partitions must end with their part"


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["interrupt", "terminate"])
def test_interrupted_kit_ends_its_programs_and_still_reports(tmp_path, programs, how):
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(kit_command(tmp_path / "out", "--only", "io-ram", "perf-libwss", build=programs), stdout=output, start_new_session=True)
        try:
            deadline = time.monotonic() + 60
            while not any("wssbench remote" in words for words in processes_with(str(programs))):
                assert process.poll() is None and time.monotonic() < deadline, (tmp_path / "output").read_text()
                time.sleep(0.05)
            os.killpg(process.pid, how)
            assert process.wait(60) == 1
        finally:
            process.kill()
    report = report_of(tmp_path / "out")
    assert report["interrupted"] and report["states"]["io-ram"] == "ok" and report["states"]["perf-libwss"] == "failed"
    assert {part["text"] for part in report["parts"][-1:]} == {"the run was interrupted"}
    assert not processes_with(str(programs))


# Starts a machine, and a command on it that holds a state, as tests/hardware/holders.py does.
HOLD = """
import sys, time
from pathlib import Path
from tests.hardware.machine import Logs, Machine, local_command
machine = Machine("host", local_command, Logs(Path(sys.argv[1]) / "logs"), sys.argv[1])
machine.set_environment()
process = machine.start(f"trap 'echo restored >{sys.argv[1]}/state; exit' TERM; echo held >{sys.argv[1]}/state; echo ready; sleep 4321 & wait")
process.wait_for("ready")
print(machine.directory, flush=True)
time.sleep(600)
"""


def test_killed_kit_leaves_no_program_no_state_and_no_directory(tmp_path):
    process = subprocess.Popen([sys.executable, "-B", "-c", HOLD, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    directory = process.stdout.readline().strip()
    assert Path(directory).is_dir() and (tmp_path / "state").read_text() == "held\n"
    process.kill()
    process.wait(10)
    deadline = time.monotonic() + 40
    while Path(directory).exists():  # the last step removes it
        assert time.monotonic() < deadline, processes_with(directory)
        time.sleep(0.05)
    assert (tmp_path / "state").read_text() == "restored\n" and not processes_with(directory)


def test_kit_copies_its_programs_to_machines_that_a_command_reaches(tmp_path):
    where = ("--target", "alice@store-a", "--client", "store-b", *ADDRESSES, "--ssh", SHELL)
    done = run(*kit_command(tmp_path / "out", "--only", "io-ram", where=where), timeout=300)
    report = report_of(tmp_path / "out")
    assert report["states"]["io-ram"] == "ok" and "copied to target, client" in done.stdout
    log = next(text for name, text in report["files"].items() if re.search(r"io-ram/.*target-wss-target", name))
    assert "127.0.0.1" in log, "the target must use its own address"
    everything = "".join(report["files"].values())
    assert "connected to USER@TARGET-HOST" in everything and "connected to CLIENT-HOST" in everything
    assert "store-a" not in everything and "alice" not in everything, "names of hosts and users must be replaced"
    assert {machine["host"] for machine in json.loads(report["files"]["report.json"])["machines"]} <= {"TARGET", "CLIENT"}


def test_kit_reports_an_unreachable_machine_and_runs_nothing(tmp_path):
    ssh = "sh -c 'echo {host}: no route >&2; exit 255'"
    done = run(*kit_command(tmp_path / "out", where=("--target", "nowhere", "--ssh", ssh)), check=False, timeout=60)
    report = report_of(tmp_path / "out")
    assert done.returncode == 1 and report["states"].pop("connect") == "failed"
    assert set(report["states"].values()) == {"not run"} and "no route" in report["text"]


def test_plan_names_every_part_and_runs_nothing(tmp_path):
    done = run(*kit_command(tmp_path / "out", "--plan"), timeout=20)
    assert all(re.search(rf"\] {part.name}: would", done.stdout) for part in PARTS) and all(part.does in done.stdout for part in PARTS)
    assert "io-driver: would not run: it is off by default: DRIVER=1" in done.stdout
    assert "fault-port: would not run: it is off by default: FAULTS=1" in done.stdout
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("words", [(), ("--local",), ("--target", "a", "--ssh", "ssh a"), ("--local", "--target", "10.0.0.1", "--target-address", "10.0.0.1")])
def test_kit_rejects_incomplete_and_contradictory_options(words):
    assert run(KIT, *words, check=False).returncode == 2


def facts(*addresses: str, state: str = "4: ACTIVE") -> dict:
    return {"devices": [{"ports": [{"state": state, "netdevs": [{"addresses": [address]}]}]} for address in addresses]}


@pytest.mark.parametrize("target, client, pair", [
    (facts("10.0.0.1/24", "10.0.1.1/24"), facts("10.0.1.2/24"), ("10.0.1.1", "10.0.1.2")),
    (facts("10.0.0.1/24"), facts("10.9.0.1/24"), ("10.0.0.1", "10.9.0.1")),
    (facts("fd00::1/64"), facts("fd00::2/64"), ("[fd00::1]", "[fd00::2]")),
    (facts(), facts("10.0.0.1/24"), ("", "10.0.0.1")),
])  # fmt: skip
def test_kit_chooses_addresses_of_a_common_network(target, client, pair):
    assert chosen_pair(target, client) == pair


def test_kit_prefers_an_active_port():
    machine = {"devices": facts("10.0.0.1/24", state="1: DOWN")["devices"] + facts("10.0.1.1/24")["devices"]}
    assert chosen_pair(machine, facts()) == ("10.0.1.1", "")


def test_redactor_replaces_whole_names_only_and_no_keys():
    redact = Redactor({"db": "TARGET", "db.example": "TARGET"})
    assert redact("db db.example nbdkit db:1 rdb") == "TARGET TARGET nbdkit TARGET:1 rdb"
    assert redact.within({"db": ["db", 1]}) == {"db": ["TARGET", 1]}


PERFTEST = """---------------------------------------------------------------------------------------
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]
 4096    200          252.16         29069.61      281.43   \t       1494.10     \t3720.73\t\t23122.51 \t\t29069.61
---------------------------------------------------------------------------------------
"""


def test_kit_reads_the_result_of_perftest():
    assert numbers_of(PERFTEST) == [4096, 200, 252.16, 29069.61, 281.43, 1494.10, 3720.73, 23122.51, 29069.61]
    with pytest.raises(Failed, match="no result"):
        numbers_of("Couldn't connect")


def test_ratios_compare_latency_at_depth_one_and_the_best_throughput():
    measures = [
        {"system": NETWORK, "operation": "read", "bytes": 4096, "depth": 1, "latency_us": 2.0},
        {"system": NETWORK, "operation": "read", "bytes": 65536, "depth": None, "mb_per_s": 100.0},
        {"system": LIBWSS, "operation": "read", "bytes": 4096, "depth": 1, "latency_us": 5.0, "mb_per_s": 1.0},
        {"system": LIBWSS, "operation": "read", "bytes": 65536, "depth": 8, "latency_us": 9.0, "mb_per_s": 60.0},
        {"system": LIBWSS, "operation": "read", "bytes": 65536, "depth": 1, "latency_us": 9.0, "mb_per_s": 40.0},
    ]
    assert [(row["bytes"], row["of"], row["depth"], row["ratio"]) for row in ratios(measures)] == [(4096, "latency_us", 1, 2.5), (65536, "mb_per_s", 8, 0.6)]
