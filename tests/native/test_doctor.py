# SPDX-License-Identifier: Apache-2.0
"""Tests `wssctl doctor` on simulated file trees of machines, on this machine, and with real targets."""

import ctypes
import json
import os
import re
import socket

import pytest

from .certificates import Authority
from .programs import BUILD, Target, run

WSSCTL = BUILD / "wssctl"
VERSION = re.search(r"[\d.]+", run(WSSCTL, "--version").stdout)[0]
RESULTS = {"ok", "warning", "failed", "skipped"}
RXE = "sys/class/infiniband/rxe0/ports/1"
KERNEL = "6.1.0-53-amd64"


class Machine:
    """The file tree of a machine without a problem."""

    def __init__(self, root):
        self.root = root
        self.write("proc/sys/kernel/osrelease", KERNEL)
        self.write("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000")
        self.memlock("unlimited")
        self.write("sys/module/wss/version", VERSION)
        self.write("dev/infiniband/rdma_cm", "")
        self.write(f"{RXE}/state", "4: ACTIVE")
        self.write(f"{RXE}/gid_attrs/ndevs/0", "eth0")
        self.write("sys/class/net/eth0/mtu", "4200")
        self.write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never")
        (root / "var/lib/wss").mkdir(parents=True)
        (root / "run/wss").mkdir(parents=True)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def remove(self, path):
        (self.root / path).unlink()

    def memlock(self, limit):
        self.write("proc/self/limits", f"Limit  Soft Limit  Hard Limit  Units\nMax locked memory         {limit}    {limit}    bytes")


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path / "root")


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "certificates")


def doctor(*words, root=None, status=None):
    done = run(WSSCTL, "--json", "doctor", *(["--root", root] if root else []), *words, check=False)
    findings = json.loads(done.stdout)
    for one in findings:
        assert one["result"] in RESULTS and one["text"], one
        # Each result that is not ok has advice in the form of a sentence.
        assert (one["advice"] == "") == (one["result"] == "ok"), one
        assert one["advice"] == "" or one["advice"].endswith("."), one
    failed = any(one["result"] == "failed" for one in findings)
    assert done.returncode == (1 if failed else 0), done.stderr
    if status is not None:
        assert done.returncode == status, findings
    return findings


def found(findings, check):
    return [(one["result"], one["text"] + " | " + one["advice"]) for one in findings if one["check"] == check]


def only(findings, check):
    (result, text), = found(findings, check)
    return result, text


def test_doctor_finds_no_fault_on_a_healthy_machine(machine):
    findings = doctor(root=machine.root, status=0)
    checks = {one["check"]: one["result"] for one in findings}
    clock = checks.pop("clock")
    assert clock in ("ok", "warning", "skipped")
    assert checks == {"kernel": "ok", "module": "ok", "memlock": "ok", "rdma": "ok", "mtu": "ok", "state": "ok", "huge pages": "ok",
                      "control": "skipped", "targets": "skipped"}


@pytest.mark.parametrize("release, result", [("6.1.0-53-amd64", "ok"), ("6.12.9+deb13", "ok"), ("6.10.3-1", "warning"), ("5.10.0-9", "warning"), ("6.1", "warning")])
def test_doctor_warns_of_an_untested_kernel(machine, release, result):
    machine.write("proc/sys/kernel/osrelease", release)
    told = only(doctor(root=machine.root), "kernel")
    assert told[0] == result and release in told[1]


def test_doctor_reports_a_module_of_another_version_as_failed(machine):
    machine.write("sys/module/wss/version", "0.0.1")
    result, text = only(doctor(root=machine.root, status=1), "module")
    assert result == "failed" and "0.0.1" in text and VERSION in text and "rmmod wss" in text


def test_doctor_suggests_loading_or_installing_a_module_that_is_not_loaded(machine):
    machine.remove("sys/module/wss/version")
    (machine.root / "sys/module/wss").rmdir()
    result, text = only(doctor(root=machine.root, status=0), "module")
    assert result == "warning" and f"apt install wss-dkms linux-headers-{KERNEL}" in text
    machine.write(f"lib/modules/{KERNEL}/modules.dep", "kernel/a/notwss.ko: \nupdates/dkms/wss.ko.xz: kernel/drivers/infiniband/core/ib_core.ko.xz")
    result, text = only(doctor(root=machine.root, status=0), "module")
    assert result == "warning" and "modprobe wss" in text


def test_doctor_reports_a_low_limit_of_locked_memory_as_failed_where_rdma_is_used(machine):
    machine.memlock(8 << 20)
    result, text = only(doctor(root=machine.root, status=1), "memlock")
    assert result == "failed" and "8.00 MiB" in text and "LimitMEMLOCK=infinity" in text
    machine.memlock(64 << 20)
    assert only(doctor(root=machine.root, status=0), "memlock")[0] == "ok"
    machine.memlock(8 << 20)
    machine.write("proc/self/status", "CapEff:\t0000000000004000")
    assert only(doctor(root=machine.root, status=0), "memlock")[0] == "ok", "with CAP_IPC_LOCK no limit applies"


