# SPDX-License-Identifier: Apache-2.0
"""Tests kvctl from the point of view of users and scripts: every subcommand with its output, exit statuses
and errors."""

import base64
import json
import os
import pty
import select
import signal
import subprocess
import time

import pytest

from .kv import KVCTL, Store
from .programs import pause

FAILED, USAGE, NOT_REACHABLE, NOT_FOUND, CONDITION = 1, 2, 3, 4, 5


@pytest.fixture(scope="module", params=["tcp", "shm"])
def store(request, tmp_path_factory):
    with Store(request.param, 3, tmp_path_factory.mktemp("kv")) as running:
        yield running


def test_get_returns_what_was_put_until_it_is_deleted(store):
    store.kvctl("put", "plain", "one two")
    assert store.kvctl("get", "plain") == "one two\n"
    store.kvctl("del", "plain")
    store.kvctl("get", "plain", expect=NOT_FOUND)


def test_get_returns_every_byte_and_escapes_control_characters_on_a_terminal(store, tmp_path):
    value = bytes(range(256))
    (tmp_path / "value").write_bytes(value)
    store.kvctl("put", "binary", "--file", tmp_path / "value")
    raw = subprocess.run(store.command("--raw", "get", "binary"), capture_output=True, timeout=60, check=True).stdout
    assert raw == value
    shown = store.kvctl("get", "binary")
    assert "\\x00" in shown and "\\x1b" in shown and "\x1b" not in shown
    assert base64.b64decode(store.kvctl_json("get", "binary")["value_base64"]) == value


def test_put_accepts_a_value_from_standard_input_and_an_empty_value(store):
    store.kvctl("put", "piped", "--file", "-", stdin=b"from a pipe")
    assert store.kvctl("--raw", "get", "piped") == "from a pipe"
    store.kvctl("put", "empty", "")
    assert store.kvctl("--raw", "get", "empty") == ""


def test_put_rejects_values_over_1_mib_and_keys_over_1_kib(store, tmp_path):
    (tmp_path / "large").write_bytes(os.urandom(1 << 20))
    store.kvctl("put", "large", "--file", tmp_path / "large")
    assert subprocess.run(store.command("--raw", "get", "large"), capture_output=True, timeout=60).stdout == (tmp_path / "large").read_bytes()
    (tmp_path / "larger").write_bytes(b"x" * ((1 << 20) + 1))
    store.kvctl("put", "larger", "--file", tmp_path / "larger", expect=FAILED)
    store.kvctl("put", "k" * 1024, "fits")
    store.kvctl("put", "k" * 1025, "does not", expect=FAILED)


def test_transactions_can_be_given_as_arguments(store):
    written = store.kvctl_json("put-all", "t:a=1", "t:b=2", "t:c=x=y")
    read = store.kvctl_json("get-all", "t:a", "t:b", "t:c")
    assert [item["value"] for item in read["items"]] == ["1", "2", "x=y"]
    assert {item["timestamp"] for item in read["items"]} == {written["timestamp"]}
    assert store.kvctl("get-all", "t:a", "t:c") == "t:a\t1\nt:c\tx=y\n"
    store.kvctl("get-all", "t:a", "t:none", expect=NOT_FOUND)
    store.kvctl("txn", "put", "t:a=7", "del", "t:b")
    assert [item["found"] for item in store.kvctl_json("txn", "get", "t:a", "t:b")["items"]] == [True, False]


def test_transactions_can_be_given_as_lines_of_json(store, tmp_path):
    lines = [{"put": {"l:a": "1", "l:b": "2"}}, {"get": ["l:a", "l:b"]}, {"put": {"l:a": "3"}, "del": ["l:b"]}, {"get": ["l:a", "l:b"]},
             {"put": [{"key_base64": "/w==", "value_base64": "AAE="}]}, {"get": [{"key_base64": "/w=="}]}]  # fmt: skip
    text = "\n".join(map(json.dumps, lines)) + "\n"
    (tmp_path / "txns").write_text(text)
    for output in (store.kvctl("txn", stdin=text.encode()), store.kvctl("txn", "--file", tmp_path / "txns")):
        answers = [json.loads(line) for line in output.splitlines()]
        assert [a["line"] for a in answers] == [1, 2, 3, 4, 5, 6]
        assert [i["value"] for i in answers[1]["items"]] == ["1", "2"]
        assert [i["found"] for i in answers[3]["items"]] == [True, False]
        assert answers[5]["items"][0]["value"] == "\x00\x01"


