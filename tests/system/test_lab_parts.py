# SPDX-License-Identifier: Apache-2.0
"""Tests of the parts of the lab that need no machine: sizes, frames, the choice of the kernel, the kernel
log, and the host as a guest."""

from __future__ import annotations

import gzip
import os
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import bootimage, paths, probe
from tests.lab.disks import parse_size
from tests.lab.errors import GuestTimeout, KernelComplaint, LabError
from tests.lab.host_guest import HostGuest
from tests.lab.initramfs import initramfs_for
from tests.lab.inside import frames
from tests.lab.kernel import choose_kernel, newest_installed
from tests.lab.klog import KernelLog, last_words
from tests.lab.lab import Lab, open_lab
from tests.lab.vm import Shape


@pytest.mark.parametrize(("text", "size"), [("4096", 4096), ("64M", 64 << 20), ("2GiB", 2 << 30), ("1tb", 1 << 40)])
def test_parser_accepts_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "1", "-4096", "1.5G", "4Q"])
def test_parser_rejects_invalid_sizes(text: str) -> None:
    with pytest.raises(ValueError):
        parse_size(text)


def test_parser_accepts_frames_split_at_any_byte() -> None:
    stream = frames.pack(frames.STDOUT, 1, b"abc") + frames.pack(frames.EXIT, 2) + frames.pack(frames.KLOG, 0, b"x" * 300)
    parser = frames.Parser()
    found = [frame for byte in stream for frame in parser.feed(bytes([byte]))]
    assert found == frames.Parser().feed(stream)
    assert [(kind, number, len(body)) for kind, number, body in found] == [
        (frames.STDOUT, 1, 3),
        (frames.EXIT, 2, 0),
        (frames.KLOG, 0, 300),
    ]


def test_parser_rejects_a_frame_longer_than_the_limit() -> None:
    with pytest.raises(ValueError, match="limit"):
        frames.Parser().feed(frames.HEADER.pack(frames.STDOUT, 1, frames.PAYLOAD_MAX + 1))


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: CPU: 1 PID: 77 at drivers/infiniband/core/mr_pool.c:80 ib_mr_pool_destroy+0x6b/0x80 [ib_core]",
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "BUG: KASAN: slab-use-after-free in wss_queue_rq+0x1c/0x80",
        "Oops: 0002 [#1] PREEMPT SMP NOPTI",
        "WARNING: possible circular locking dependency detected",
        "WARNING: suspicious RCU usage",
        "INFO: task kworker/0:1:8 blocked for more than 120 seconds.",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [fio:300]",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
        "UBSAN: array-index-out-of-bounds in io.c:7:3",
        "Kernel panic - not syncing: Fatal exception",
        "DMA-API: nvme 0000:00:06.0: device driver has pending DMA allocations while released from device",
    ],
)
def test_log_detects_a_complaint_of_the_kernel(line: str) -> None:
    log = KernelLog("test")
    log.append(f"4,1,5000000,-;{line}\n SUBSYSTEM=pci")
    assert len(log.reports()) == 1
    assert line in log.reports()[0]


@pytest.mark.parametrize(
    "line", ["wss: debugging is on", "Spectre V2 : WARN not applicable", "debug: BUGS none", "nvme: Ignoring bogus Namespace"]
)
def test_harmless_line_is_not_a_complaint(line: str) -> None:
    log = KernelLog("test")
    log.append(f"6,1,5000000,-;{line}")
    assert log.reports() == []


def test_allowed_line_hides_no_other() -> None:
    log = KernelLog("test")
    log.allow("provoked", "this test")
    log.append("4,1,1,-;WARNING: provoked")
    assert log.reports() == []
    log.append("4,2,2,-;WARNING: something else")
    assert len(log.reports()) == 1


def test_last_words_begin_with_the_cause_however_long_the_trace() -> None:
    text = "all is well\n" * 50 + "BUG: the cause\n" + "trace\n" * 100 + "the end\n"
    assert "the cause" in last_words(text)
    assert "the end" in last_words(text)
    assert len(last_words(text).splitlines()) < 40


def test_console_adds_only_lines_that_the_agent_did_not_send(tmp_path: Path) -> None:
    log = KernelLog("test")
    log.new_boot()
    log.append("4,1,1000000,-;WARNING: sent")
    console = tmp_path / "console"
    console.write_text("[    1.000000] WARNING: sent\r\n[    2.000000] Kernel panic - not sent\r\n")
    log.end_of_boot(console)
    log.end_of_boot(console)
    assert log.text().splitlines() == ["[    1.000000] WARNING: sent", "[    2.000000] Kernel panic - not sent"]