def test_doctor_reports_a_link_that_is_down_as_failed_unless_another_is_up(machine):
    machine.write(f"{RXE}/state", "1: DOWN")
    result, text = only(doctor(root=machine.root, status=1), "rdma")
    assert result == "failed" and "rxe0 port 1 on eth0: DOWN" in text and "ip link set eth0 up" in text
    machine.write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE")
    assert {result for result, _ in found(doctor(root=machine.root, status=0), "rdma")} == {"ok", "warning"}


def test_doctor_reports_a_missing_connection_manager_as_failed(machine):
    machine.remove("dev/infiniband/rdma_cm")
    assert ("failed" in dict(found(doctor(root=machine.root, status=1), "rdma"))
            and any("modprobe rdma_ucm" in text for _, text in found(doctor(root=machine.root), "rdma")))


def test_doctor_warns_of_a_small_mtu_with_the_command_that_raises_it(machine):
    machine.write("sys/class/net/eth0/mtu", "1500")
    result, text = only(doctor(root=machine.root, status=0), "mtu")
    assert result == "warning" and "rxe0 on eth0: 1500" in text and "ip link set eth0 mtu 4200" in text


def test_doctor_skips_rdma_checks_on_a_machine_without_rdma(machine):
    for name in ("state", "gid_attrs/ndevs/0"):
        machine.remove(f"{RXE}/{name}")
    os.removedirs(machine.root / f"{RXE}/gid_attrs/ndevs")
    findings = doctor("127.0.0.1", root=machine.root, status=0)
    result, text = only(findings, "rdma")
    assert result == "skipped" and "rdma link add" in text
    assert only(findings, "connect")[0] == "skipped"
    machine.memlock(8 << 20)
    assert only(doctor(root=machine.root, status=0), "memlock")[0] == "warning"


def test_doctor_reports_a_control_socket_without_a_listener_as_failed(machine):
    path = machine.root / "run/wss/storage.sock"
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(1)
    assert only(doctor(root=machine.root, status=0), "control") == ("ok", f"{path} | ")
    server.close()
    result, text = only(doctor(root=machine.root, status=1), "control")
    assert result == "failed" and "Connection refused" in text and "systemctl status" in text


def test_doctor_reports_a_read_only_or_full_state_directory_as_failed(machine):
    folder = machine.root / "var/lib/wss"
    for options, said in (("ro", "read-only"), ("size=64k", "0 B free")):
        fill = f"dd if=/dev/zero of={folder}/x bs=4k status=none 2>/dev/null;" if "size" in options else ""
        done = run("unshare", "-rm", "sh", "-c", f"mount -t tmpfs -o {options} none {folder} && {{ {fill} exec {WSSCTL} --json doctor --root {machine.root}; }}", check=False)
        result, text = only(json.loads(done.stdout), "state")
        assert done.returncode == 1 and result == "failed" and said in text, text


def test_doctor_warns_of_disabled_transparent_huge_pages(machine):
    machine.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]")
    assert only(doctor(root=machine.root, status=0), "huge pages")[0] == "warning"


def test_doctor_examines_this_machine_and_reports_the_kernels_clock_state():
    findings = doctor()
    assert {"kernel", "module", "memlock", "rdma", "mtu", "clock", "control", "state", "huge pages", "targets"} == {one["check"] for one in findings}
    buffer = ctypes.create_string_buffer(256)  # struct timex; modes are zero, so the call only reads
    if ctypes.CDLL(None).adjtimex(buffer) >= 0:
        status = ctypes.c_int.from_buffer(buffer, 40).value
        assert only(findings, "clock")[0] == ("warning" if status & 0x40 else "ok")


def test_doctor_works_for_an_unprivileged_user(machine):
    os.chmod(machine.root.parent, 0o755)
    done = run("setpriv", "--reuid=65534", "--clear-groups", WSSCTL, "doctor", check=False)
    assert done.returncode in (0, 1) and re.search(r"^\w+ +kernel ", done.stdout, re.M), done.stdout + done.stderr


def test_doctor_reports_a_target_that_responds_as_ok(tmp_path):
    with Target("tcp://127.0.0.1:0", {"disk0": "ram:16M"}, tmp_path) as target:
        findings = doctor(target.address.replace("127.0.0.1", "localhost"))
        assert [found(findings, check)[0][0] for check in ("name", "route", "connect", "login")] == ["ok"] * 4
        assert "accepted, 1 volume" in only(findings, "login")[1]
        assert only(findings, "data") == ("ok", f"{target.address.replace('127.0.0.1', 'localhost')}: volume disk0: 64.0 KiB read | ")
        assert "127.0.0.1" in only(findings, "name")[1] and re.search(r"MTU \d+", found(findings, "route")[0][1])
    result, text = only(doctor(target.address, status=1), "connect")
    assert result == "failed" and "wss-target runs on the target and listens on port" in text


