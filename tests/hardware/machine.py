# SPDX-License-Identifier: Apache-2.0
"""A machine under test: this one, or one that ssh reaches.

One connection per machine starts agent.py there. It runs all commands, and ends them when the connection ends. Every command's
output is written to a log of its own.
"""

from __future__ import annotations

import contextlib
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Callable

from tests.lab import paths
from tests.lab.channel import AgentControls, Channel
from tests.lab.errors import GuestDied, LabError, tail
from tests.lab.guest import PATH, Command, Guest, OnOutput, Process
from tests.lab.inside import frames
from tests.lab.slowness import stretched

CONNECT_LIMIT = 60.0  # seconds until the agent answers; ssh gives up earlier (kit.SSH)
END_LIMIT = 120.0  # the agent needs up to 35 s for each command that ignores SIGTERM
HEARTBEAT = 10.0
ANSWER_LIMIT = 60.0  # a machine that does not answer for this time is lost
LOG_MAX = 4 << 20  # bytes of one command's log; the rest is dropped

# The modules that the agent needs, in the order of their imports.
SOURCES = {
    "tests.lab.inside.frames": paths.REPOSITORY / "tests/lab/inside/frames.py",
    "tests.lab.inside.agent": paths.REPOSITORY / "tests/lab/inside/agent.py",
    "tests.hardware.agent": Path(__file__).with_name("agent.py"),
}
# Reads a Python program of a known length from standard input and runs it. What follows on the input is for the program.
STARTER = """import os
s = b""
while len(s) < {length}:
    d = os.read(0, {length} - len(s))
    if not d:
        raise SystemExit("the connection ended during the start")
    s += d
exec(s)"""


def program(directory: str) -> bytes:
    """Returns the source of the agent and its modules as one Python program."""
    sources = {name: path.read_text() for name, path in SOURCES.items()}
    return f"""import sys, types
for name in ("tests", "tests.lab", "tests.lab.inside", "tests.hardware"):
    sys.modules[name] = types.ModuleType(name)
for name, source in {sources!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
    parent, _, last = name.rpartition(".")
    setattr(sys.modules[parent], last, module)
module.main({directory!r})
""".encode()


def local_command(starter: str) -> list[str]:
    return [sys.executable, "-Bc", starter]


def remote_command(template: str, host: str) -> Callable[[str], list[str]]:
    """Returns a function that adds the remote command, as one word for the shell there, to the user's command for this host."""
    words = [word.replace("{host}", host) for word in shlex.split(template)]
    return lambda starter: [*words, f"python3 -Bc {shlex.quote(starter)}"]


class Logs:
    """The logs of a run: a directory for each part, a file for each command."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._part = "start"
        self._count = 0
        self._lock = threading.Lock()

    def begin(self, part: str) -> None:
        self._part, self._count = part, 0

    def create(self, name: str) -> Path:
        with self._lock:
            self._count += 1
            path = self.directory / self._part / f"{self._count:03}-{name}.log"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path


class Machine(Guest):
    def __init__(self, name: str, command: Callable[[str], list[str]], logs: Logs, place: str) -> None:
        directory = f"{place}/wss-hardware-{secrets.token_hex(6)}"
        super().__init__(name, address="", share=directory)
        self.directory = directory
        self.programs = str(paths.build_directory())  # where the programs are; another place if they were copied
        self.is_remote = command is not local_command
        self.facts: dict = {}  # facts.py
        self._logs = logs
        self._errors = logs.create(f"{name}-connection")
        self._process, self._channel = self._connect(command)
        self._closing = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _connect(self, command: Callable[[str], list[str]]) -> tuple[subprocess.Popen[bytes], Channel]:
        source = program(self.directory)
        words = command(STARTER.format(length=len(source)))
        ours, theirs = socket.socketpair()
        with self._errors.open("wb") as errors:
            try:
                # A session of its own: Ctrl-C must not end the connection before the commands have ended.
                process = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=errors, start_new_session=True)
            except OSError as error:
                raise LabError(f"{self.name}: {words[0]}: {error.strerror}") from error
        theirs.close()
        with contextlib.suppress(OSError):  # the command has ended already, which hello reports below
            ours.sendall(source)  # fits into the buffer of the socket
        channel = Channel(ours, self.klog.append)
        if not channel.hello.wait(stretched(CONNECT_LIMIT)) or channel.dead.is_set():
            channel.close()
            process.kill()
            process.wait(10)
            raise LabError(f"{self.name}: `{shlex.join(words[:-1])} …` did not start the kit's agent, which needs python3 there:\n"
                           f"{tail(self._errors.read_text(errors='replace'))}")  # fmt: skip
        return process, channel

    def set_environment(self, **more: str) -> None:
        self.environment = {"PATH": f"{self.programs}:{PATH}", "HOME": self.directory, "LANG": "C.UTF-8", "BUILD": self.programs,
                            "LAB_ADDRESS": self.address, "LAB_SHARE": self.directory, **more}  # fmt: skip

    @property
    def is_root(self) -> bool:
        return self.facts.get("uid") == 0

    @property
    def running(self) -> bool:
        return not self._channel.dead.is_set()

    def start(self, command: Command, *, env: dict[str, str] | None = None, cwd: str | None = None, tty: bool = False,
              on_output: OnOutput | None = None) -> Process:  # fmt: skip
        words = shlex.split(command) if isinstance(command, str) else list(command)
        programs = [Path(word).name for word in words if "=" not in word and word not in ("exec", "mkdir", "-p", "&&")]
        log = self._logs.create(f"{self.name}-{programs[0][:24] if programs else 'command'}")
        shown = " ".join(f"{name}={value}" for name, value in (env or {}).items())
        log.write_text(f"$ {shown} {command if isinstance(command, str) else shlex.join(command)}\n")

        def record(kind: int, data: bytes) -> None:
            if log.stat().st_size < LOG_MAX:
                with log.open("ab") as file:
                    file.write(data)
            if on_output:
                on_output(kind, data)

        return super().start(command, env=env, cwd=cwd, tty=tty, on_output=record)

    def sync_klog(self, timeout: float = 20.0) -> None:
        if not self._channel.sync(stretched(timeout)):
            raise GuestDied(f"the connection to {self.name} was lost")

    def close(self) -> None:
        """Ends everything that was started on the machine, and the connection. May be called twice."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._channel.send(frames.POWEROFF, 0)
        self._channel.dead.wait(stretched(END_LIMIT))
        self._channel.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(10)

    def _spawn(self, process: Process, spec: dict) -> None:
        if self._channel.dead.is_set():
            raise GuestDied(f"`{process.name}`: the connection to {self.name} was lost:\n{self._last_words()}")
        process.last_words = self._last_words
        process.controls = AgentControls(self._channel, self._channel.spawn(process, spec))

    def _last_words(self) -> str:
        return tail(self._errors.read_text(errors="replace"))

    def _watch(self) -> None:
        """Sends a frame at short intervals, so that the agent stays, and detects a machine that does not answer."""
        while not self._closing.wait(HEARTBEAT):
            if not self._channel.sync(stretched(ANSWER_LIMIT)):
                self._channel.close()
                return
