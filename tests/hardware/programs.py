# SPDX-License-Identifier: Apache-2.0
"""The programs under test, and fio, on a machine of the kit. Each is a context manager, and every wait has a limit."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Iterator

from tests.hardware.kit import Failed, Kit
from tests.hardware.machine import Machine
from tests.lab.guest import Process, wait_until
from tests.lab.errors import tail

START_LIMIT = 120.0
STOP_LIMIT = 120.0
MIXED = "512/10:4k/40:16k/20:64k/20:256k/10"  # sizes of requests and their shares
MIB = 1 << 20


class Server:
    """A program that serves an address and prints "ready on". It can be killed and started again with the same address."""

    def __init__(self, machine: Machine, words: list[str], uri: str) -> None:
        self.machine, self.words, self.uri = machine, words, uri
        self.process: Process | None = None

    def start(self) -> None:
        self.process = self.machine.start(self.words)
        self.process.wait_for(r"ready on ", START_LIMIT)

    def kill(self) -> None:
        if self.process is not None and not self.process.kill():
            raise Failed(f"{self.words[0]} on {self.machine.name} did not end after SIGKILL: it hangs in the kernel")

    def stop(self) -> None:
        """Stops the program as an operator would. It must exit without an error."""
        assert self.process is not None
        result = self.process.stop(STOP_LIMIT)
        if result.status != 0:
            raise Failed(f"{self.words[0]} on {self.machine.name} exited with status {result.status}:\n{tail(result.stderr)}")

    def __enter__(self) -> Server:
        try:
            self.start()
        except BaseException:
            self._kill_if_possible()
            raise
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is None:
            self.stop()
        self._kill_if_possible()

    def _kill_if_possible(self) -> None:
        if self.process is not None and self.machine.running:
            self.process.kill()


class Target(Server):
    """wss-target on the target machine. `volumes` are names and backends."""

    def __init__(self, kit: Kit, volumes: dict[str, str], *more: str) -> None:
        uri = kit.uri(kit.target_address, kit.port())
        self.control = f"{kit.target.directory}/target-{uri.rpartition(':')[2]}.sock"
        words = [word for name, backend in volumes.items() for word in ("--volume", f"{name}={backend}")]
        super().__init__(kit.target, ["wss-target", "--listen", uri, "--auth-off", "--control", self.control, *words, *more], uri)

    def ask(self, *words: str) -> dict:
        return json.loads(self.machine.run(["wssctl", "--control", self.control, "--json", *words]).stdout)

    def written(self) -> int:
        """Returns the bytes that initiators have written."""
        return self.ask("stats", "--target")["target"]["block"]["written_bytes"]


@contextmanager
def nbd(kit: Kit, target: str, volume: str, **options: int) -> Iterator[str]:
    """Serves a volume on the client machine as a network block device, through libwss. Yields its URI."""
    machine = kit.client
    base = f"{machine.directory}/nbd-{kit.port()}"
    words = [f"{name.replace('_', '-')}={value}" for name, value in options.items()]
    process = machine.start(["nbdkit", "-f", "-U", f"{base}.sock", "-P", f"{base}.pid", f"{machine.programs}/nbdkit-wss-plugin.so",
                             f"target={target}", f"volume={volume}", *words])  # fmt: skip
    try:
        # nbdkit writes the pid file when it is ready. It has no other sign.
        wait_until(lambda: not process.running or machine.run(["test", "-e", f"{base}.pid"], check=False).ok, "nbdkit is ready", START_LIMIT, 0.2)
        if not process.running:
            raise Failed(f"nbdkit with the WSS plug-in did not start on {machine.name}:\n{tail(process.stderr)}")
        yield f"nbd+unix:///?socket={base}.sock"
        result = process.stop(STOP_LIMIT)
        if result.status != 0:
            raise Failed(f"nbdkit on {machine.name} exited with status {result.status}:\n{tail(result.stderr)}")
    finally:
        if machine.running:
            process.kill()


def fio_words(where: str, *jobs: dict[str, object], **options: object) -> list[str]:
    """Returns the command of fio on an NBD URI or a block device. `jobs` run one after the other; without any there is one."""
    engine = ["--ioengine=nbd", f"--uri={where}"] if where.startswith("nbd") else ["--ioengine=libaio", "--direct=1", f"--filename={where}"]
    words = ["fio", "--output-format=json", "--verify_state_save=0", "--stonewall", *engine, *(f"--{name}={value}" for name, value in options.items())]
    for number, job in enumerate(jobs or ({},)):
        words += [f"--name=job{number}", *(f"--{name}={value}" for name, value in job.items())]
    return words


def fio_jobs(process: Process, limit: float) -> list[dict]:
    """Waits for fio and returns the reports of its jobs. Any error, such as a wrong checksum, fails the part."""
    result = process.wait(limit)
    notes, brace, rest = result.stdout.partition("{\n")  # fio prints notes before the report
    jobs = json.loads(brace + rest)["jobs"] if brace else []
    errors = [job["error"] for job in jobs]
    if result.status != 0 or any(errors) or not jobs:
        raise Failed(f"fio exited with status {result.status}, errors of its jobs {errors}:\n{tail(notes)}\n{tail(result.stderr)}")
    return jobs


def fio_job(process: Process, limit: float) -> dict:
    [job] = fio_jobs(process, limit)
    return job


def verify(kit: Kit, where: str, mib: int, limit: float, **options: object) -> str:
    """Writes an area at random with checksums, reads all of it back, and compares. Returns a description."""
    job = fio_job(kit.client.start(fio_words(where, **{"rw": "randwrite", "bssplit": MIXED, "iodepth": 16, "size": f"{mib}m", "verify": "crc32c",
                                                       "verify_fatal": 1, "randseed": 20261130, **options})), limit)  # fmt: skip
    written, read = job["write"]["io_bytes"], job["read"]["io_bytes"]
    if min(written, read) < mib * MIB:
        raise Failed(f"fio wrote {written} and verified {read} bytes; {mib * MIB} of each were expected")
    return f"{job['write']['total_ios']} writes of 512 bytes to 256 KiB ({mib} MiB) read back with correct checksums"
