# SPDX-License-Identifier: Apache-2.0
"""The programs under test as context managers. Every wait is bounded, and no process outlives its test."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import tempfile
import time
from pathlib import Path

BUILD = Path(os.environ.get("WSS_BUILD", "build/release")).resolve()
TARGET = BUILD / "wss-target"
PLUGIN = BUILD / "nbdkit-wss-plugin.so"
START_SECONDS = 20
STOP_SECONDS = 20
# Prefix of a command that root runs as another user, because resource limits do not apply to root.
# dac_override is needed if other users cannot access the folder of the build.
_RIGHTS = "-all,+dac_override"
AS_USER = ["setpriv", "--reuid", "64321", "--regid", "64321", "--clear-groups", "--inh-caps", _RIGHTS, "--ambient-caps", _RIGHTS,
           "--bounding-set", _RIGHTS]


def run(*command, timeout=60, check=True, **options) -> subprocess.CompletedProcess:
    """Runs a command until it exits. If it fails, the error shows its output."""
    done = subprocess.run([str(word) for word in command], timeout=timeout, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\nexit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def build_shim(folder: Path, source: str) -> Path:
    """Compiles C source to a library for LD_PRELOAD."""
    (folder / "shim.c").write_text(source)
    run("gcc", "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c", "-ldl")
    return folder / "shim.so"


def end(process: subprocess.Popen) -> bool:
    """Sends SIGTERM. Returns False if the process did not exit in time and was killed."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
        return True
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
        return False


def sanitizer() -> list[str]:
    """Returns the command prefix for a foreign program that loads the WSS plug-in. If the plug-in was built with a
    sanitizer, the prefix preloads the sanitizer's library."""
    found = re.search(r"lib[at]san\.so\S* => (\S+)", run("ldd", PLUGIN).stdout)
    # Leaks of nbdkit itself are not checked.
    return ["env", f"LD_PRELOAD={found[1]}", "ASAN_OPTIONS=detect_leaks=0"] if found else []


def run_under_nbdkit(command, *words, **options) -> subprocess.CompletedProcess:
    """Runs a shell command while nbdkit runs with the WSS plugin. In the command, $uri is the URI of nbdkit.
    (`-U -` would leave folders in /tmp.)"""
    with tempfile.TemporaryDirectory(prefix="wss-nbdkit-") as folder:
        return run(*sanitizer(), "nbdkit", "-U", f"{folder}/nbd", PLUGIN, *words, "--run", command, check=False, **options)


def pause(process: subprocess.Popen) -> None:
    """Sends SIGSTOP and waits until all threads have stopped. On a busy machine, threads keep running for a
    while, and could break an assumption of the test."""
    process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + STOP_SECONDS
    while os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        assert time.monotonic() < deadline, f"process {process.pid} did not stop within {STOP_SECONDS} s"
        time.sleep(0.005)


def cpu_seconds(pid: int) -> float:
    """Returns the processor time that all threads of a process have used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Target:
    """A running wss-target. `address` is the address at which it listens, with the actual port."""

    def __init__(self, listen: str, volumes: dict[str, str], directory: Path, *more: str):
        silent = [] if "--control" in more else ["--control", ""]
        self.command = [str(TARGET), "--listen", listen, *silent, *more]
        for name, specification in volumes.items():
            self.command += ["--volume", f"{name}={specification}"]
        self.log = directory / f"target-{time.monotonic_ns()}.log"
        self.listen = listen
        self.process: subprocess.Popen | None = None
        self.address = ""
        self.start_seconds = START_SECONDS

    def start(self) -> "Target":
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
        readable, _, _ = select.select([self.process.stdout], [], [], self.start_seconds)
        line = self.process.stdout.readline().decode() if readable else ""
        ready = re.match(r"wss-target: ready on (\S+), ", line)
        if ready is None:
            self.kill()
            raise AssertionError(f"the target did not become ready: {line!r}\n{self.log.read_text()}")
        self.address = ready.group(1)
        return self

    def stop(self) -> int:
        """Sends SIGTERM, as an operator would, and returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def __enter__(self) -> "Target":
        return self.start()

    def __exit__(self, kind, *_):
        if self.process.poll() is not None:
            return
        try:
            status = self.stop()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the target did not stop\n{self.log.read_text()}") from None
        if kind is None:
            assert status == 0, f"the target exited with status {status}\n{self.log.read_text()}"


class Nbd:
    """A running nbdkit with the WSS plugin, which listens on a Unix socket."""

    def __init__(self, address: str, volume: str | None, directory: Path, options: dict):
        directory.mkdir()
        self.socket = directory / "socket"
        self.pid_file = directory / "pid"
        self.log = directory / "log"
        words = [f"target={address}"] + ([f"volume={volume}"] if volume else [])
        words += [f"{key.replace('_', '-')}={value}" for key, value in options.items()]
        self.command = ["nbdkit", "-f", "-U", str(self.socket), "-P", str(self.pid_file), str(PLUGIN), *words]
        self.process: subprocess.Popen | None = None

    @property
    def uri(self) -> str:
        return f"nbd+unix:///?socket={self.socket}"

    def start(self) -> "Nbd":
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen([*sanitizer(), *self.command], stdout=errors, stderr=errors, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        # nbdkit writes the pid file when the socket exists. Nothing else shows that it is ready.
        while not self.pid_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"nbdkit did not start\n{self.log.read_text()}")
            time.sleep(0.01)
        return self

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        assert end(self.process), f"nbdkit did not stop\n{self.log.read_text()}"
