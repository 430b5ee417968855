# SPDX-License-Identifier: Apache-2.0
"""Tests wrong use: for each mistake, a program prints a message that states the problem and its location, and
exits with a nonzero status."""

import os
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from .programs import BUILD, PLUGIN, TARGET, Target, run, run_under_nbdkit


def plugin(*words, timeout=30):
    started = time.monotonic()
    done = run_under_nbdkit("true", *words, timeout=timeout)
    return done.returncode, done.stderr, time.monotonic() - started


@pytest.mark.parametrize("words, said", [
    ([], "target=URI is missing"),
    (["target=http://x"], "unknown scheme"),
    (["target=tcp://127.0.0.1:99999"], "the port is not a number up to 65535"),
    (["target=shm://relative"], "the path must be absolute"),
    (["target=tcp://127.0.0.1:1", "volume=v"], "tcp://127.0.0.1:1"),
    (["target=shm:///nonexistent/socket", "volume=v"], "/nonexistent/socket"),
    (["target=tcp://no-such-host.invalid:5555"], "no-such-host.invalid"),
    (["target=tcp://127.0.0.1:1", "colour=blue"], "unknown parameter 'colour'"),
    (["target=tcp://127.0.0.1:1", "depth=0"], "must be from 1 to 86400"),
])
def test_plugin_names_the_problem_in_its_parameters(words, said):
    status, text, seconds = plugin(*words)
    assert status != 0
    assert said in text, text
    assert seconds < 15


def test_plugin_gives_up_on_a_host_that_does_not_answer(tmp_path):
    # A connection to a listener whose queue is full hangs.
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(4)]
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(full.getsockname())
            status, text, seconds = plugin(f"target=tcp://127.0.0.1:{full.getsockname()[1]}", "connect-timeout=1")
        finally:
            for filler in fillers:
                filler.close()
    assert status != 0
    assert f"127.0.0.1:{full_port(text)}" in text
    assert 0.5 < seconds < 10


def full_port(text):
    return text.rsplit("127.0.0.1:", 1)[1].split()[0].split(":")[0].rstrip(",;)")


