# SPDX-License-Identifier: Apache-2.0
"""Tests the daemons under a service manager (notification socket, watchdog, SIGHUP, journal), roles in
configuration files, and versions."""

import contextlib
import ctypes
import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from .cache_cluster import until
from .ports import free_port
from .programs import BUILD, PLUGIN, START_SECONDS, STOP_SECONDS, Target, run

ROOT = Path(__file__).resolve().parents[2]
VERSION = re.search(r'WSS_VERSION "(.*)"', (ROOT / "kernel/uapi/wss_version.h").read_text()).group(1)
PROGRAMS = ("wss-target", "wss-cache", "wssctl", "kvctl", "wssbench")


class Manager:
    """The service manager's end of the notification protocol: a datagram socket that receives the reports."""

    def __init__(self, folder):
        self.path = folder / "notify"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.reports = []

    def wait_for(self, wanted, seconds=START_SECONDS):
        """Waits for a report that contains this line, and returns the report."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                report = self.socket.recv(4096).decode()
            except TimeoutError:
                break
            self.reports.append(report)
            if wanted in report.splitlines():
                return report
        raise AssertionError(f"no report has {wanted}; received: {self.reports}")


@pytest.fixture
def manager(tmp_path):
    made = Manager(tmp_path)
    yield made
    made.socket.close()


@pytest.fixture
def start(tmp_path):
    """Starts daemons. All of them end with the test."""
    running = []

    def start_program(program, *words, **variables):
        log = tmp_path / f"log{len(running)}"
        with log.open("wb") as errors:
            process = subprocess.Popen([str(BUILD / program), *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=errors, env=os.environ | {key: str(value) for key, value in variables.items()})
        process.log = log
        running.append(process)
        return process

    yield start_program
    for process in running:
        if process.poll() is None:
            process.kill()
            process.wait(STOP_SECONDS)
        process.stdout.close()


def ready(process):
    readable, _, _ = select.select([process.stdout], [], [], START_SECONDS)
    line = process.stdout.readline().decode() if readable else ""
    assert " ready on " in line, f"{line!r}\n{process.log.read_text()}"
    return line


def stop(process):
    process.send_signal(signal.SIGTERM)
    assert process.wait(STOP_SECONDS) == 0, process.log.read_text()


def wait_for_text(path, text, seconds=10):
    deadline = time.monotonic() + seconds
    while text not in path.read_text():
        assert time.monotonic() < deadline, f"no {text!r} in\n{path.read_text()}"
        time.sleep(0.01)


LIBC = ctypes.CDLL(None, use_errno=True)
SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


@contextlib.contextmanager
def held(process, thread):
    """Keeps a thread of the process stopped during the `with` block."""
    tasks = Path(f"/proc/{process.pid}/task")
    tid = next(int(task.name) for task in tasks.iterdir() if (task / "comm").read_text().strip() == thread)
    if LIBC.ptrace(SEIZE, tid, 0, 0) != 0:
        pytest.skip(f"threads cannot be held here: {os.strerror(ctypes.get_errno())}")
    LIBC.ptrace(INTERRUPT, tid, 0, 0)
    os.waitpid(tid, WALL)
    try:
        yield
    finally:
        if LIBC.ptrace(DETACH, tid, 0, 0) != 0:  # the thread has ended with its process
            os.waitpid(tid, WALL)


TARGET = ("--listen", "tcp://127.0.0.1:0", "--volume", "a=ram:1M", "--control", "")


def test_target_notifies_the_manager_of_its_start_and_stop(manager, start):
    process = start("wss-target", *TARGET, NOTIFY_SOCKET=manager.path)
    report = manager.wait_for("READY=1")
    assert re.search(r"^STATUS=tcp://127.0.0.1:\d+, 1 volume$", report, re.M), report
    ready(process)
    stop(process)
    manager.wait_for("STOPPING=1")


def test_target_notifies_a_manager_with_an_abstract_socket(tmp_path, start):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        name = f"wss-notify-{os.getpid()}"
        listener.bind(f"\0{name}")
        listener.settimeout(START_SECONDS)
        start("wss-target", *TARGET, NOTIFY_SOCKET=f"@{name}")
        reports = iter(lambda: listener.recv(4096), b"")
        assert any(report.startswith(b"READY=1\n") for report in reports)


def test_target_that_cannot_start_never_reports_ready(manager, start):
    process = start("wss-target", *TARGET, "--volume", "b=aio:/nonexistent/b", NOTIFY_SOCKET=manager.path)
    assert process.wait(START_SECONDS) == 1
    with pytest.raises(AssertionError):
        manager.wait_for("READY=1", 0.2)


@pytest.mark.parametrize("role", ["target", "kv", "cache"])
def test_daemon_reports_to_the_watchdog_at_the_requested_rate(manager, start, role):
    words = {"target": ("wss-target", *TARGET), "kv": ("wss-target", "--role", "kv", "--listen", "tcp://127.0.0.1:0", "--control", ""),
             "cache": ("wss-cache", "--join", "tcp://127.0.0.1:1", "--memory", "64M")}[role]
    process = start(*words, NOTIFY_SOCKET=manager.path, WATCHDOG_USEC=1_000_000)
    manager.wait_for("READY=1")
    started = time.monotonic()
    for _ in range(4):
        assert "STATUS=" in manager.wait_for("WATCHDOG=1", 10)
    assert time.monotonic() - started > 0.75, "reports must come at most four times per watchdog period"
    process.terminate()
    process.wait(STOP_SECONDS)


def test_daemon_without_a_watchdog_sends_no_watchdog_reports(manager, start):
    start("wss-target", *TARGET, NOTIFY_SOCKET=manager.path)
    manager.wait_for("READY=1")
    with pytest.raises(AssertionError):
        manager.wait_for("WATCHDOG=1", 1)


def test_daemon_ignores_the_watchdog_of_another_process(manager, start):
    start("wss-target", *TARGET, NOTIFY_SOCKET=manager.path, WATCHDOG_USEC=200_000, WATCHDOG_PID=1)
    manager.wait_for("READY=1")
    with pytest.raises(AssertionError):
        manager.wait_for("WATCHDOG=1", 1)


def secrets(path, *names):
    path.write_text("".join(f"{name}:0123456789abcdef0123456789abcdef\n" for name in names))
    path.chmod(0o600)
    return path


def test_sighup_reloads_the_secrets(manager, start, tmp_path):
    book = secrets(tmp_path / "secrets", "alice")
    process = start("wss-target", *TARGET, "--secrets", book, NOTIFY_SOCKET=manager.path)
    manager.wait_for("READY=1")
    secrets(book, "alice", "bob")
    process.send_signal(signal.SIGHUP)
    assert re.search(r"^MONOTONIC_USEC=\d+$", manager.wait_for("RELOADING=1"), re.M)
    manager.wait_for("READY=1")
    wait_for_text(process.log, "secrets reloaded: 2 initiators are known")
    book.write_text("no line of secrets\n")
    process.send_signal(signal.SIGHUP)
    manager.wait_for("RELOADING=1")
    manager.wait_for("READY=1")
    wait_for_text(process.log, "continuing with the files loaded before")
    stop(process)


@pytest.mark.parametrize("words", [("wss-target", *TARGET), ("wss-cache", "--join", "tcp://127.0.0.1:1", "--memory", "64M"),
                                   ("wss-target", "--role", "kv", "--listen", "tcp://127.0.0.1:0", "--control", "")])
def test_daemon_with_nothing_to_reload_survives_sighup(manager, start, words):
    process = start(*words, NOTIFY_SOCKET=manager.path)
    ready(process)
    for _ in range(3):
        process.send_signal(signal.SIGHUP)
    wait_for_text(process.log, "nothing to reload")
    stop(process)


def test_target_stops_even_if_the_manager_reads_no_reports(manager, start):
    """The queue of the manager's socket is full after about ten reports."""
    process = start("wss-target", *TARGET, NOTIFY_SOCKET=manager.path)
    ready(process)
    for number in range(1, 8):
        process.send_signal(signal.SIGHUP)
        until(lambda number=number: process.log.read_text().count("nothing to reload") == number, 10, "the daemon has handled SIGHUP")
    stop(process)