def test_doctor_names_the_network_or_the_storage_as_the_cause_if_a_read_fails_after_a_login(tmp_path):
    with Target("tcp://127.0.0.1:0", {"silent": "delay:us=8000000:ram:16M"}, tmp_path) as target:
        findings = doctor(target.address, "--wait", "1", status=1)
        result, text = only(findings, "data")
        assert result == "failed" and "no answer in time, although the login was answered" in text and "ping -M do -s 65507 127.0.0.1" in text
        assert only(findings, "login")[0] == "ok"
    with Target("tcp://127.0.0.1:0", {"broken": "error:op=read,errno=EIO:ram:16M"}, tmp_path) as target:
        result, text = only(doctor(target.address, status=0), "data")
        assert result == "warning" and "could not access its medium" in text and "wssctl volume list" in text
    with Target("tcp://127.0.0.1:0", {"tiny": "ram:8K"}, tmp_path) as target:
        assert "8.00 KiB read" in only(doctor(target.address, status=0), "data")[1]


def test_doctor_distinguishes_a_refused_login_from_an_unreachable_target(tmp_path):
    secrets, mine = tmp_path / "secrets", tmp_path / "mine"
    for file, secret in ((secrets, "0" * 32), (mine, "1" * 32)):
        file.write_text(f"host1:{secret}\n")
        file.chmod(0o600)
    with Target("tcp://127.0.0.1:0", {"disk0": "ram:16M"}, tmp_path, "--secrets", str(secrets)) as target:
        for words, said in (([], "refused the login"), (["--secret-file", mine], "could not prove that it knows the secret of 'host1'")):
            findings = doctor(target.address, *words, status=1)
            result, text = only(findings, "login")
            assert result == "failed" and said in text and "--secret-file" in text, text
            assert not found(findings, "connect")
        mine.write_text(secrets.read_text())
        assert only(doctor(target.address, "--secret-file", mine), "login")[0] == "ok"
        mine.chmod(0o644)
        assert "wssctl secret" in only(doctor(target.address, "--secret-file", mine, status=1), "login")[1]


def test_doctor_names_unusable_tls_files_and_does_not_connect(tmp_path):
    unusable = tmp_path / "ca.pem"
    unusable.write_text("no certificate")
    for words, said, advice in ((["--tls-ca", unusable], f"--tls-ca {unusable}", "Name PEM files"),
                                (["--tls-ca", tmp_path / "missing"], f"--tls-ca {tmp_path}/missing", "Name PEM files"),
                                ([], "cannot verify the other end", "Give --secret-file")):
        findings = doctor("tls://127.0.0.1:1", *words, status=1)
        result, text = only(findings, "tls")
        assert result == "failed" and said in text and advice in text and "wss-target runs" not in text, text
        assert not found(findings, "connect")


def test_doctor_distinguishes_a_tls_failure_from_an_unreachable_target(tmp_path, authority):
    certificate, key = authority.issue("target", "IP:127.0.0.2")
    words = ["--tls-ca", authority.file]
    with Target("tls://127.0.0.1:0", {"disk0": "ram:16M"}, tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key)) as target:
        result, text = only(doctor(target.address, *words, status=1), "tls")
        assert result == "failed" and "IP address mismatch" in text and "Compare --tls-ca" in text, text
        result, text = only(doctor(target.address.replace("tls:", "tcp:"), status=1), "tls")
        assert result == "failed" and "connect with tls://" in text and "Write the address" in text, text
    certificate, key = authority.issue("target")
    with Target("tls://127.0.0.1:0", {"disk0": "ram:16M"}, tmp_path, "--tls-cert", str(certificate), "--tls-key", str(key),
                "--tls-client-ca", str(authority.file)) as target:
        result, text = only(doctor(target.address, *words, status=1), "tls")
        assert result == "failed" and "certificate required" in text and "Give --tls-cert" in text, text


def test_doctor_names_an_unknown_host_and_an_invalid_address(machine):
    findings = doctor("no-such-host.invalid", "tcp://[::1", root=machine.root, status=1)
    (first, unknown), (second, wrong) = found(findings, "name")
    assert first == second == "failed"
    assert "cannot find host 'no-such-host.invalid'" in unknown and "the bracket of the IPv6 address" in wrong


def test_text_report_has_a_line_for_each_finding(machine):
    machine.write("sys/class/net/eth0/mtu", "1500")
    text = run(WSSCTL, "doctor", "--root", machine.root).stdout
    assert re.search(r"^ok +module +loaded, version", text, re.M)
    assert re.search(r"^warning +mtu +rxe0 on eth0: 1500.*\n +-> For throughput", text, re.M), text
