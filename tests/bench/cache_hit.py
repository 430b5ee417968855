# SPDX-License-Identifier: Apache-2.0
"""`make bench-cache-hit`: instructions of a cache hit and of a read from a RAM volume, at the client and at the target.

Client and target run over tcp under callgrind, on one processor so that no reactor spins. The counts do not depend on the load
of the machine. They exclude the kernel and the cache engine. The client is nbdkit with the WSS plugin; both sides of the
comparison include nbdkit's own part. Each figure is the difference between two runs with different numbers of reads.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.native.cache_cluster import ask, until  # noqa: E402
from tests.native.ports import free_port  # noqa: E402

SIZE = 16 << 20
LINE = 128 << 10
FEW = 1000
CALLGRIND = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
WAIT = 300  # limit of every wait; callgrind on a busy machine is slow


class Counted:
    """A program under callgrind, unless `counted` is false. instructions() ends it."""

    def __init__(self, command: list[str], log: Path, ready: str, counted: bool = True):
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen([*(CALLGRIND if counted else []), *command], stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        until(lambda: ready in log.read_text() or self.process.poll() is not None, WAIT, f"{command[0]} is ready")

    def instructions(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT)
        # nbdkit serves in a child process, which has the larger count.
        return max(int(count) for count in re.findall(r"Collected : (\d+)", self.log.read_text()))

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(WAIT)


def fio(uri: str, *words: str) -> None:
    subprocess.run(["fio", "--name=bench", "--ioengine=nbd", f"--uri={uri}", f"--size={SIZE}", "--randrepeat=1", "--norandommap",
                    "--verify_state_save=0", *words], check=True, stdout=subprocess.DEVNULL, timeout=WAIT)  # fmt: skip


def measure(build: Path, cached: bool, block: int, depth: int, reads: int) -> tuple[int, int]:
    """Returns the instructions of client and target, including their start and end."""
    with tempfile.TemporaryDirectory(prefix="wss-bench-") as folder, ExitStack() as stack:
        directory = Path(folder)
        serve, join = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        control = directory / "control"
        backing = f"aio:{directory}/disk,size={SIZE},create" if cached else f"ram:{SIZE}"
        more = ["--cache-listen", join, "--cache-line", str(LINE)] if cached else []
        target = Counted([str(build / "wss-target"), "--listen", serve, "--volume", f"disk={backing}", "--auth-off", "--control", str(control), *more],
                         directory / "target.log", "ready on")  # fmt: skip
        stack.callback(target.end)
        if cached:
            engine = Counted([str(build / "wss-cache"), "--join", join, "--listen", f"tcp://127.0.0.1:{free_port()}", "--memory", "48M", "--control", ""],
                             directory / "engine.log", "ready on", counted=False)  # fmt: skip
            stack.callback(engine.end)
            until(lambda: len(ask(control, "cache.status")["engines"]) == 1, WAIT, "the engine has joined")
        socket = directory / "nbd"
        client = Counted(["nbdkit", "-f", "-U", str(socket), str(build / "nbdkit-wss-plugin.so"), f"target={serve}", "volume=disk"],
                         directory / "client.log", "callgrind")  # fmt: skip
        stack.callback(client.end)
        until(socket.exists, WAIT, "nbdkit listens")
        uri = f"nbd+unix:///?socket={socket}"
        fio(uri, "--rw=read", "--bs=128k")
        if cached:
            until(lambda: ask(control, "cache.status")["used_lines"] == SIZE // LINE, WAIT, "every line is in the cache")
            before = ask(control, "cache.status")["volumes"][0]["counters"]
        fio(uri, "--rw=randread", f"--bs={block}", f"--iodepth={depth}", f"--number_ios={reads}", f"--io_size={reads * block}")
        if cached:
            after = ask(control, "cache.status")["volumes"][0]["counters"]
            assert after["through_target_bytes"] == before["through_target_bytes"], "every read must be a hit that bypasses the target"
            assert after["fast_path_hits"] > before["fast_path_hits"], "hits must use the fast path"
        return client.instructions(), target.instructions()


def read_rate(build: Path, engines: int, seconds: int) -> float:
    """Returns the bytes per second of hits from `engines` engines, without callgrind and on all processors."""
    with tempfile.TemporaryDirectory(prefix="wss-bench-") as folder, ExitStack() as stack:
        directory = Path(folder)
        serve, join = (f"tcp://127.0.0.1:{free_port()}" for _ in range(2))
        control = directory / "control"
        started = [Counted([str(build / "wss-target"), "--listen", serve, "--volume", f"disk=aio:{directory}/disk,size={SIZE},create", "--auth-off",
                            "--control", str(control), "--cache-listen", join], directory / "target.log", "ready on", counted=False)]  # fmt: skip
        for number in range(engines):
            started.append(Counted([str(build / "wss-cache"), "--join", join, "--listen", f"tcp://127.0.0.1:{free_port()}", "--memory", "48M", "--control", ""],
                                   directory / f"engine{number}.log", "ready on", counted=False))  # fmt: skip
        until(lambda: len(ask(control, "cache.status")["engines"]) == engines, WAIT, "the engines have joined")
        socket = directory / "nbd"
        started.append(Counted(["nbdkit", "-f", "-t", "64", "-U", str(socket), str(build / "nbdkit-wss-plugin.so"), f"target={serve}", "volume=disk"],
                               directory / "client.log", "", counted=False))  # fmt: skip
        for process in started:
            stack.callback(process.end)
        until(socket.exists, WAIT, "nbdkit listens")
        uri = f"nbd+unix:///?socket={socket}"
        fio(uri, "--rw=read", "--bs=64k")
        until(lambda: ask(control, "cache.status")["used_lines"] == SIZE // 65536, WAIT, "every line is in the cache")
        before = ask(control, "cache.status")["volumes"][0]["counters"]
        fio(uri, "--rw=randread", "--bs=64k", "--iodepth=32", "--time_based", f"--runtime={seconds}")
        after = ask(control, "cache.status")["volumes"][0]["counters"]
        assert after["storage_read_bytes"] == before["storage_read_bytes"], "every read must be a hit"
        return (after["out_of_band_read_bytes"] - before["out_of_band_read_bytes"]) / seconds


def compare_engines(build: Path, rounds: int = 5, seconds: int = 3) -> int:
    """Compares hits of 64 KiB at depth 32 over tcp from two engines with those from one. Each round measures both in turn and
    yields a ratio."""
    ratios = []
    for _ in range(rounds):
        one, two = (read_rate(build, engines, seconds) for engines in (1, 2))
        ratios.append(two / one)
        print(f"one engine {one / 1e6:.0f} MB/s, two {two / 1e6:.0f} MB/s, ratio {two / one:.2f}", flush=True)
    print(f"median of {rounds}: {sorted(ratios)[rounds // 2]:.2f}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--reads", type=int, default=5000, help="number of counted reads")
    parser.add_argument("--engines", action="store_true", help="compare the throughput of hits from two engines and from one instead")
    options = parser.parse_args()
    if options.engines:
        return compare_engines(Path(options.build).resolve())
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    build = Path(options.build).resolve()
    print(f"{'reads':<14} {'client: RAM volume':>18} {'hit':>8} {'ratio':>6} {'target: RAM volume':>20} {'hit':>8} {'ratio':>6}")
    for block, depth in ((4096, 1), (4096, 32), (LINE, 8)):
        figures = []
        for cached in (False, True):
            few, many = (measure(build, cached, block, depth, reads) for reads in (FEW, FEW + options.reads))
            figures.append([(b - a) / options.reads for a, b in zip(few, many)])
        ram, hit = figures
        print(f"{block >> 10}k depth {depth:<4} {ram[0]:>18.0f} {hit[0]:>8.0f} {hit[0] / ram[0]:>6.2f} {ram[1]:>20.0f} {hit[1]:>8.0f} {hit[1] / ram[1]:>6.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