def run_with_journal(*words, seconds=START_SECONDS):
    """Runs a program whose standard error is the socket that JOURNAL_STREAM identifies, as it is under the
    journal."""
    ours, theirs = socket.socketpair()
    info = os.fstat(theirs.fileno())
    with ours, subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=theirs,
                                env=os.environ | {"JOURNAL_STREAM": f"{info.st_dev}:{info.st_ino}"}) as process:
        theirs.close()
        select.select([process.stdout], [], [], seconds)
        if process.stdout.readline():
            process.terminate()
        text = b""
        ours.settimeout(STOP_SECONDS)
        while chunk := ours.recv(65536):
            text += chunk
        process.wait(STOP_SECONDS)
    return text.decode().splitlines()


def test_log_lines_for_the_journal_have_a_priority_and_no_time(tmp_path):
    lines = run_with_journal(BUILD / "wss-target", *TARGET, "--log-level", "debug")
    assert any(line.startswith("<4>AUTHENTICATION IS OFF") for line in lines), lines
    assert "<6>Terminated: stopping" in lines
    assert all(re.match(r"<[3467]>(?!\d{4}-)", line) for line in lines), lines


def test_journal_gets_the_reason_for_a_failed_start_as_an_error():
    lines = run_with_journal(BUILD / "wss-target", *TARGET, "--volume", "b=floppy:1")
    assert lines[-1].startswith("<3>wss-target: "), lines