def test_txn_reports_an_error_for_a_bad_line_and_executes_the_others(store):
    lines = b'nonsense\n{"get": ["x"], "put": {"x": "1"}}\n{"got": []}\n{}\n{"put": {"after": "1"}}\n'
    answers = [json.loads(line) for line in store.kvctl("txn", stdin=lines, expect=FAILED).splitlines()]
    assert ["error" in answer for answer in answers] == [True, True, True, True, False]
    assert "never both" in answers[1]["error"]
    assert store.kvctl("get", "after") == "1\n"


def test_put_stores_a_value_only_if_its_condition_holds(store):
    store.kvctl("put", "cas", "1", "--if-absent")
    store.kvctl("put", "cas", "2", "--if-absent", expect=CONDITION)
    version = store.kvctl_json("get", "cas")["timestamp"]
    store.kvctl("put", "cas", "3", "--if-timestamp", version)
    store.kvctl("put", "cas", "4", "--if-timestamp", version, expect=CONDITION)
    assert store.kvctl("get", "cas") == "3\n"
    refused = subprocess.run(store.command("put", "cas:none", "5", "--if-timestamp", version), capture_output=True, text=True, timeout=60)
    assert refused.returncode == CONDITION and "the key is now absent" in refused.stderr
    store.kvctl("put", "cas", "6", "--if-timestamp", 0, expect=USAGE)
    assert store.kvctl("get", "cas") == "3\n"


def test_transaction_writes_only_if_all_its_conditions_hold(store):
    at = store.kvctl_json("put-all", "if:a=1", "if:b=1")["timestamp"]
    store.kvctl("put-all", "if:c=2", "--if", f"if:a={at}", "--if", "if:d=absent", "--if", "if:b=7", expect=CONDITION)
    store.kvctl("get", "if:c", expect=NOT_FOUND)
    store.kvctl("put-all", "if:c=2", "if:a=2", "--if", f"if:a={at}", "--if", f"if:b={at}", "--if", "if:d=absent")
    assert store.kvctl("get-all", "if:a", "if:b", "if:c") == "if:a\t2\nif:b\t1\nif:c\t2\n"
    store.kvctl("txn", "if", f"if:a={at}", "put", "if:c=3", expect=CONDITION)
    store.kvctl("txn", "if", f"if:b={at}", "if:d=absent", "put", "if:c=3", "del", "if:b")
    for wrong in ("if:a", "if:a=", "if:a=x", "if:a=0", "=5", "if:a=-1"):
        store.kvctl("put-all", "if:c=4", "--if", wrong, expect=USAGE)
    assert store.kvctl("get", "if:c") == "3\n"


def test_txn_names_the_condition_that_failed(store):
    at = store.kvctl_json("put", "li:a", "1")["timestamp"]
    lines = [{"if": {"li:a": at, "li:b": None}, "put": {"li:b": "2"}}, {"if": {"li:a": at, "li:b": None}, "put": {"li:b": "3"}},
             {"if": [{"key": "li:none", "timestamp": 5}], "put": {"li:b": "3"}}, {"if": {"li:a": at}}, {"if": {"li:a": "x"}, "put": {"li:b": "3"}},
             {"if": {"li:a": at}, "get": ["li:a"]}]  # fmt: skip
    answers = [json.loads(line) for line in store.kvctl("txn", stdin="\n".join(map(json.dumps, lines)).encode(), expect=FAILED).splitlines()]
    assert answers[1]["failed_if"] == {"key": "li:b", "timestamp": answers[0]["timestamp"]}
    assert answers[2]["failed_if"] == {"key": "li:none", "timestamp": None}
    assert ["error" in answer for answer in answers] == [False, True, True, False, True, True]
    assert store.kvctl("get", "li:b") == "2\n"


