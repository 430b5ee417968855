# SPDX-License-Identifier: Apache-2.0
"""A key-value store of one or more wss-target processes, and kvctl. No process outlives its test, and every wait is bounded."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from .ports import free_port

BUILD = Path(os.environ.get("WSS_BUILD", "build/release")).resolve()
KVCTL = BUILD / "kvctl"
TARGET = BUILD / "wss-target"
START_SECONDS = 30
STOP_SECONDS = 20


class Partition:
    """One wss-target in the role kv."""

    def __init__(self, index: int, addresses: list[str], directory: Path, options: list[str], wrapper: list[str], environment: dict[str, str]):
        self.index = index
        self.address = addresses[index]
        self.log = directory / f"partition-{index}.log"
        self.command = [*wrapper, str(TARGET), "--role", "kv", "--listen", self.address, "--kv-map", ",".join(addresses),
                        "--kv-partition", str(index), "--control", "", "--log-level", "warning", *options]  # fmt: skip
        self.environment = environment
        self.process: subprocess.Popen | None = None

    def start(self) -> None:
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        if self.address.startswith("shm://"):
            Path(self.address.removeprefix("shm://")).unlink(missing_ok=True)
        with self.log.open("ab") as errors:
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL,
                                            env={**os.environ, **self.environment})

    def wait_ready(self) -> None:
        readable, _, _ = select.select([self.process.stdout], [], [], START_SECONDS)
        line = self.process.stdout.readline().decode() if readable else ""
        if not line.startswith("wss-target: ready"):
            self.kill()
            raise AssertionError(f"partition {self.index} did not become ready: {line!r}\n{' '.join(self.command)}\n{self.log.read_text()}")

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Together(Partition):
    """One wss-target that runs all partitions."""

    def __init__(self, addresses: list[str], directory: Path, options: list[str], wrapper: list[str], environment: dict[str, str]):
        super().__init__(0, addresses, directory, options, wrapper, environment)
        others = [word for address in addresses[1:] for word in ("--listen", address)]
        self.command = [*self.command, *others, "--kv-partitions", str(len(addresses))]


class Store:
    """`count` partitions over tcp or shm. Every wss-target gets `options`, where {index} stands for the partition's number."""

    def __init__(self, scheme: str, count: int, directory: Path, options: list[str] = [], wrapper: list[str] = [],
                 environment: dict[int, dict[str, str]] | None = None, together: bool = False):
        if scheme == "tcp":
            self.addresses = [f"tcp://127.0.0.1:{free_port()}" for _ in range(count)]
        else:
            self.addresses = [f"shm://{directory}/p{index}.sock" for index in range(count)]
        self.directory = directory
        if together:
            self.partitions = [Together(self.addresses, directory, options, wrapper, (environment or {}).get(0, {}))]
            return
        self.partitions = [
            Partition(index, self.addresses, directory, [word.replace("{index}", str(index)) for word in options],
                      [word.replace("{index}", str(index)) for word in wrapper], (environment or {}).get(index, {}))
            for index in range(count)
        ]  # fmt: skip

    @property
    def target(self) -> str:
        return ",".join(self.addresses)

    def __enter__(self) -> "Store":
        try:
            # Start all of them before waiting: before a restarted partition is ready, it requests the state
            # of prepared transactions from the others.
            for partition in self.partitions:
                partition.begin()
            for partition in self.partitions:
                partition.wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            statuses = [partition.stop() for partition in self.partitions if partition.running]
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"a partition did not stop\n{self.logs()}") from None
        if kind is None:
            assert not any(statuses), f"partitions exited with status {statuses}\n{self.logs()}"

    def kill(self) -> None:
        for partition in self.partitions:
            if partition.running:
                partition.kill()

    def logs(self) -> str:
        return "\n".join(f"--- partition {p.index}\n{p.log.read_text()[-2000:]}" for p in self.partitions if p.log.exists())

    # ---- kvctl

    def command(self, *words: object, modes: list[str] = []) -> list[str]:
        return [str(KVCTL), "--target", self.target, *modes, *map(str, words)]

    def kvctl(self, *words: object, expect: int = 0, timeout: float = 60, stdin: bytes | None = None, modes: list[str] = [],
              environment: dict[str, str] | None = None) -> str:
        """Runs kvctl until it exits and returns its output."""
        done = subprocess.run(self.command(*words, modes=modes), timeout=timeout, capture_output=True, input=stdin or b"",
                              env={**os.environ, **(environment or {})})
        assert done.returncode == expect, (f"kvctl {' '.join(map(str, words))}\nexit {done.returncode}, expected {expect}\n"
                                           f"{done.stdout.decode(errors='replace')[-4000:]}\n{done.stderr.decode(errors='replace')[-4000:]}\n{self.logs()}")
        return done.stdout.decode(errors="surrogateescape")

    def kvctl_json(self, *words: object, **options) -> dict | list:
        return json.loads(self.kvctl("--json", *words, **options))

    def info(self) -> list[dict]:
        return self.kvctl_json("info")

    def bench(self, properties: dict[str, object], *words: object, modes: list[str] = [], timeout: float = 300, expect: int = 0,
              environment: dict[str, str] | None = None) -> dict:
        """Runs kvctl bench and returns its JSON."""
        assignments = [word for name, value in properties.items() for word in ("-p", f"{name}={value}")]
        return json.loads(self.kvctl("--json", "bench", *assignments, *words, modes=modes, timeout=timeout, expect=expect,
                                     environment=environment).splitlines()[-1])

    def start_bench(self, properties: dict[str, object], *words: object, modes: list[str] = []) -> subprocess.Popen:
        assignments = [word for name, value in properties.items() for word in ("-p", f"{name}={value}")]
        return subprocess.Popen(self.command("--json", "bench", *assignments, *words, modes=modes), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)


def wait_until(condition, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: timed out after {seconds} s"
        time.sleep(0.02)