def test_log_lines_outside_the_journal_have_a_time_and_a_level(tmp_path, monkeypatch):
    monkeypatch.setenv("JOURNAL_STREAM", "1:1")  # identifies another file, as it does when the variable was
                                                 # inherited
    with Target("tcp://127.0.0.1:0", {"a": "ram:1M"}, tmp_path) as target:
        pass
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+ warning AUTHENTICATION IS OFF", target.log.read_text()), target.log.read_text()


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_program_prints_its_version(program):
    assert run(BUILD / program, "--version").stdout == f"{program} {VERSION}\n"


def test_plugin_has_the_version_of_the_programs():
    assert f"\nversion={VERSION}\n" in run("nbdkit", "--dump-plugin", PLUGIN).stdout


def needed(path):
    return re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", path).stdout)


@pytest.mark.parametrize("file", ["libwss.so", "nbdkit-wss-plugin.so", "wssctl"])
def test_client_needs_no_storage_library(file):
    libraries = " ".join(needed(BUILD / file))
    for storage in ("rocksdb", "aio", "uring", "rados", "rbd", "systemd"):
        assert storage not in libraries, libraries


@pytest.mark.parametrize("file", ["libwss.so", "nbdkit-wss-plugin.so"])
def test_libraries_for_other_programs_need_no_metrics_exporter(file):
    """wssctl is exempt: it prints the driver's counters for Prometheus."""
    assert not re.search("prometheus|httplib", " ".join(needed(BUILD / file)))


# ---- Roles from files


