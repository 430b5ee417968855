# SPDX-License-Identifier: Apache-2.0
"""Measures the figures of paper D that need the driver, in a virtual machine that counts instructions (tests/lab), with one boot
per kernel. wssbench runs this program and produces the figures from its output.

Prints a line of JSON for each figure, kernel and network as soon as it is complete: {figure, kernel, network, measured: {rows,
bounds, bound, ratio}}. An error is a line {"error": TEXT}. LAB=host measures on this machine, in real seconds, if it has RDMA and
can load modules.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable, TextIO

from tests.bench.kernels import FETCHED, kernel_named, module_for
from tests.bench.measurers import interrupt, own_output, put
from tests.lab.errors import LabError
from tests.lab.inside import frames
from tests.lab.lab import Lab, open_lab
from tests.lab.paths import REPOSITORY
from tests.lab.vm import Shape

GUEST_SECONDS = 1800
LEFT_OUT = REPOSITORY / "tests/lab/kernels/left_out.sh"


def on_host() -> bool:
    return os.environ.get("LAB") == "host"


def networks(options: argparse.Namespace) -> list[str]:
    """Returns the networks of the lab, or the one of this machine."""
    return ["this machine's"] if on_host() else options.rdma


def kernels(options: argparse.Namespace) -> list[str]:
    return ["this machine's"] if on_host() else options.kernel


def siw_module(release: str) -> Path:
    """Builds the siw module, which Debian's kernel omits."""
    made = subprocess.run([str(LEFT_OUT), "siw", release], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode != 0:
        raise LabError("siw could not be built")
    return Path(made.stdout.strip()) / "siw/siw.ko"


def guest_words(options: argparse.Namespace, module: Path) -> list[str]:
    return ["python3", "-B", str(REPOSITORY / "tests/bench/measurers/lab_guest.py"), "--build", str(options.build), "--module", str(module),
            *(["--quick"] if options.quick else []), *([] if on_host() else ["--peers"]), "--rdma", *networks(options), "--figures", *options.figures]  # fmt: skip


class Lines:
    """Joins pieces of output into lines. An incomplete last line is dropped."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take, self._partial = take, b""

    def add(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"))


def run_kernel(which: str, options: argparse.Namespace, output: TextIO) -> None:
    kernel = None if on_host() else kernel_named(which)
    words = guest_words(options, module_for(kernel, which, options.build, options.module))
    if kernel and "siw" in networks(options):
        if which in FETCHED:
            raise LabError("soft iWARP is built for the installed kernel only")
        words += ["--siw", str(siw_module(kernel.release))]
    shape = Shape(cpus=1, memory_mib=2048, icount=kernel is not None, kernel_arguments=tuple(options.kernel_argument))
    say = speaker(options)
    results = Lines(lambda line: print(line, file=output, flush=True))
    remarks = Lines(lambda line: line.startswith("lab: ") and say(line.removeprefix("lab: ")))
    with Lab(1, shape, say, kernel) if kernel else open_lab(1, shape, say) as lab:
        lab.vms[0].run(words, timeout=GUEST_SECONDS, on_output=lambda kind, data: (results if kind == frames.STDOUT else remarks).add(data))
        lab.shut_down()


def speaker(options: argparse.Namespace) -> Callable[[str], None]:
    def say(text: str) -> None:
        if not options.no_progress:
            print(f"wssbench: lab: {text}", file=sys.stderr, flush=True)

    return say


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="measures the driver for wssbench")
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--module", type=Path)
    parser.add_argument("--rdma", nargs="+", default=["rxe"])
    parser.add_argument("--kernel", nargs="+", default=["installed"])
    parser.add_argument("--kernel-argument", action="append", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-progress", action="store_true")
    parser.add_argument("--figures", nargs="+", required=True)
    return parser.parse_args()


def run(options: argparse.Namespace, output: TextIO) -> None:
    if options.kernel_argument and on_host():
        raise LabError("--kernel-argument needs a virtual machine, but LAB=host measures on this machine")
    os.environ.setdefault("BUILD", str(options.build))
    for which in kernels(options):
        run_kernel(which, options, output)


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, interrupt)
    output = own_output()
    try:
        run(options, output)
    except LabError as error:
        put(output, {"error": str(error)})
        return 1
    except KeyboardInterrupt:
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