def test_incr_counts_and_does_not_overflow(store):
    assert store.kvctl("incr", "n") == "1\n"
    assert store.kvctl("incr", "n", "--by", "-5") == "-4\n"
    assert store.kvctl_json("incr", "n", "--by", "10")["value"] == 6
    store.kvctl("put", "n", str(2**63 - 1))
    store.kvctl("incr", "n", expect=FAILED)
    store.kvctl("put", "n", "no number")
    store.kvctl("incr", "n", expect=FAILED)
    assert store.kvctl("get", "n") == "no number\n"
    store.kvctl("put", "n", "1", "--ttl", "3600000")
    store.kvctl("incr", "n")
    assert store.kvctl_json("get", "n")["ttl_ms"] > 3_500_000


def test_keys_of_a_transaction_expire_together(store):
    store.kvctl("put-all", "ttl:a=1", "ttl:b=2", "--ttl", "1500")
    assert store.kvctl("get-all", "ttl:a", "ttl:b").count("\n") == 2
    time.sleep(2)  # longer than the time to live
    assert [item["found"] for item in json.loads(store.kvctl("--json", "get-all", "ttl:a", "ttl:b", expect=NOT_FOUND))["items"]] == [False, False]


def test_scan_lists_each_key_once_and_only_those_with_the_prefix(store):
    store.kvctl("import", "-", stdin=b"".join(b'{"key": "scan:%03d", "value": "v%d"}\n' % (i, i) for i in range(700)))
    store.kvctl("put", "scam", "other")
    keys = store.kvctl("scan", "scan:").splitlines()
    assert sorted(keys) == [f"scan:{i:03}" for i in range(700)]
    assert len(store.kvctl("scan", "scan:", "--limit", "10").splitlines()) == 10
    assert store.kvctl("scan", "scan:007", "--values") == "scan:007\tv7\n"
    assert store.kvctl("scan", "no such prefix") == ""


def test_import_restores_what_export_wrote(store, tmp_path):
    store.kvctl("put-all", "ex:a=1", "ex:b=two")
    store.kvctl("export", tmp_path / "dump", "--prefix", "ex:")
    rows = [json.loads(line) for line in (tmp_path / "dump").read_text().splitlines()]
    assert {row["key"]: row["value"] for row in rows} == {"ex:a": "1", "ex:b": "two"}
    store.kvctl("del", "ex:a", "ex:b")
    store.kvctl("import", tmp_path / "dump")
    assert store.kvctl("get", "ex:b") == "two\n"
    store.kvctl("import", "-", stdin=b'{"key": "ok", "value": "1"}\nnonsense\n', expect=FAILED)


def test_get_and_scan_show_the_remaining_time_to_live(store):
    store.kvctl("put", "left:a", "1", "--ttl", "600000")
    store.kvctl("put", "left:b", "2")
    value, left = store.kvctl("get", "left:a", "--ttl").split()
    assert value == "1" and 500_000 < int(left) <= 600_000
    assert store.kvctl("get", "left:b", "--ttl") == "2\t-\n"
    rows = dict(line.split("\t") for line in store.kvctl("scan", "left:", "--ttl").splitlines())
    assert rows["left:b"] == "-" and 500_000 < int(rows["left:a"]) <= 600_000
    assert 500_000 < store.kvctl_json("get", "left:a")["ttl_ms"] <= 600_000
    assert "ttl_ms" not in store.kvctl_json("get", "left:b")


def test_import_splits_large_values_into_transactions_that_fit(store, tmp_path):
    rows = [{"key": f"big:{i}", "value": chr(97 + i) * (1 << 20)} for i in range(20)]
    store.kvctl("import", "-", stdin="".join(json.dumps(row) + "\n" for row in rows).encode())
    assert store.kvctl("scan", "big:").count("\n") == 20
    for row in rows:
        store.kvctl("del", row["key"])


def test_expiry_does_not_drift_over_repeated_export_and_import(store, tmp_path):
    store.kvctl("put", "drift", "1", "--ttl", "600000")
    moments = []
    for turn in range(4):
        store.kvctl("export", tmp_path / "dump", "--prefix", "drift")
        moments.append(json.loads((tmp_path / "dump").read_text())["expires"])
        store.kvctl("import", tmp_path / "dump")
    assert len(set(moments)) == 1, moments


