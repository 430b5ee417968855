# SPDX-License-Identifier: Apache-2.0
"""Runs commands in a machine. This is the interface for tests.

`Guest.run` runs a command until it exits, and `Guest.start` runs one in the background. Both work in the same
way for a virtual machine (vm.py) and for the host (host_guest.py). Every wait has a limit. A command that
does not end within the limit of `run` or `Process.wait` is killed with its process group, and the error shows
its kernel stacks.
"""

from __future__ import annotations

import re
import shlex
import signal
import threading
import time
from dataclasses import dataclass
from typing import Callable, Protocol, Sequence

from tests.lab import paths
from tests.lab.channel import Sink
from tests.lab.errors import CommandFailed, GuestDied, GuestTimeout, KernelComplaint, LabError, tail
from tests.lab.inside import frames
from tests.lab.klog import KernelLog
from tests.lab.slowness import stretched

DEFAULT_TIMEOUT = 60.0
KILL_GRACE = 10.0  # time from SIGKILL to the end of the process; if it takes longer, the process hangs in the
                   # kernel
OUTPUT_MAX = 64 * 1024 * 1024  # limit for each stream; the rest is dropped, with a note
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

Command = str | Sequence[str]  # a string goes to `sh -c`
OnOutput = Callable[[int, bytes], None]  # called with (frames.STDOUT or STDERR, bytes) as output arrives


@dataclass(frozen=True)
class Result:
    """The result of a command. `status` is negative if a signal ended it. `seconds` is measured by the guest's clock."""

    command: str
    status: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        return self.status == 0

    def require(self) -> Result:
        """Returns this result, or raises an error that shows the command's output."""
        if not self.ok:
            said = tail(self.stdout + self.stderr)
            raise CommandFailed(f"`{self.command}` ended with status {self.status}:\n{said}")
        return self


class Controls(Protocol):
    """A backend's access to one running command."""

    def signal(self, signum: int) -> None: ...
    def write(self, data: bytes) -> None: ...
    def peek(self) -> None: ...


class Process(Sink):
    """A started command. Its output is collected. Callers can wait for it, send it signals and write to it."""

    def __init__(self, name: str, on_output: OnOutput | None = None) -> None:
        self.name = name
        self.controls: Controls | None = None
        self.last_words: Callable[[], str] = str  # last words of the machine, for the error when it dies
        self._on_output = on_output
        self._changed = threading.Condition()  # protects all below
        self._streams = {frames.STDOUT: bytearray(), frames.STDERR: bytearray()}
        self._result: Result | None = None
        self._stacks: str | None = None
        self._died = False

    @property
    def stdout(self) -> str:
        return self._text(frames.STDOUT)

    @property
    def stderr(self) -> str:
        return self._text(frames.STDERR)

    @property
    def running(self) -> bool:
        with self._changed:
            return self._result is None and not self._died

    def poll(self) -> Result | None:
        """Returns the result if the command has ended, otherwise None."""
        with self._changed:
            return self._result

    def wait(self, timeout: float = DEFAULT_TIMEOUT) -> Result:
        """Waits for the end of the command. At the limit its process group is killed, and GuestTimeout shows its stacks."""
        if self._wait_until(lambda: self._result is not None, timeout):
            return self._finished()
        where = self.stacks()
        fate = "killed" if self.kill() else f"SIGKILL did not end it in {KILL_GRACE:.0f} s: it hangs in the kernel"
        raise GuestTimeout(
            f"`{self.name}` did not end within {timeout:.0f} s; {fate}.\n  It was in:\n{tail(where, 40)}\n"
            f"  Its output:\n{tail(self.stdout + self.stderr)}",
            self.stdout,
            self.stderr,
        )

    def wait_for(self, pattern: str, timeout: float = DEFAULT_TIMEOUT) -> re.Match[str]:
        """Waits until the output (either stream) matches. Raises an error if the command ends before that.
        Use this instead of sleeping."""
        regex = re.compile(pattern, re.MULTILINE)
        self._wait_until(lambda: self._match(regex) is not None or self._result is not None, timeout)
        with self._changed:
            match = self._match(regex)
            ended = self._result
        if match:
            return match
        state = f"ended with status {ended.status}" if ended else f"did not print it within {timeout:.0f} s"
        raise LabError(f"`{self.name}`: waited for /{pattern}/, but it {state}:\n{tail(self.stdout + self.stderr)}")

    def write(self, data: bytes) -> None:
        """Writes to the command's standard input. Empty data ends the input."""
        assert self.controls is not None
        self.controls.write(data)

    def signal(self, signum: int) -> None:
        """Sends a signal to the command's process group."""
        assert self.controls is not None
        self.controls.signal(signum)

    def kill(self) -> bool:
        """Kills the command's process group. Returns False if the command does not end."""
        return self._end_by(signal.SIGKILL, KILL_GRACE)

    def stop(self, timeout: float = DEFAULT_TIMEOUT) -> Result:
        """Ends the command with SIGTERM and returns its result."""
        if self.poll() is None:
            self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def stacks(self, timeout: float = 5.0) -> str:
        """Returns the kernel stacks of the command's processes, or "" if it has ended or the machine does not answer."""
        assert self.controls is not None
        with self._changed:
            self._stacks = None
        self.controls.peek()
        self._wait_until(lambda: self._stacks is not None, timeout, dead_is_error=False)
        return self._stacks or ""

    def deliver_output(self, kind: int, data: bytes) -> None:
        with self._changed:
            stream = self._streams[kind]
            if len(stream) < OUTPUT_MAX:
                stream += data
                if len(stream) >= OUTPUT_MAX:
                    stream += b"\n[lab: the rest was dropped]\n"
            self._changed.notify_all()
        if self._on_output:
            self._on_output(kind, data)

    def deliver_exit(self, status: int, seconds: float, error: str) -> None:
        if error:
            self.deliver_output(frames.STDERR, error.encode() + b"\n")
        with self._changed:
            self._result = Result(self.name, status, self.stdout, self.stderr, seconds)
            self._changed.notify_all()

    def deliver_stacks(self, text: str) -> None:
        with self._changed:
            self._stacks = text
            self._changed.notify_all()

    def deliver_death(self) -> None:
        with self._changed:
            self._died = self._result is None
            self._changed.notify_all()

    def _end_by(self, signum: int, timeout: float) -> bool:
        if self.poll() is None:
            self.signal(signum)
        return self._wait_until(lambda: self._result is not None, timeout, dead_is_error=False) or self._died

    def _finished(self) -> Result:
        assert self._result is not None
        return self._result

    def _text(self, kind: int) -> str:
        with self._changed:
            return self._streams[kind].decode(errors="replace")

    def _match(self, regex: re.Pattern[str]) -> re.Match[str] | None:
        return regex.search(self.stdout) or regex.search(self.stderr)

    def _wait_until(self, condition: Callable[[], bool], timeout: float, dead_is_error: bool = True) -> bool:
        """Waits for the condition, and returns False at the limit. If the machine dies, the wait ends, by
        default with an error."""
        with self._changed:
            held = self._changed.wait_for(lambda: condition() or self._died, stretched(timeout))
            if self._died and not condition() and dead_is_error:
                raise GuestDied(f"`{self.name}`: the machine died while it ran; last console output:\n{self.last_words()}")
            return held and condition()


