# SPDX-License-Identifier: Apache-2.0
"""Reproduces frequent failures and checks that the programs print the texts that Documentation/troubleshooting.md explains.
tests/system/test_troubleshooting.py and test_rdma_devices.py test the sections that need RDMA."""

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.troubleshooting import assert_holds, sections

from .certificates import Authority
from .kv import Store
from .programs import BUILD, PLUGIN, TARGET, Target, run, run_under_nbdkit
from .test_doctor import KERNEL, Machine

WSSCTL, KVCTL, CACHE = BUILD / "wssctl", BUILD / "kvctl", BUILD / "wss-cache"
SMALL = ("--control", "", "--volume", "v=ram:1M")
LISTEN = ("--listen", "tcp://127.0.0.1:0")


def printed(*words, status=None, **options) -> str:
    """Returns the output of a program, which must fail."""
    done = run(*words, check=False, **options)
    assert done.returncode != 0 if status is None else done.returncode == status, f"{words}: {done}"
    return done.stdout + done.stderr


def nbdkit(*words, command="true") -> str:
    done = run_under_nbdkit(command, *words, "connect-timeout=5")
    assert done.returncode != 0
    return done.stdout + done.stderr


def printed_until(text: str, *words, seconds=20) -> str:
    """Runs a daemon that keeps retrying, until it has printed the text. Returns its output."""
    with subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True, start_new_session=True) as process:
        timer = subprocess.Popen(["sleep", str(seconds)])
        lines = ""
        try:
            while text not in lines and timer.poll() is None and (line := process.stderr.readline()):
                lines += line
        finally:
            timer.kill()
            timer.wait()
            os.killpg(process.pid, signal.SIGKILL)  # faketime waits for its child
    assert text in lines, lines
    return lines


@pytest.fixture
def mounted(tmp_path):
    """Mounts a tmpfs with given options."""
    with contextlib.ExitStack() as mounts:
        def mount(options: str) -> Path:
            folder = tmp_path / options.replace("=", "-")
            folder.mkdir()
            if run("mount", "-t", "tmpfs", "-o", options, "none", folder, check=False).returncode != 0:
                pytest.skip("file systems cannot be mounted here")
            mounts.callback(run, "umount", folder)
            return folder

        yield mount