def test_imported_key_expires_at_the_time_of_the_exported_one(store, tmp_path):
    store.kvctl("put", "exp:a", "1", "--ttl", "600000")
    store.kvctl("put", "exp:b", "2")
    store.kvctl("export", tmp_path / "dump", "--prefix", "exp:")
    rows = {row["key"]: row for row in map(json.loads, (tmp_path / "dump").read_text().splitlines())}
    left_ms = rows["exp:a"]["expires"] - time.time() * 1000
    assert 300_000 < left_ms <= 600_000
    assert "expires" not in rows["exp:b"]
    store.kvctl("del", "exp:a", "exp:b")
    long_ago = (1, 946_684_800_000, int(time.time() * 1000) - 1000)
    old = "".join(json.dumps(rows["exp:b"] | {"key": f"exp:old:{at}", "expires": at}) + "\n" for at in long_ago)
    store.kvctl("import", "-", stdin=((tmp_path / "dump").read_text() + old).encode())
    store.kvctl("export", tmp_path / "again", "--prefix", "exp:")
    again = {row["key"]: row.get("expires", 0) for row in map(json.loads, (tmp_path / "again").read_text().splitlines())}
    assert set(again) == {"exp:a", "exp:b"}, "import must omit expired keys"
    assert again["exp:b"] == 0
    assert abs(again["exp:a"] - rows["exp:a"]["expires"]) < 5000


def test_explain_shows_the_path_of_each_key(store):
    store.kvctl("put-all", "e:a=1", "e:b=2", "e:c=3")
    cold, warm = map(json.loads, store.kvctl("--json", "--one-sided", "on", "explain", "get", "e:a", "e:b", "e:c", "--repeat", "2").splitlines())
    assert {item["path"] for item in cold["items"]} <= {"message", "one-sided"}, "partitions allocate key slots only after a one-sided reader has connected"
    assert {item["path"] for item in warm["items"]} == {"one-sided"}
    assert {item["siblings"] for item in warm["items"]} == {3}
    assert all(item["rounds"] == 1 and item["bytes"] > 0 for item in warm["items"])
    found = json.loads(store.kvctl("--json", "--one-sided", "on", "--address-cache", "0", "explain", "get", "e:a", "e:b", "e:c"))
    assert {item["path"] for item in found["items"]} == {"one-sided"}, "the index must lead to the slots"
    assert "PATH" in store.kvctl("explain", "get", "e:a")
    store.kvctl("explain", "put", "e:a", expect=USAGE)


def test_info_and_watch_stats_show_every_partition(store):
    info = store.info()
    assert len(info) == 3
    assert [section["server"]["partition"] for section in info] == [0, 1, 2]
    assert all(one["process"]["pid"] > 0 and one["process"]["cpu_us"] > 0 for one in info)
    assert "# Partition 1/memory" in store.kvctl("info")
    assert "# Partition 0" not in store.kvctl("info", "--partition", "1")
    assert "traffic.messages" in store.kvctl("watch-stats", "--interval", "1", "--count", "1")


def test_shell_executes_lines_and_continues_after_errors(store):
    lines = b"put sh:a 'one two'\nget sh:a\n# a comment\nnonsense\nget sh:nothing\nput-all \"sh:b=x y\" sh:c=2\nget sh:b\nexit\nget sh:never\n"
    output = subprocess.run(store.command("shell"), input=lines, capture_output=True, timeout=60)
    assert output.stdout == b"one two\nx y\n"
    assert b"unknown command 'nonsense'" in output.stderr and b"'sh:nothing' does not exist" in output.stderr


def test_shell_on_a_terminal_completes_commands_and_keeps_a_history(store, tmp_path):
    def session(keys: bytes, until: bytes) -> bytes:
        master, slave = pty.openpty()
        shell = subprocess.Popen(store.command("shell"), stdin=slave, stdout=slave, stderr=slave, close_fds=True,
                                 env={**os.environ, "HOME": str(tmp_path), "TERM": "vt100"})
        os.close(slave)
        seen = read_until(master, b"kvctl> ")
        os.write(master, keys)
        seen += read_until(master, until)
        os.write(master, b"\x15exit\n")  # clears the line first
        assert shell.wait(20) == 0
        os.close(master)
        return seen

    store.kvctl("put", "tab", "completed")
    assert b"completed" in session(b"exp\x01\x0bget tab\n", b"completed")
    assert session(b"expl\t", b"ain")
    # The arrow key recalls the last line of the previous session.
    assert (tmp_path / ".kvctl_history").stat().st_mode & 0o077 == 0
    assert b"completed" in session(b"\x1b[A\x1b[A\n", b"completed")


