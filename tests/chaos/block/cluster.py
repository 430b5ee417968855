# SPDX-License-Identifier: Apache-2.0
"""The processes of a target with a cache, over both tcp and shm, with their current options."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.native.cache_cluster import ask
from tests.native.ports import free_port

from ..processes import Process
from ..small_disks import SmallDisk
from .control import command
from .load import LoadClient, Volume

ENGINES = 3
CLIENTS = 2
SMALL_MIB = 8  # size of the file system of volumes that fill it up
STATE_KIB = 256  # size of the file system of the state file


@dataclass
class Options:
    """Options for the target's next start."""

    more: list[str] = field(default_factory=list)
    missing: set[str] = field(default_factory=set)  # declared volumes that the options omit


class Cluster:
    def __init__(self, build: Path, folder: Path, seed: int):
        self.build, self.folder = build, folder
        self.options = Options()
        self.reactors = 1 + seed % 2  # reactors of the target, unless its options state a number
        self.volumes: dict[str, Volume] = {}
        self.memory = ["8M"] * ENGINES  # memory that each engine lends from its next start on
        self.removed: dict[int, int] = {}  # removed engines, each with the number of its starts at that time
        self.last_id = 0
        self.state_disk, self.small_disk = SmallDisk(folder, "state", STATE_KIB), SmallDisk(folder, "small", SMALL_MIB * 1024)
        self.serve = {kind: self._address(kind, "serve") for kind in ("tcp", "shm")}
        self.join = {kind: self._address(kind, "join") for kind in ("tcp", "shm")}
        self.control = folder / "target.sock"
        self.secrets = self._make_secrets()
        self.target = Process("target", "target", self._target_command, "wss-target: ready on ", folder)
        self.engines = [self._engine(number) for number in range(ENGINES)]
        self.storage = Process("storage", "storage", self._storage_command, "wss-target: ready on ", folder)
        self.clients = [LoadClient(f"client{number}", build / "wss-chaos-load", self.serve[("tcp", "shm")[number % 2]], number, CLIENTS, seed,
                                   folder / f"secret{number}", folder) for number in range(CLIENTS)]
        self.processes: list[Process] = [self.target, self.storage, *self.engines, *self.clients]

    def _address(self, kind: str, name: str) -> str:
        return f"tcp://127.0.0.1:{free_port()}" if kind == "tcp" else f"shm://{self.folder}/{name}.shm"

    # --- secrets ---

    def _make_secrets(self) -> Path:
        path = self.folder / "secrets"
        for number in range(CLIENTS):
            secret = self.folder / f"secret{number}"
            secret.write_text(f"client{number}:this-is-the-long-secret-of-client-{number}\n")
            secret.chmod(0o600)
        path.touch(0o600)
        self.write_secrets(path, 0)
        return path

    def write_secrets(self, path: Path, others: int) -> int:
        """Writes the secrets of the clients and of `others` more hosts. Returns their number."""
        lines = [(self.folder / f"secret{number}").read_text() for number in range(CLIENTS)]
        lines += [f"other{number}:this-is-the-long-secret-of-other-{number}\n" for number in range(others)]
        path.write_text("".join(lines))
        return len(lines)

    # --- commands ---

    def _target_command(self) -> list[str]:
        words = [str(self.build / "wss-target"), "--state", str(self.state_disk.path / "state.json"), "--control", str(self.control),
                 "--secrets", str(self.secrets), "--cache-auth-off", "--drain-seconds", "15", *self.options.more]
        if "--reactors" not in self.options.more:
            words += ["--reactors", str(self.reactors)]
        for address in self.serve.values():
            words += ["--listen", address]
        for address in self.join.values():
            words += ["--cache-listen", address]
        for volume in self.volumes.values():
            if volume.declared and volume.name not in self.options.missing:
                words += ["--volume", f"{volume.name}={volume.backend},size=8M" + ("" if volume.backend.startswith(("rs:", "rbd:")) else ",create")]
        return words

    def _storage_command(self) -> list[str]:
        return [str(self.build / "wss-target"), "--role", "rs", "--join", self.join["tcp"], "--listen", self.storage_tcp, "--listen",
                self.storage_shm, "--volume", f"far=aio:{self.folder}/far.img,size=8M,create", "--control", str(self.folder / "storage.sock")]

    def _engine(self, number: int) -> Process:
        listen = [self._address(kind, f"engine{number}") for kind in ("tcp", "shm")]
        words = [str(self.build / "wss-cache"), "--join", self.join[("tcp", "shm")[number % 2]], "--control", str(self.engine_control(number)),
                 "--leave-seconds", "10"]
        for address in listen:
            words += ["--listen", address]
        return Process(f"engine{number}", "engine", lambda: [*words, "--memory", self.memory[number]], "wss-cache: ready on ", self.folder)

    def engine_control(self, number: int) -> Path:
        return self.folder / f"engine{number}.sock"

    def start(self) -> None:
        self.storage_tcp, self.storage_shm = self._address("tcp", "storage"), self._address("shm", "storage")
        self.declare("disk0", f"aio:{self.folder}/disk0.img", self.folder / "disk0.img")
        self.declare("disk1", f"aio:{self.folder}/disk1.img", self.folder / "disk1.img")
        self.declare("far", "rs:far", None)
        for process in (self.target, self.storage, *self.engines, *self.clients):
            process.start()
        for volume in self.volumes.values():
            for client in self.clients:
                client.open(volume)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.retire()
        for disk in (self.state_disk, self.small_disk):
            disk.unmount()

    # --- volumes ---

    def declare(self, name: str, backend: str, path: Path | None) -> None:
        self.volumes[name] = Volume(name, self.next_id(), backend, 8 << 20, True, path)

    def next_id(self) -> int:
        self.last_id += 1
        return self.last_id

    def ask(self, method: str, **parameters):
        return command(self.control, method, **parameters)

    def status(self) -> dict:
        return self.ask("cache.status")

    def identity(self, engine: Process) -> str | None:
        """Returns the identity of the engine's current incarnation, or None if it does not answer now."""
        try:
            return ask(self.engine_control(self.engines.index(engine)), "engine.status", 1)["identity"]
        except (OSError, AssertionError, ValueError):
            return None

    def live_engines(self) -> list[dict]:
        return [engine for engine in self.status()["engines"] if engine["state"] == "live"]

    def sizes(self) -> dict[str, int]:
        return {volume["name"]: volume["size"] for volume in self.ask("volume.list") if volume["state"] == "live"}
