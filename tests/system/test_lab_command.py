# SPDX-License-Identifier: Apache-2.0
"""Tests the command line of the lab: exit statuses, the interactive shell, and interrupted runs, which must
leave no machine running."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lab import paths, vm
from tests.lab.guest import wait_until
from tests.lab.lab import Lab
from tests.lab.leash import leashed
from tests.lab.vm import Shape

COMMAND = str(paths.REPOSITORY / "tests/lab/lab")
BOOT_LIMIT = 100.0


def run_lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=BOOT_LIMIT + 60)


def test_run_returns_the_output_and_status_of_the_command() -> None:
    done = run_lab("run", "--nvme", "64M", "--", "lsblk -bdno SIZE /dev/nvme0n1; echo oops >&2; exit 9")
    assert (done.returncode, done.stdout.strip()) == (9, str(64 << 20))
    assert "oops" in done.stderr


def test_run_fails_on_a_kernel_complaint_even_if_the_command_succeeds() -> None:
    done = run_lab("run", "--", "echo '<4>WARNING: provoked' >/dev/kmsg")
    assert done.returncode == 125
    assert "WARNING: provoked" in done.stderr


def test_run_kills_a_command_at_its_limit() -> None:
    done = run_lab("run", "--timeout", "1", "--", "sleep", "4341")
    assert done.returncode == 124
    assert "did not end within 1 s" in done.stderr


def test_error_for_an_invalid_size_names_it() -> None:
    done = run_lab("run", "--nvme", "many", "--", "true")
    assert done.returncode == 125
    assert "'many' is not a size" in done.stderr


@pytest.mark.parametrize(
    ("signum", "booted"), [(signal.SIGINT, True), (signal.SIGINT, False), (signal.SIGTERM, False), (signal.SIGKILL, False)]
)
def test_interrupted_run_leaves_no_machine_and_no_switch(signum: int, booted: bool) -> None:
    run = subprocess.Popen([COMMAND, "run", "--vms", "2", "--", "echo up; sleep 4342"], stdout=subprocess.PIPE)
    try:
        wait_until(lambda: len(children_of(run.pid)) == 3, "two machines and their switch run", timeout=30)
        assert run.stdout and (not booted or select.select([run.stdout], [], [], BOOT_LIMIT)[0]), "the machine did not boot"
        children = children_of(run.pid)
        run.send_signal(signum)
        run.wait(20)
    finally:
        run.kill()
    wait_until(lambda: not any(map(lives, children)), "machines and switch are gone", timeout=10)


def test_machine_dies_with_a_lab_that_is_killed_during_its_start(tmp_path: Path) -> None:
    """A parent may die between the fork and its child's request to die with it. The child must not live for
    ever."""
    script = (
        "import os, signal; from tests.lab.lab import Lab; lab = Lab(); lab.vms[0].power_on();"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(lab.vms[0]._qemu.pid)); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-B", "-c", script], cwd=paths.REPOSITORY, timeout=60)
    orphan = int((tmp_path / "pid").read_text())
    wait_until(lambda: not lives(orphan), "the machine is gone", timeout=10)


def test_leash_starts_a_command_only_as_a_child_of_its_creator(tmp_path: Path) -> None:
    command = leashed(["touch", str(tmp_path / "started")])
    subprocess.run(["sh", "-c", '"$@"; true', "sh", *command], timeout=10)  # the parent is not the process that created the command
    assert not (tmp_path / "started").exists()
    subprocess.run(command, timeout=10, check=True)
    assert (tmp_path / "started").exists()


def test_machine_whose_lab_is_gone_powers_itself_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is the second safeguard, in case the leash fails."""
    monkeypatch.setattr(vm, "leashed", lambda command: command)
    with Lab(shape=Shape(rdma=False)) as lab:
        machine = lab.vms[0]
        machine._channel.close()
        machine._qemu.wait(30)


def test_shell_provides_a_terminal_and_ends_on_exit() -> None:
    terminal, theirs = pty.openpty()
    shell = subprocess.Popen([COMMAND, "shell"], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    try:
        expect(terminal, rb"vm0:.*# ", BOOT_LIMIT)
        os.write(terminal, b"stty size; test -t 0 && echo ter''minal\r")
        expect(terminal, rb"\d+ \d+\r\n(.|\n)*terminal\r\n", 20)
        os.write(terminal, b"exit 6\r")
        assert shell.wait(20) == 6
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


def expect(terminal: int, pattern: bytes, timeout: float) -> None:
    """Reads until the pattern appears. On failure, the error shows the text that was read."""
    seen = b""
    limit = time.monotonic() + timeout
    while not re.search(pattern, seen):
        ready = select.select([terminal], [], [], max(0.0, limit - time.monotonic()))[0]
        assert ready, f"no {pattern!r} in {seen!r}"
        seen += os.read(terminal, 4096)


def children_of(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]



def lives(pid: int) -> bool:
    """Returns whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