@pytest.mark.parametrize(
    ("behaviour", "accelerator", "reason"),
    [
        ("echo lab-probe-ok", "kvm", "booted"),
        ("echo assertion failed; kill -ABRT $$", "tcg", "assertion failed"),
        ("exec sleep 30", "tcg", "does not boot"),
    ],
)
def test_acceleration_is_used_only_if_a_kernel_boots_with_it(
    behaviour: str, accelerator: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qemu = tmp_path / "qemu-system-x86_64"
    qemu.write_text(f"#!/bin/sh\n{behaviour}\n")
    qemu.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(probe, "DEVICE", qemu)
    monkeypatch.setattr(probe, "LIMIT", 1.0)
    answer = probe.probe(choose_kernel())
    assert answer.accelerator == accelerator
    assert reason in answer.reason


def test_result_of_the_acceleration_probe_is_cached_until_its_inputs_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD", str(tmp_path))
    monkeypatch.delenv("WSS_LAB_ACCEL", raising=False)
    probes = []
    monkeypatch.setattr(probe, "probe", lambda kernel: probes.append(kernel) or probe.Answer("tcg", "a test"))
    device = tmp_path / "kvm"  # this machine may have no /dev/kvm
    device.touch()
    monkeypatch.setattr(probe, "DEVICE", device)
    for _ in range(2):
        assert probe.accelerator_for(choose_kernel()).accelerator == "tcg"
    assert len(probes) == 1
    device.unlink()
    probe.accelerator_for(choose_kernel())
    assert len(probes) == 2


def test_error_without_a_kernel_names_the_package(tmp_path: Path) -> None:
    (tmp_path / "vmlinuz-9.9.9-none").touch()
    with pytest.raises(LabError, match="linux-image-amd64"):
        newest_installed(tmp_path)


def test_compressed_kernel_is_unpacked_unless_its_format_is_unknown() -> None:
    body = b"\x7fELF kernel"
    payload = gzip.compress(body)
    image = bytearray(1024) + payload
    image[0x1F1] = 1
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", image, 0x248, 0, len(payload))
    assert bootimage.unpack(bytes(image)) == body
    image[1024:1026] = b"??"
    assert bootimage.unpack(bytes(image)) is None
    assert bootimage.unpack(b"") is None


def test_initramfs_is_an_archive_with_init_and_modules() -> None:
    archive = initramfs_for(choose_kernel()).read_bytes()
    listed = subprocess.run(["cpio", "-t", "--quiet"], input=archive, capture_output=True, check=True, timeout=30)
    names = listed.stdout.decode().split()
    assert {"init", "bin/busybox", "dev/console", "modules/order", "modules/overlay.ko"} <= set(names)


def test_lab_rejects_invalid_numbers_of_machines_and_unknown_kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="1 to"):
        Lab(0)
    monkeypatch.setenv("LAB", "moon")
    with pytest.raises(LabError, match="vm or host"):
        open_lab()
    monkeypatch.setenv("LAB", "host")
    with pytest.raises(LabError, match="one machine"):
        open_lab(2, Shape())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostGuest]:
    """The host as a guest. It may have no RDMA, so its address is given."""
    monkeypatch.setenv("WSS_LAB_ADDRESS", "127.0.0.1")
    guest = HostGuest(tmp_path)
    yield guest
    guest.close()


def test_host_runs_commands_like_a_guest(host: HostGuest) -> None:
    result = host.run("echo $LAB_ADDRESS; cat; echo err >&2; exit 3", stdin=b"typed\n", check=False)
    assert (result.status, result.stdout, result.stderr) == (3, "127.0.0.1\ntyped\n", "err\n")


def test_host_kills_a_hanging_command_with_its_children(host: HostGuest) -> None:
    with pytest.raises(GuestTimeout):
        host.run("sleep 4331 & sleep 4331", timeout=0.5)
    assert host.run("pgrep -c -f 'sleep 433[1]'", check=False).stdout.strip() == "0"


def test_host_reports_a_missing_program_like_a_guest(host: HostGuest) -> None:
    result = host.run(["/does/not/exist"], check=False)
    assert result.status == 127
    assert "No such file" in result.stderr


def test_host_ends_background_commands_with_the_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WSS_LAB_ADDRESS", "127.0.0.1")
    guest = HostGuest(tmp_path)
    background = guest.start("echo up; sleep 4332")
    background.wait_for("up")
    guest.close()
    assert background.wait(5).status == -signal.SIGKILL


def test_pruning_removes_the_disks_of_a_killed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD", str(tmp_path))
    dead, alive = (paths.runs_directory() / name for name in ("99999999-0", f"{os.getpid()}-0"))
    for run in (dead, alive):
        run.mkdir()
        (run / "vm0-nvme0.img").touch()
        (run / "vm0-boot1.console").touch()
    assert paths.prune_runs(keep=5) == 0
    assert [path.name for path in dead.iterdir()] == ["vm0-boot1.console"]
    assert len(list(alive.iterdir())) == 2
    assert paths.prune_runs(keep=0) == 1
    assert alive.exists() and not dead.exists()


def test_host_checks_its_kernel_log(host: HostGuest) -> None:
    host.check_klog()
    host.klog.append("4,1,1,-;WARNING: on the host")
    with pytest.raises(KernelComplaint, match="on the host"):
        host.check_klog()
