# SPDX-License-Identifier: Apache-2.0
"""A program under test as a process into which faults are injected, whatever the program does."""

from __future__ import annotations

import os
import queue
import re
import resource
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from . import limits
from .problems import Problem

COMPLAINTS = re.compile(r"Sanitizer|runtime error:|WSS_ASSERT|assertion .* failed|terminate called")


def _child() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@dataclass(frozen=True)
class Usage:
    mib: int  # resident
    files: int  # open

    def __str__(self) -> str:
        return f"{self.mib} MiB and {self.files} open files"


class NotReady(Problem):
    """A program did not become ready. `status` is its exit status if it has exited."""

    def __init__(self, text: str, status: int | None):
        super().__init__(text)
        self.status = status


class Process:
    """`command` is called at every start, so that the options can change between two starts."""

    expected_exits = (0, -signal.SIGKILL)
    # After SIGTERM a program may exit with status 1 if storage or the state file did not accept writes within the drain time.
    left_behind = "exiting without them"

    def __init__(self, name: str, role: str, command: Callable[[], list[str]], ready: str, folder: Path):
        self.name, self.role = name, role
        self.command, self.ready = command, re.compile(ready)
        self.folder = folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = self.folder / "log"
        self.lock = threading.RLock()  # held while a thread kills and restarts the process
        self.process: subprocess.Popen | None = None
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.starts = self.kills = 0
        self.paused = False
        self._launching = threading.Lock()
        self._retired = False  # the run has ended: lanes that are still running must start nothing
        self._searched = 0  # number of bytes of the log that check() has searched

    # --- start and end ---

    def launch(self) -> None:
        """Starts the process without waiting until it is ready."""
        command = self.command()
        with self.log.open("ab") as log:
            log.write(f"--- start {self.starts} at {time.strftime('%T')}: {' '.join(command)}\n".encode())
            log.flush()
            with self._launching:
                if self._retired:
                    raise Problem(f"{self.name} was not started: the run has ended")
                # This precedes the start of the process: a thread that finds the new process must not wait
                # for lines of the former one.
                self.lines = queue.Queue()
                self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=self.folder,
                                                preexec_fn=_child)
        self.starts += 1
        self.paused = False
        threading.Thread(target=self._read, args=(self.process, self.lines), daemon=True).start()

    def _read(self, process: subprocess.Popen, lines: queue.Queue) -> None:
        for line in process.stdout:
            if line.endswith(b"\n"):  # a process that was killed may have written only a part of its last
                                      # line
                lines.put(line.decode(errors="replace").rstrip("\n"))
        lines.put(None)

    def start(self) -> None:
        self.launch()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        line = self.next_line(limits.START)
        if line is None or not self.ready.match(line):
            status = self._exit_status()
            raise NotReady(f"{self.name} did not become ready: {line!r}, exit status {status}\n{self.tail()}", status)

    def _exit_status(self) -> int | None:
        try:
            return self.process.wait(1)
        except subprocess.TimeoutExpired:
            return None

    def next_line(self, seconds: float) -> str | None:
        """Returns the next line of standard output, or None if the process has exited or the time limit has passed."""
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def retire(self) -> None:
        """Kills the process and prevents further starts."""
        with self._launching:
            self._retired = True
        if self.is_running():
            self.process.kill()
            self.process.wait()

    def kill(self) -> bool:
        """Sends SIGKILL. Returns whether the process was running."""
        if not self.is_running():
            return False
        self.process.kill()
        self._wait_for_end(limits.STOP, "SIGKILL")
        self.kills += 1
        return self.process.returncode == -signal.SIGKILL

    def terminate(self) -> bool:
        """Sends SIGTERM, as an operator would. Returns whether the process exited with status 0."""
        if not self.is_running():
            return False
        self.process.send_signal(signal.SIGTERM)
        self._wait_for_end(limits.STOP, "SIGTERM")
        self.check_exit()
        return self.process.returncode == 0

    def pause(self) -> bool:
        if not self.is_running():
            return False
        self.process.send_signal(signal.SIGSTOP)
        self.paused = True
        return True

    def resume(self) -> None:
        if self.is_running():
            self.process.send_signal(signal.SIGCONT)
        self.paused = False

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def _wait_for_end(self, seconds: float, why: str) -> None:
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)  # the core dump shows where the process hangs
            raise Problem(f"{self.name} did not end within {seconds:.0f} s after {why}\n{self.tail()}") from None

    # --- checks ---

    def check(self) -> None:
        """Raises a Problem if the process has exited unexpectedly or its log has a finding."""
        if self.process is None:
            return
        self.check_exit()
        with self.log.open("rb") as log:
            log.seek(self._searched)
            text = log.read().decode(errors="replace")
            self._searched = log.tell()
        if found := COMPLAINTS.search(text):
            raise Problem(f"{self.name}: {text[max(0, found.start() - 500):found.start() + 6000]}")

    def check_exit(self) -> None:
        status = None if self.process is None else self.process.poll()
        if status == 1 and self.left_behind in self.tail():
            return
        if status is not None and status not in self.expected_exits:
            raise Problem(f"{self.name} exited unexpectedly with status {status}\n{self.tail()}")

    def usage(self) -> Usage:
        proc = Path(f"/proc/{self.process.pid}")
        resident = re.search(r"VmRSS:\s+(\d+)", (proc / "status").read_text())
        return Usage(int(resident[1]) >> 10, len(list((proc / "fd").iterdir())))

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-9000:] if self.log.exists() else ""


def environment_of_sanitizers() -> None:
    """Sets the environment of all children. With it, a sanitizer report ends the process, freed memory does
    not accumulate, and a process that exits in an orderly way reports leaks."""
    os.environ.setdefault("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=1:disable_coredump=0:quarantine_size_mb=16")
    os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1:halt_on_error=1:abort_on_error=1")
