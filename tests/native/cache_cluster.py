# SPDX-License-Identifier: Apache-2.0
"""A target with a cache, and its cache engines. They are processes on this host, which a test can kill and restart."""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

from .ports import free_port
from .programs import BUILD, START_SECONDS, STOP_SECONDS, Target, pause

ENGINE = BUILD / "wss-cache"


READING = {"methods", "ping", "stats", "block.latency", "volume.list", "session.list", "auth.show", "cache.status", "engine.status"}


class ControlSocket(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path | str, timeout: float = 60):
        super().__init__("wss", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def call(self, method: str, **params):
        """Calls a method and returns the result. Fails with the text of the error."""
        path = f"/api/v1/{method.replace('.', '/')}"
        try:
            if method in READING:
                self.request("GET", path)
            else:
                self.request("POST", path, json.dumps(params))
            response = self.getresponse()
            answer = json.load(response)
        except http.client.HTTPException as failure:
            raise AssertionError(f"the target closed the control connection during {method}: {failure}") from None
        if response.status != 200:
            raise ControlError(f"{method}: {answer['error']['message']}")
        return answer


def ask(control: Path, method: str, timeout: float = 60, **params):
    """Makes one call over a control socket and returns the result. Fails with the text of the error."""
    with contextlib.closing(ControlSocket(control, timeout)) as connection:
        return connection.call(method, **params)


class ControlError(AssertionError):
    pass


def until(condition, seconds: float = 15, what: str = "the condition"):
    """Polls the condition and returns its first true value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"{what}: timed out after {seconds} s"
        time.sleep(0.02)


class Engine:
    """A running wss-cache."""

    def __init__(self, name: str, join: str, listen: str, memory: str, directory: Path):
        self.name = name
        self.control = directory / f"{name}.sock"
        self.log = directory / f"{name}.log"
        self.command = [str(ENGINE), "--join", join, "--listen", listen, "--memory", memory,
                        "--control", str(self.control), "--leave-seconds", "10"]
        self.process: subprocess.Popen | None = None

    def start(self) -> "Engine":
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
        readable, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline().decode() if readable else ""
        assert line.startswith("wss-cache: ready on "), f"{line!r}\n{self.log.read_text()}"
        return self

    def status(self) -> dict:
        return ask(self.control, "engine.status")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def hang(self) -> None:
        """Pauses the process until go_on(). The process keeps its contents."""
        pause(self.process)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Cluster:
    """A target and its cache engines. `kind` is tcp or shm; "tcp/2" is tcp with two reactors in the target. A
    restarted process keeps its address."""

    def __init__(self, kind: str, directory: Path, engines: int = 1, memory: str = "64M", size: str = "64M", more=(),
                 volumes: dict[str, str] | None = None, read_ahead: str = "0"):
        """Read-ahead is off by default, because tests count reads from storage."""
        self.kind, _, reactors = kind.partition("/")
        self.directory = directory
        self.control = directory / "target.sock"
        self.join = self._address("join")
        self.volumes = volumes or {"disk": f"aio:{directory}/disk.img,size={size},create"}
        self.more = ["--cache-listen", self.join, "--state", str(directory / "state.json"), "--control", str(self.control),
                     "--auth-off", "--drain-seconds", "15", "--cache-read-ahead", read_ahead,
                     *(["--reactors", reactors] if reactors else []), *more]
        self.target = Target(self._address("serve"), self.volumes, directory, *self.more)
        self.memory = memory
        self.engines: list[Engine] = []
        for number in range(engines):
            self.add_engine(f"engine{number}", start=False)

    def _address(self, name: str) -> str:
        return f"tcp://127.0.0.1:{free_port()}" if self.kind == "tcp" else f"shm://{self.directory}/{name}.shm"

    def add_engine(self, name: str, start: bool = True) -> Engine:
        engine = Engine(name, self.join, self._address(name), self.memory, self.directory)
        self.engines.append(engine)
        return engine.start() if start else engine

    def start(self) -> "Cluster":
        self.target.start()
        for engine in self.engines:
            engine.start()
        self.wait_for_engines(len(self.engines))
        return self

    def status(self) -> dict:
        return ask(self.control, "cache.status")

    def live(self) -> list[dict]:
        return [engine for engine in self.status()["engines"] if engine["state"] == "live"]

    def wait_for_engines(self, count: int, seconds: float = 15) -> None:
        until(lambda: len(self.live()) == count, seconds, f"{count} engines are live")

    def wait_for_clients(self, count: int = 1) -> None:
        """Waits until every live engine has at least `count` clients."""
        until(lambda: all(engine["clients"] >= count for engine in self.live()), 10, "the clients have connected to the engines")

    def counters(self, volume: str = "disk") -> dict:
        return next(v for v in self.status()["volumes"] if v["name"] == volume)["counters"]

    def dirty(self) -> int:
        return self.status()["dirty_lines"]

    def policy(self, policy: str, volume: str = "disk", unsafe: bool = False) -> None:
        ask(self.control, "cache.policy", volume=volume, policy=policy, unsafe=unsafe)

    def logs(self) -> str:
        parts = [self.target.log] + [engine.log for engine in self.engines]
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in parts if path.exists())

    def stop(self) -> None:
        for engine in self.engines:
            if engine.is_running():
                engine.kill()
        if self.target.process is not None and self.target.process.poll() is None:
            self.target.kill()

    def __enter__(self) -> "Cluster":
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, kind, *_):
        ended = [(p, s) for p, s in [("target", self.target.process.poll())] + [(e.name, e.process.poll()) for e in self.engines]
                 if s is not None and s not in (0, -signal.SIGKILL)]
        self.stop()
        if kind is not None or ended:
            print(self.logs())
        assert not ended, f"programs exited unexpectedly: {ended}\n{self.logs()}"