def read_until(descriptor: int, word: bytes, seconds: float = 20) -> bytes:
    seen = b""
    deadline = time.monotonic() + seconds
    while word not in seen:
        assert time.monotonic() < deadline, seen
        if select.select([descriptor], [], [], 0.1)[0]:
            seen += os.read(descriptor, 4096)
    return seen


def test_exit_status_4_means_only_that_a_key_does_not_exist(store, tmp_path):
    store.kvctl("put", "no-file", "--file", tmp_path / "missing", expect=FAILED)
    store.kvctl("import", tmp_path / "missing", expect=FAILED)
    store.kvctl("txn", "--file", tmp_path / "missing", expect=FAILED)
    store.kvctl("export", tmp_path / "missing" / "file", expect=FAILED)
    store.kvctl("get", "no-file", expect=NOT_FOUND)


@pytest.mark.parametrize("write", ["put unknown:a 1", "put unknown:a 1 --if-absent", "put-all unknown:a=1", "del unknown:a"])
def test_write_without_a_response_reports_that_its_outcome_is_unknown(store, write):
    shell = subprocess.Popen(store.command("--timeout", "1", "shell"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    shell.stdin.write(b"put-all " + b" ".join(b"unknown:%d=1" % i for i in range(20)) + b"\nget unknown:1\n")
    shell.stdin.flush()
    assert shell.stdout.readline() == b"1\n"
    for partition in store.partitions:
        pause(partition.process)
    try:
        _, stderr = shell.communicate(write.encode() + b"\n", timeout=60)
    finally:
        for partition in store.partitions:
            os.kill(partition.process.pid, signal.SIGCONT)
    assert b"outcome unknown" in stderr, stderr


def test_errors_name_the_problem_or_the_remedy(tmp_path):
    def stderr_of(*words: str, status: int) -> str:
        done = subprocess.run([KVCTL, *words], capture_output=True, text=True, timeout=60,
                              env={name: value for name, value in os.environ.items() if name != "KVCTL_TARGET"})
        assert done.returncode == status, done.stderr
        return done.stderr

    assert "KVCTL_TARGET" in stderr_of("get", "x", status=USAGE)
    assert "did you mean 'get-all'" in stderr_of("getall", "x", status=USAGE)
    assert stderr_of("--target", "tcp://127.0.0.1:1", "--timeout", "1", "get", "x", status=NOT_REACHABLE)
    assert stderr_of("--target", "gopher://x", "get", "x", status=FAILED)
    assert "ramp-fast" in stderr_of("--algorithm", "ramp-quick", "get", "x", status=USAGE)
    assert "KEY=VALUE" in stderr_of("--target", "tcp://127.0.0.1:1", "put-all", "x", status=USAGE)
    assert "recordcount" in stderr_of("--target", "tcp://127.0.0.1:1", "bench", "-p", "recordcount=many", status=USAGE)
    assert "fieldlength" in stderr_of("--target", "tcp://127.0.0.1:1", "bench", "-p", "txnlen=8", "-p", "fieldcount=1", "--verify", status=USAGE)
    assert "a to f" in stderr_of("--target", "tcp://127.0.0.1:1", "bench", "--workload", "z", status=USAGE)
    (tmp_path / "h").write_text("r(1,2,3)\n")
    assert "h:1" in stderr_of("check", str(tmp_path / "h"), status=FAILED)
    for text in ("", "some other file", "{}"):
        (tmp_path / "h").write_text(text)
        assert stderr_of("check", str(tmp_path / "h"), status=FAILED)


def test_bench_fails_if_its_records_do_not_fit(tmp_path):
    with Store("shm", 1, tmp_path, ["--kv-memory", "8M"]) as store:
        load = store.command("bench", "--workload", "c", "--phase", "load", "-p", "recordcount=20000", "-p", "fieldlength=100")
        done = subprocess.run(load, capture_output=True, text=True, timeout=120)
        assert done.returncode == FAILED and "of 20000 records could not be written" in done.stderr, done.stderr


@pytest.mark.parametrize("letter", "abcdef")
def test_every_standard_workload_passes_verification(store, letter):
    result = store.bench({"threadcount": 2, "operationcount": 400, "recordcount": 200}, "--workload", letter, "--verify")
    assert result["operations"] == 400 and result["failed"] == 0
    assert result["CHECK"]["Violations"] == 0 and result["CHECK"]["Reads"] + result["CHECK"]["Writes"] > 0


def test_report_of_bench_has_the_format_of_ycsb(store):
    report = store.kvctl("bench", "--workload", "a", "-p", "operationcount=500")
    for line in ("[OVERALL], RunTime(ms), ", "[OVERALL], Throughput(ops/sec), ", "[READ], Operations, ", "[READ], AverageLatency(us), ",
                 "[READ], 50thPercentileLatency(us), ", "[READ], 99thPercentileLatency(us), ", "[READ], Return=OK, ", "[UPDATE], Operations, ",
                 "[SERVER], CpuPerOperation(us), "):  # fmt: skip
        assert line in report


def test_bench_names_records_as_ycsb_does(store):
    store.kvctl("bench", "--workload", "c", "--phase", "load", "-p", "recordcount=3")
    for key in ("user6284781860667377211", "user8517097267634966620", "user1820151046732198393"):
        store.kvctl("get", key)


def test_check_accepts_the_history_of_a_verified_run(store, tmp_path):
    path = tmp_path / "history"
    store.bench({"threadcount": 3, "operationcount": 1500, "recordcount": 50, "txnlen": 4, "readproportion": 0.5, "updateproportion": 0.5,
                 "fieldlength": 200}, "--verify", "--history", path, "--fault-every", "50")  # fmt: skip
    lines = path.read_text().splitlines()
    assert len(lines) > 4 * 1500 and all(line[:2] in ("r(", "w(") for line in lines)
    result = json.loads(subprocess.run([KVCTL, "--json", "check", path], capture_output=True, timeout=60, check=True).stdout)
    assert result["violations"] == [] and result["operations"] == len(lines)


def test_check_verifies_the_conditions_of_a_history(store, tmp_path):
    path = tmp_path / "history"
    result = store.bench({"threadcount": 3, "operationcount": 1500, "recordcount": 20, "txnlen": 3, "readproportion": 0.2, "updateproportion": 0.8,
                          "fieldlength": 200}, "--verify", "--history", path, "--conditional-share", "0.8", "--fault-every", "50")  # fmt: skip
    assert result["KV"]["ConditionsWon"] > 50 and result["KV"]["ConditionsLost"] > 0
    assert subprocess.run([KVCTL, "check", "--conditions", path], capture_output=True, timeout=60).returncode == 0
    path.write_text("w(1,10,0,0)\nr(1,10,1,1)\nw(1,20,1,1)\nr(1,10,2,2)\nw(1,21,2,2)\n")
    assert subprocess.run([KVCTL, "check", path], capture_output=True, timeout=60).returncode == 0
    assert subprocess.run([KVCTL, "check", "--conditions", path], capture_output=True, timeout=60).returncode == 6


def test_check_detects_a_history_without_concurrency_control(store, tmp_path):
    """The checkers detect what RAMP prevents: without RAMP, reads in contended transactions are fractured."""
    path = tmp_path / "history"
    for seed in range(1, 20):
        result = store.bench({"threadcount": 4, "operationcount": 4000, "recordcount": 8, "txnlen": 8, "readproportion": 0.5, "updateproportion": 0.5,
                              "fieldlength": 200}, "--verify", "--history", path, "--seed", seed, modes=["--algorithm", "none"])  # fmt: skip
        if result["CHECK"]["FracturedReads"] > 0:
            break
    assert result["CHECK"]["FracturedReads"] > 0
    assert subprocess.run([KVCTL, "check", path], capture_output=True, timeout=60).returncode == 6