def fill(folder: Path) -> Path:
    with (folder / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    return folder / "filler"


def secret(path: Path, name: str) -> Path:
    path.write_text(run(WSSCTL, "secret", name).stdout)
    path.chmod(0o600)
    return path


def test_every_section_of_the_page_has_a_test():
    here = {"Wrong secret", "Driver not loaded", "Port in use", "Full disk", "Unknown host", "Read-only state directory",
            "Kernel not supported", "Wrong clock"}
    with_rdma = {"Not enough locked memory", "Different MTUs", "Reconnections with soft RoCE", "RDMA device removed or down"}
    assert set(sections()) - here == with_rdma
    assert all(sections().values())


def test_both_ends_report_a_wrong_secret(tmp_path):
    book, engines = secret(tmp_path / "book", "host1"), secret(tmp_path / "engines", "engine1")
    wrong, unknown, engine = secret(tmp_path / "wrong", "host1"), secret(tmp_path / "unknown", "host2"), secret(tmp_path / "engine", "engine1")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with Target("tcp://127.0.0.1:0", {"v": "ram:16M"}, tmp_path, "--secrets", str(book), "--cache-secrets", str(engines),
                "--cache-listen", f"tcp://127.0.0.1:{port}") as target:
        text = printed(WSSCTL, "discover", target.address, "--secret-file", wrong, status=1)
        text += printed(WSSCTL, "discover", target.address, "--secret-file", unknown, status=1)
        text += printed(WSSCTL, "discover", target.address, status=1)
        text += printed(WSSCTL, "discover", target.address, "--secret-file", book, "--target-name", "other", status=1)
        text += printed(WSSCTL, "doctor", target.address, "--secret-file", wrong, status=1)
        text += nbdkit(f"target={target.address}", "volume=v", f"secret-file={wrong}")
        text += printed_until("could not prove", CACHE, "--join", f"tcp://127.0.0.1:{port}", "--memory", "64M", "--secret-file", engine, *LISTEN)
    with Target("tls://127.0.0.1:0", {"v": "ram:16M"}, tmp_path, "--secrets", str(book)) as private:
        text += printed(WSSCTL, "discover", private.address, "--secret-file", wrong, status=1)
    assert_holds("Wrong secret", text + target.log.read_text())


def test_wssctl_advises_how_to_load_or_install_the_driver(tmp_path):
    if Path("/sys/class/wss").exists():
        pytest.skip("the driver is loaded here")
    machine = Machine(tmp_path / "root")
    machine.remove("sys/module/wss/version")
    (machine.root / "sys/module/wss").rmdir()
    text = printed(WSSCTL, "map", "10.87.0.1:5555", "v", status=3)
    text += run(WSSCTL, "doctor", "--root", machine.root).stdout
    machine.write(f"lib/modules/{KERNEL}/modules.dep", "updates/dkms/wss.ko:")
    assert_holds("Driver not loaded", text + run(WSSCTL, "doctor", "--root", machine.root).stdout)


def test_every_listener_names_a_port_that_is_in_use(tmp_path):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = f"127.0.0.1:{holder.getsockname()[1]}"
        text = printed(TARGET, *SMALL, "--listen", f"tcp://{taken}", status=1)
        text += printed(TARGET, *SMALL, *LISTEN, "--cache-listen", f"tcp://{taken}", status=1)
        text += printed(TARGET, *SMALL, *LISTEN, "--http", taken, status=1)
        text += printed(CACHE, "--join", "tcp://127.0.0.1:1", "--memory", "64M", "--listen", f"tcp://{taken}", status=1)
    control = str(tmp_path / "control")
    with Target("tcp://127.0.0.1:0", {"v": "ram:1M"}, tmp_path, "--control", control):
        text += printed(TARGET, *LISTEN, "--volume", "v=ram:1M", "--control", control, status=1)
    assert_holds("Port in use", text)


def test_target_reports_a_full_disk_to_the_client_and_in_its_log(tmp_path, mounted):
    folder = mounted("size=2M")
    filler = fill(folder)
    text = printed(TARGET, *SMALL, *LISTEN, "--state", folder / "state.json", status=1)
    filler.unlink()
    control = str(tmp_path / "control")
    with Target("tcp://127.0.0.1:0", {"v": f"aio:{folder}/disk,size=8M,create"}, tmp_path, "--control", control, "--state",
                str(folder / "state.json")) as target:
        filler = fill(folder)
        text += nbdkit(f"target={target.address}", "volume=v", command='qemu-io -f raw "$uri" -c "write 0 4M"')
        text += printed(WSSCTL, "--control", control, "volume", "create", "w", "ram:1M", status=1)
        filler.unlink()
    (folder / "disk").unlink()
    text += target.log.read_text() + partition_on_a_full_disk(tmp_path, folder)
    assert_holds("Full disk", text)


def partition_on_a_full_disk(tmp_path: Path, folder: Path) -> str:
    """A partition on a full disk still serves reads. When space was freed, it accepts writes after a
    restart."""
    store = Store("tcp", 1, tmp_path, ["--kv-durability", "sync", "--kv-directory", str(folder / "keys")])
    partition, = store.partitions
    kvctl = (KVCTL, "--target", store.target, "--timeout", "10")
    try:
        partition.start()
        run(*kvctl, "put", "before", "1")
        filler = fill(folder)
        text = printed(*kvctl, "put", "large", "x" * 100_000, status=1)
        text += printed(*kvctl, "put", "refused", "1", status=1)
        assert run(*kvctl, "get", "before").stdout == "1\n"
        filler.unlink()
        assert partition.stop() == 1, "part of the log could not be written"
        partition.start()
        assert run(*kvctl, "get", "before").stdout == "1\n"
        run(*kvctl, "put", "after", "1")
        assert partition.stop() == 0
    finally:
        store.kill()
    return text + partition.log.read_text()


def test_every_program_names_an_unknown_host(tmp_path):
    uri = "tcp://no-such-host.invalid:5555"
    text = printed(WSSCTL, "discover", uri, status=3) + printed(WSSCTL, "doctor", uri, status=1)
    text += printed(TARGET, *SMALL, "--listen", uri, status=1) + printed(KVCTL, "--target", uri, "--timeout", "2", "get", "a", status=3)
    text += nbdkit(f"target={uri}", "volume=v")
    text += printed_until("joining again", CACHE, "--join", uri, "--memory", "64M", *LISTEN)
    assert_holds("Unknown host", text)


def test_programs_name_a_read_only_state_directory(tmp_path, mounted):
    folder = mounted("ro")
    text = printed(TARGET, *SMALL, *LISTEN, "--state", folder / "state.json", status=1)
    text += printed(TARGET, "--control", "", *LISTEN, "--volume", f"v=aio:{folder}/disk,size=1M,create", status=1)
    text += printed(TARGET, "--role", "kv", "--control", "", *LISTEN, "--kv-durability", "sync", "--kv-directory", folder / "keys", status=1)
    machine = Machine(tmp_path / "root")
    run("mount", "--bind", folder, machine.root / "var/lib/wss")
    try:
        text += printed(WSSCTL, "doctor", "--root", machine.root, status=1)
    finally:
        run("umount", machine.root / "var/lib/wss")
    assert_holds("Read-only state directory", text)


def test_doctor_distinguishes_an_unsupported_kernel_from_a_missing_driver(tmp_path):
    machine = Machine(tmp_path / "root")
    machine.write("proc/sys/kernel/osrelease", "6.10.3-1")
    machine.remove("sys/module/wss/version")
    (machine.root / "sys/module/wss").rmdir()
    assert_holds("Kernel not supported", run(WSSCTL, "doctor", "--root", machine.root).stdout)


def at_time(offset: str, *words) -> list:
    return ["env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "faketime", "-f", offset, *words]


def test_programs_report_a_wrong_clock(tmp_path):
    authority = Authority(tmp_path / "certificates")
    certificate, key = authority.issue("target")
    pem = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    text = ""
    with Target("tls://127.0.0.1:0", {"v": "ram:16M"}, tmp_path, *pem) as target:
        for offset in ("+40d", "-40d"):
            words = (target.address, "--tls-ca", authority.file)
            text += printed(*at_time(offset, WSSCTL, "discover", *words), status=1)
            text += printed(*at_time(offset, WSSCTL, "doctor", *words), status=1)
    with Store("tcp", 1, tmp_path) as store:
        text += printed(*at_time("+1h", KVCTL, "--target", store.target, "--timeout", "5", "put", "a", "1"), status=3)
    words = at_time("+40d", TARGET, "--control", "", "--listen", "tls://127.0.0.1:0", *pem, "--volume", "v=ram:1M")
    text += printed_until("expired", *words)
    findings = run(WSSCTL, "doctor", check=False).stdout
    right = ("not synchronised", "Run a time service: timedatectl") if "clock          synchronised" in findings else ()
    assert_holds("Wrong clock", text + findings, right)