class Guest:
    """A machine in which commands run. Subclasses define how a command is started there."""

    deferred_output = False  # output arrives only at the end of a command, to leave measurements undisturbed

    def __init__(self, name: str, address: str, share: str) -> None:
        self.name = name
        self.address = address  # address of the machine's RDMA device
        self.share = share  # the path, in this machine, of the directory that all machines and the lab share
        self.klog = KernelLog(name)
        self.directory = str(paths.REPOSITORY)  # where commands run by default
        build = paths.build_directory()
        self.environment = {
            "PATH": f"{build}/bin:{build}:{PATH}",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "BUILD": str(build),
            "LAB_ADDRESS": address,
            "LAB_SHARE": share,
        }

    def run(
        self,
        command: Command,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        check: bool = True,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes = b"",
        on_output: OnOutput | None = None,
    ) -> Result:
        """Runs a command until it exits. Raises CommandFailed on a status other than 0 unless `check` is false."""
        process = self.start(command, env=env, cwd=cwd, on_output=on_output)
        process.write(stdin) if stdin else None
        process.write(b"")
        result = process.wait(timeout)
        return result.require() if check else result

    def start(
        self,
        command: Command,
        *,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
        tty: bool = False,
        on_output: OnOutput | None = None,
    ) -> Process:
        """Starts a command in the background."""
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        name = command if isinstance(command, str) else shlex.join(command)
        spec = {
            "argv": argv,
            "env": {**self.environment, **(env or {})},
            "cwd": cwd or self.directory,
            "tty": tty,
            "deferred": self.deferred_output and not tty and on_output is None,
        }
        process = Process(name, on_output)
        self._spawn(process, spec)
        return process

    def read(self, path: str) -> str:
        return self.run(["cat", path]).stdout

    def write(self, path: str, text: str) -> None:
        """Replaces a file's content. Writes to a file of /sys or /proc with a single write."""
        self.run(["dd", f"of={path}", "bs=64k", "iflag=fullblock", "status=none"], stdin=text.encode())

    def start_udev(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        """Starts a minimal udev, for tests that need /dev/disk/by-* links. Rules in /etc and /run of the guest apply."""
        self.run("/lib/systemd/systemd-udevd --daemon && udevadm control --ping && udevadm trigger", timeout)
        self.settle_udev(timeout)

    def settle_udev(self, timeout: float = DEFAULT_TIMEOUT) -> None:
        self.run(["udevadm", "settle", f"--timeout={int(timeout)}"], timeout + 5)

    def sync_klog(self, timeout: float = 20.0) -> None:
        """Waits until `klog` contains everything that the kernel has logged so far."""
        raise NotImplementedError

    def check_klog(self, since: int = 0) -> None:
        """Raises KernelComplaint if the kernel log contains, since the mark, a report that no rule allows."""
        self.sync_klog()
        reports = self.klog.reports(since)
        if reports:
            raise KernelComplaint(f"{self.name}: complaints in the kernel log:\n" + "\n".join(reports))

    def _spawn(self, process: Process, spec: dict) -> None:
        raise NotImplementedError


def wait_until(condition: Callable[[], bool], what: str, timeout: float = DEFAULT_TIMEOUT, pause: float = 0.1) -> None:
    """Polls the condition. Raises an error that names `what` at the time limit."""
    limit = time.monotonic() + stretched(timeout)
    while not condition():
        if time.monotonic() > limit:
            raise LabError(f"{what}: timed out after {timeout:.0f} s")
        time.sleep(pause)