def test_plugin_detects_a_server_that_is_not_a_target(tmp_path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        process = subprocess.Popen(["nbdkit", "-U", str(tmp_path / "nbd"), str(PLUGIN),
                                    f"target=tcp://127.0.0.1:{listener.getsockname()[1]}",
                                    "connect-timeout=5", "--run", "true"], stderr=subprocess.PIPE, text=True)
        listener.settimeout(20)
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n" * 20)
            _, text = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "127.0.0.1" in text


def test_error_for_an_unknown_volume_lists_the_existing_names(target):
    status, text, _ = plugin(f"target={target.address}", "volume=nothing")
    assert status != 0
    assert "has no volume 'nothing'; it has 'ram', 'file'" in text, text


def test_read_only_volume_rejects_writes(listen, nbd, tmp_path):
    with Target(listen, {"fixed": "ram:16M,ro"}, tmp_path) as target:
        server = nbd(target, "fixed")
        assert run("qemu-io", "-f", "raw", server.uri, "-c", "write 0 4k", check=False).returncode != 0
        run("qemu-io", "-r", "-f", "raw", server.uri, "-c", "read 0 4k")


def target_fails(*words):
    started = time.monotonic()
    done = run(TARGET, *words, check=False, timeout=30)
    assert time.monotonic() - started < 10
    return done.returncode, done.stdout + done.stderr


def test_target_names_a_port_that_is_in_use():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, text = target_fails("--listen", f"tcp://127.0.0.1:{port}", "--control", "", "--volume", "v=ram:1M")
    assert status == 1
    assert str(port) in text and "in use" in text, text


@pytest.mark.parametrize("words", [
    ["wss-target", "--listen", "tcp://127.0.0.1:0", "--kv-listen", "tcp://127.0.0.1:0", "--volume", "v=ram:1M"],
    ["wss-target", "--listen", "tcp://127.0.0.1:0", "--cache-listen", "tcp://127.0.0.1:0", "--volume", "v=ram:1M"],
    ["wss-cache", "--join", "tcp://127.0.0.1:1", "--listen", "tcp://127.0.0.1:0", "--memory", "16M"],
], ids=["target", "cached", "engine"])
def test_program_that_runs_out_of_descriptors_during_its_start_reports_it(words, tmp_path):
    for limit in range(4, 64):
        command = ["prlimit", f"--nofile={limit}", BUILD / words[0], *words[1:], "--control", tmp_path / "control.sock"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
            ready = process.stdout.readline()
            process.terminate()
            log = process.communicate(timeout=60)[1]
        if ready:
            break
        assert process.returncode > 0 and re.search("ulimit -n|Too many open files", log), (limit, process.returncode, log)
    assert ready and process.returncode == 0 and limit > 8, log


def test_target_names_a_socket_that_is_in_use(tmp_path):
    listen = f"shm://{tmp_path}/wss.sock"
    with Target(listen, {"v": "ram:1M"}, tmp_path):
        status, text = target_fails("--listen", listen, "--control", "", "--volume", "v=ram:1M")
    assert status == 1
    assert f"{tmp_path}/wss.sock" in text, text


@pytest.mark.parametrize("role", ["block", "cache", "rs", "kv"])
@pytest.mark.parametrize("taken", ["port", "socket"])
def test_program_that_cannot_listen_does_not_open_its_storage(tmp_path, role, taken):
    """The program must not open its storage, because that could take the storage from another program."""
    image = tmp_path / "disk.img"
    with socket.create_server(("127.0.0.1", 0)) as there, Target("tcp://127.0.0.1:0", {"ram": "ram:1M"}, tmp_path,
                                                                 "--control", str(tmp_path / "taken.sock")):
        taken_at = f"tcp://127.0.0.1:{there.getsockname()[1]}"
        free = "tcp://127.0.0.1:0"
        port = taken_at if taken == "port" else free
        where = {"block": ["--listen", port],
                 "cache": ["--listen", free, "--cache-listen", port],
                 "rs": ["--role", "rs", "--join", "tcp://127.0.0.1:1", "--listen", port],
                 "kv": ["--listen", free, "--kv-listen", port]}[role]
        status, text = target_fails(*where, "--control", str(tmp_path / "taken.sock") if taken == "socket" else "",
                                    "--volume", f"a=aio:{image},size=1M,create")
        assert status == 1 and "use" in text, text
    assert not image.exists()


@pytest.mark.parametrize("words", [
    ["--listen", "tcp://0.0.0.0:PORT", "--listen", "tcp://127.0.0.1:PORT"],
    ["--listen", "tcp://127.0.0.1:PORT", "--cache-listen", "tcp://127.0.0.1:PORT"],
    ["--role", "rs", "--join", "tcp://127.0.0.1:1", "--listen", "tcp://127.0.0.1:PORT", "--listen", "tcp://127.0.0.1:PORT"],
    ["--role", "rs", "--join", "tcp://127.0.0.1:1", "--listen", "tcp://127.0.0.1:0", "--advertise", "ftp://127.0.0.1:1"],
], ids=["two", "cache", "twice", "advertise"])
def test_program_with_conflicting_addresses_does_not_open_its_storage(tmp_path, words):
    image = tmp_path / "disk.img"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    status, text = target_fails(*[word.replace("PORT", port) for word in words], "--control", "", "--volume", f"a=aio:{image},size=1M,create")
    assert status in (1, 2) and not image.exists(), text


# Exit status 2 means that the start can succeed only with another configuration.
@pytest.mark.parametrize("words, ends, said", [
    (["--listen", "tcp://127.0.0.1:0", "--volume", "v=aio:/nonexistent/file"], 1, "/nonexistent/file"),
    (["--listen", "tcp://127.0.0.1:0", "--volume", "v=nosuch:1M"], 1, "nosuch"),
    (["--listen", "tcp://127.0.0.1:0", "--volume", "v=ram:lots"], 1, "lots"),
    (["--listen", "ftp://127.0.0.1:0", "--volume", "v=ram:1M"], 2, "unknown scheme"),
    (["--listen", "tcp://127.0.0.1:0", "--volume", "v=aio:/nonexistent/file,size=1000"], 2, "not a multiple of its block size"),
    (["--role", "rs", "--join", "tcp://127.0.0.1:1", "--listen", "tcp://127.0.0.1:0"]
     + [word for number in range(1025) for word in ("--volume", f"v{number}=ram:1M")], 2, "1025 volumes exceed the limit of 1024"),
], ids=lambda value: None if isinstance(value, list) else str(value))
def test_target_names_the_problem_in_its_options(words, ends, said):
    status, text = target_fails("--control", "", *words)
    assert status == ends
    assert said in text, text


def test_target_names_the_line_of_a_malformed_configuration(tmp_path):
    file = tmp_path / "wss.toml"
    file.write_text('listen = ["tcp://127.0.0.1:0"]\n\n[[volume]]\nname = 5\n')
    status, text = target_fails("--config", str(file))
    assert status == 2
    assert f"{file}:4" in text and "name" in text, text


def test_plugin_describes_itself():
    text = run("nbdkit", "--dump-plugin", PLUGIN).stdout
    assert "name=wss" in text
    assert "thread_model=parallel" in text
    assert "volume=NAME" in run("nbdkit", PLUGIN, "--help").stdout


def test_target_refuses_a_state_file_that_another_target_uses(tmp_path):
    state = tmp_path / "state.json"
    with Target("tcp://127.0.0.1:0", {"v": "ram:1M"}, tmp_path, "--state", str(state)) as running:
        status, text = target_fails("--listen", "tcp://127.0.0.1:0", "--control", "", "--volume", "v=ram:1M", "--state", str(state))
        assert status == 1
        assert f"{state} is used by another wss-target, process {running.process.pid}" in text, text
    with Target("tcp://127.0.0.1:0", {"v": "ram:1M"}, tmp_path, "--state", str(state)):
        pass


def test_reads_of_a_ram_volume_fail_after_its_target_restarts(listen, nbd, tmp_path):
    target = Target(listen, {"disk": "ram:16M"}, tmp_path).start()
    server = nbd(target, "disk", reconnect_timeout=5)
    user = subprocess.Popen(["qemu-io", "-f", "raw", server.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)
    try:
        user.stdin.write("write -P 9 0 64k\n")
        user.stdin.flush()
        while "wrote" not in (line := user.stdout.readline()):
            assert line, "qemu-io exited"
        target.kill()
        with Target(target.address, {"disk": "ram:16M"}, tmp_path):
            said, _ = user.communicate("read -P 9 0 64k\n", timeout=40)
    finally:
        user.kill()
    assert "read failed" in said, said
    assert "the volume no longer exists" in server.log.read_text()


def test_target_refuses_processors_that_do_not_exist():
    assert "this process may not use processor 4095" in target_fails("--listen", "tcp://127.0.0.1:0", "--control", "",
                                                                     "--volume", "v=ram:1M", "--cpus", "4095")[1]
    assert "write one like 2,4-7" in target_fails("--listen", "tcp://127.0.0.1:0", "--control", "", "--volume", "v=ram:1M",
                                                  "--cpus", "all")[1]


def test_reactors_run_on_the_processors_that_are_assigned_to_them(tmp_path):
    allowed = sorted(os.sched_getaffinity(0))
    with Target("tcp://127.0.0.1:0", {"v": "ram:1M"}, tmp_path, "--cpus", f"{allowed[-1]}", "--reactors", "2") as target:
        tasks = Path(f"/proc/{target.process.pid}/task").iterdir()
        reactors = {(task / "comm").read_text().strip(): os.sched_getaffinity(int(task.name)) for task in tasks
                    if (task / "comm").read_text().startswith("reactor-")}
    assert reactors == {"reactor-0": {allowed[-1]}, "reactor-1": {allowed[-1]}}