def test_cluster_of_all_roles_runs_from_configuration_files(start, tmp_path):
    port = {}
    for role in ("cache", "rs", "client"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port[role] = probe.getsockname()[1]
    files = {
        "target": f'listen = "tcp://127.0.0.1:0"\ncache_listen = "tcp://127.0.0.1:{port["cache"]}"\n'
                  f'control = "{tmp_path}/target.sock"\n[[volume]]\nname = "a"\nbackend = "ram:4M"\n',
        "engine": f'join = "tcp://127.0.0.1:{port["cache"]}"\nlisten = "tcp://127.0.0.1:{port["client"]}"\nmemory = "64M"\n'
                  f'control = "{tmp_path}/engine.sock"\n',
        "storage": f'role = "rs"\njoin = "tcp://127.0.0.1:{port["cache"]}"\nlisten = "tcp://127.0.0.1:{port["rs"]}"\ncontrol = "{tmp_path}/storage.sock"\n'
                   f'[[volume]]\nname = "far"\nbackend = "ram:4M"\n',
        "keys": 'role = "kv"\nlisten = "tcp://127.0.0.1:0"\nkv_memory = "16M"\ncontrol = "' + f'{tmp_path}/keys.sock"\n',
    }
    for name, text in files.items():
        (tmp_path / f"{name}.toml").write_text(text)
    processes = []
    for name, program in (("target", "wss-target"), ("engine", "wss-cache"), ("storage", "wss-target"), ("keys", "wss-target")):
        processes.append(start(program, "--config", tmp_path / f"{name}.toml"))
        line = ready(processes[-1])
        if name == "keys":
            assert "kv partition 0" in line
    for name, program, role in (("target", "wss-target", "block"), ("engine", "wss-cache", None), ("storage", "wss-target", "rs"),
                                ("keys", "wss-target", "kv")):
        ping = (BUILD / "wssctl", "--control", tmp_path / f"{name}.sock", "ping")
        answer = json.loads(run(*ping, "--json").stdout)
        assert (answer["program"], answer.get("role")) == (program, role), name
        text = run(*ping).stdout
        assert text.startswith(f"{program} {answer['version']}{f', role {role}' if role else ''}, pid ") and "answered in" in text, text
    create = (BUILD / "wssctl", "--control", tmp_path / "target.sock", "volume", "create", "b", "rs:far", "--size", "4M")
    deadline = time.monotonic() + 20
    while (made := run(*create, check=False)).returncode != 0:  # until storage has joined
        assert time.monotonic() < deadline, made.stderr
        time.sleep(0.1)
    for process in reversed(processes):
        stop(process)


@pytest.mark.parametrize("program, text, said", [
    ("wss-cache", 'memroy = "1G"', "memroy: unknown key"),
    ("wss-cache", "leave_seconds = 0", "leave_seconds: must be a number from 1 to 3600"),
    ("wss-target", 'role = "sr"', "role: unknown role 'sr'"),
    ("wss-target", 'secret_file = "/x"\nlisten = "tcp://127.0.0.1:0"', "--secret-file is not for --role block"),
])
def test_program_with_a_mistake_in_its_configuration_file_does_not_start(tmp_path, program, text, said):
    file = tmp_path / "x.toml"
    file.write_text(text + "\n")
    done = run(BUILD / program, "--config", file, check=False)
    assert done.returncode == 2 and said in done.stderr, done.stderr


@pytest.mark.parametrize("words, said", [
    (("wss-target", "--config", "/nonexistent/x.toml"), "/nonexistent/x.toml"),
    (("wss-cache", "--config", "/nonexistent/x.toml"), "/nonexistent/x.toml"),
    (("wss-target", "--listen", "tpc://127.0.0.1:0", "--volume", "a=ram:1M"), "tpc"),
    (("wss-target", "--listen", "tcp://127.0.0.1:0", "--volume", "a=ram:1M", "--cpus", "x"), "cpus"),
    (("wss-cache", "--join", "tcp://127.0.0.1:1", "--listen", "tcp://0.0.0.0:0"), "--advertise"),
    (("wss-target", "--role", "kv", "--listen", "tcp://127.0.0.1:0", "--secrets", "s"), "--secrets is not for --role kv"),
])
def test_program_with_a_wrong_configuration_exits_with_status_2(words, said):
    done = run(BUILD / words[0], *words[1:], check=False)
    assert done.returncode == 2 and said in done.stderr, done.stderr


def test_option_overrides_the_configuration_file_of_an_engine(start, tmp_path):
    (tmp_path / "c.toml").write_text('join = "tcp://127.0.0.1:1"\nmemory = "1T"\nleave_seconds = 1\n')
    assert ", 64 MiB" in ready(start("wss-cache", "--config", tmp_path / "c.toml", "--memory", "64M"))


# ---- Starts that fail ------------------------------------------------------------------------------------------------------


@pytest.fixture
def taken():
    """An address at which another program listens."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield f"127.0.0.1:{holder.getsockname()[1]}"


CACHED = ("--cache-listen", "tcp://127.0.0.1:0", "--auth-off")


def test_target_that_finds_its_state_in_use_changes_no_file(start, tmp_path):
    state = tmp_path / "state.json"
    with os.fdopen(os.open(f"{state}.lock", os.O_RDWR | os.O_CREAT, 0o600), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = start("wss-target", *TARGET, *CACHED, "--state", state)
        assert process.wait(START_SECONDS) == 1
        assert "is used by another wss-target" in process.log.read_text()
    assert [path.name for path in tmp_path.glob("state.json*")] == ["state.json.lock"]


def test_failed_start_keeps_the_record_of_dirty_volumes(start, tmp_path):
    state, members = tmp_path / "state.json", tmp_path / "state.json.cache"
    first = start("wss-target", *TARGET, *CACHED, "--state", state)
    ready(first)
    stop(first)
    saved = json.loads(members.read_text())
    saved["dirty"] = {"0000000000000abc": {"name": "away", "bytes": 1 << 20}}
    members.write_text(json.dumps(saved))
    process = start("wss-target", *TARGET[:-1], "/proc/nowhere/socket", *CACHED, "--state", state)
    assert process.wait(START_SECONDS) == 1
    assert "control socket" in process.log.read_text()
    assert list(json.loads(members.read_text())["dirty"]) == ["0000000000000abc"]


@pytest.mark.parametrize("words", [("wss-cache", "--join", "tcp://127.0.0.1:1", "--memory", "64M"),
                                   ("wss-target", "--role", "rs", "--join", "tcp://127.0.0.1:1", "--listen", "tcp://127.0.0.1:0",
                                    "--volume", "a=ram:1M")])
def test_engine_reports_why_its_start_failed_late(start, tmp_path, taken, words):
    process = start(*words, "--http", taken, "--control", tmp_path / "socket")
    assert process.wait(START_SECONDS) == 1, process.log.read_text()
    assert f"--http {taken}: another program listens there" in process.log.read_text()
    (tmp_path / "file").write_text("")
    process = start(*words, "--control", tmp_path / "file" / "socket")
    assert process.wait(START_SECONDS) == 1, process.log.read_text()
    assert "control socket" in process.log.read_text()


def test_target_does_not_recreate_the_missing_file_of_a_volume(start, tmp_path):
    folder, file = tmp_path / "mounted", tmp_path / "mounted/disk.img"
    folder.mkdir()
    words = ("wss-target", *TARGET, "--state", tmp_path / "state.json", "--volume", f"disk=aio:{file},size=1M,create")
    first = start(*words)
    assert ", 2 volumes" in ready(first)
    stop(first)
    folder.rename(tmp_path / "elsewhere")
    folder.mkdir()
    second = start(*words)
    assert ", 1 volume" in ready(second)
    stop(second)
    assert not file.exists() and f"{file} is gone: mount its file system" in second.log.read_text()


# ---- Stops, stalls, reloads ------------------------------------------------------------------------------------------------


# Opening a Ceph image may take minutes.
@pytest.mark.parametrize("role", ["block", "rs", "cached"])
def test_starting_target_reports_each_volume_that_it_opens_and_extends_its_timeout(manager, start, role):
    words = {"block": [], "rs": ["--role", "rs", "--join", "tcp://127.0.0.1:1"], "cached": ["--cache-listen", f"tcp://127.0.0.1:{free_port()}"]}[role]
    start("wss-target", *TARGET, *words, "--volume", "slow=ram:2M", NOTIFY_SOCKET=manager.path)
    report = manager.wait_for("STATUS=starting: opening ram:2M")
    assert int(re.search(r"^EXTEND_TIMEOUT_USEC=(\d+)$", report, re.M).group(1)) > 3_600_000_000, report
    manager.wait_for("READY=1")


def test_stopping_daemon_reports_each_step_and_extends_its_timeout(manager, start):
    process = start("wss-target", *TARGET, "--drain-seconds", "600", NOTIFY_SOCKET=manager.path)
    manager.wait_for("READY=1")
    process.terminate()
    manager.wait_for("STOPPING=1")
    report = manager.wait_for("STATUS=stopping: volumes")
    assert int(re.search(r"^EXTEND_TIMEOUT_USEC=(\d+)$", report, re.M).group(1)) > 600_000_000, report
    engine = start("wss-cache", "--join", "tcp://127.0.0.1:1", "--memory", "64M", "--leave-seconds", "700", NOTIFY_SOCKET=manager.path)
    manager.wait_for("READY=1")
    engine.terminate()
    report = manager.wait_for("STATUS=stopping: leaving the storage engines")
    assert int(re.search(r"^EXTEND_TIMEOUT_USEC=(\d+)$", report, re.M).group(1)) > 700_000_000, report


def test_target_stops_its_volumes_even_if_its_key_value_service_hangs(manager, start):
    process = start("wss-target", *TARGET, "--kv-listen", "tcp://127.0.0.1:0", "--drain-seconds", "1", NOTIFY_SOCKET=manager.path)
    manager.wait_for("READY=1")
    with held(process, "kv"):
        process.terminate()
        manager.wait_for("STATUS=stopping: volumes")
    assert process.wait(STOP_SECONDS) == 1
    assert "connections of the key-value service did not close within 1 s" in process.log.read_text()


def test_target_reports_the_end_of_a_stall_at_once(manager, start):
    process = start("wss-target", *TARGET, NOTIFY_SOCKET=manager.path, WATCHDOG_USEC=8_000_000)
    manager.wait_for("READY=1")
    with held(process, "reactor-0"):
        wait_for_text(process.log, "not alive", 20)
    manager.wait_for("WATCHDOG=1", 3)
    assert re.search("not alive: reactor-0 has not answered for 5 s", process.log.read_text())


def test_target_distinguishes_an_unconfirmed_reload_from_a_failed_one(manager, start, tmp_path):
    book = secrets(tmp_path / "secrets", "alice")
    process = start("wss-target", *TARGET, "--secrets", book, NOTIFY_SOCKET=manager.path)
    manager.wait_for("READY=1")
    with held(process, "reactor-0"):
        process.send_signal(signal.SIGHUP)
        manager.wait_for("RELOADING=1")
        assert "; the last reload failed: the secrets were read" in manager.wait_for("READY=1")
    text = process.log.read_text()
    assert "it may still take effect" in text and "continuing with the files loaded before" not in text, text
    wait_for_text(process.log, "secrets reloaded: 1 initiators are known")
    process.send_signal(signal.SIGHUP)
    manager.wait_for("RELOADING=1")
    assert "failed" not in manager.wait_for("READY=1")
    stop(process)


def test_target_warns_that_its_secrets_do_not_cover_the_key_value_store(start, tmp_path):
    process = start("wss-target", *TARGET, "--secrets", secrets(tmp_path / "secrets", "alice"), "--kv-listen", "tcp://127.0.0.1:0")
    ready(process)
    wait_for_text(process.log, "THE KEY-VALUE STORE DOES NOT AUTHENTICATE")
    stop(process)


def test_program_whose_file_was_replaced_looks_for_plugins_beside_the_new_file(start, tmp_path):
    program, socket_path = tmp_path / "wss-target", tmp_path / "control.sock"
    shutil.copy(BUILD / "wss-target", program)
    process = start(program, *TARGET[:-1], socket_path)
    ready(process)
    shutil.copy(BUILD / "wss-target", tmp_path / "new")
    (tmp_path / "new").rename(program)
    done = run(BUILD / "wssctl", "--control", socket_path, "volume", "create", "b", "rbd:pool/image", "--size", "1M", check=False)
    assert f"neither {tmp_path}/wss-rbd.so nor" in done.stderr, done.stderr
    stop(process)


LISTENER = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print(flush=True)
while True:
    with listener.accept()[0] as client:
        if client.recv(4096):
            client.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n{"volumes": []}')
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="starts a process of another user")
@pytest.mark.parametrize("owner, trusted", [(0, False), (65534, True)])
def test_wssctl_trusts_a_listener_of_another_user_only_in_a_folder_of_that_user(owner, trusted):
    """The user wss owns /run/wss, but any user can listen in /tmp."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        os.chown(folder, owner, owner)
        path = f"{folder}/control"
        with subprocess.Popen(["/usr/bin/python3", "-c", LISTENER, path], stdout=subprocess.PIPE, user=65534) as listener:
            listener.stdout.readline()
            done = run(BUILD / "wssctl", "--control", path, "volume", "list", "--json", check=False)
            listener.kill()
    assert ("belongs to a process of user 65534" not in done.stderr) == trusted, done.stderr
    assert (done.returncode == 0) == trusted, done.stderr
