# SPDX-License-Identifier: Apache-2.0
"""The figures of paper D that need the driver, in a virtual machine that counts instructions (tests/lab), all in one boot of
each kernel.

LAB=host measures on this machine, in real seconds, if it has RDMA and can load modules.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from tests.bench.figures.core import ROOT, machine
from tests.bench.kernels import FETCHED, kernel_named, module_for
from tests.lab.errors import LabError
from tests.lab.inside import frames
from tests.lab.lab import Lab, open_lab
from tests.lab.vm import Shape

GUEST_SECONDS = 1800
NETWORKS = {"rxe": "soft RoCE (rxe)", "siw": "soft iWARP (siw, built once from the kernel's own sources)"}
LEFT_OUT = ROOT / "tests/lab/kernels/left_out.sh"


class NoLab(Exception):
    """A machine, a module or a reply is missing; the text names it."""


@dataclass(frozen=True)
class Kind:
    paper: str
    title: str
    x: str
    series: tuple[str, ...]
    paper_values: tuple[dict, ...]
    unit: str = "IOPS"


FIGURES = {
    "mlockv": Kind("D fig 13", "Requests as one region each, against one region for each piece", "bytes", ("kernel", "network", "registered", "operation", "depth"),
                   ({"text": "D fig 13: 570-600 MB/s as one region, 250-350 MB/s by pieces: 1.7-2.3 x"},)),
    "raw": Kind("D fig 15", "Raw I/O (O_DIRECT) by record size", "bytes", ("kernel", "network", "operation", "depth"),
                ({"text": "D fig 15: 70 MB/s, 24 % of the model 1/(1/net + 1/copy) = 287 MB/s"},)),
    "block": Kind("D fig 16", "Block I/O through the page cache by record size", "bytes", ("system", "operation", "where", "kernel", "network"),
                  ({"text": "D fig 16: read 220, write 210 MB/s, 76.7 % of the model 1/(1/net + 1/copy) = 287 MB/s"},)),
    "breakdown": Kind("D tables 3, 4", "Where the time of a 64 KiB raw request goes", "stage", ("kernel", "network", "operation"),
                      ({"text": "D tables 3, 4: of 920 us for a raw write of 64 KiB: communication 309 (33.6 %), WSS and SRP 92 (10.0 %), memory copy 114 "
                                "(12.4 %), other (kernel, system call) 405 (44.0 %)"},), unit="requests"),
}  # fmt: skip


def on_host() -> bool:
    return os.environ.get("LAB") == "host"


def networks(options: argparse.Namespace) -> list[str]:
    """Returns the networks of the lab, or the one of this machine."""
    return ["this machine's"] if on_host() else options.rdma or ["rxe"]


def siw_module(release: str) -> Path:
    """Debian's kernel has no siw module."""
    made = subprocess.run([str(LEFT_OUT), "siw", release], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode != 0:
        raise NoLab("siw could not be built")
    return Path(made.stdout.strip()) / "siw/siw.ko"


def kernels(options: argparse.Namespace) -> list[str]:
    return ["this machine's"] if on_host() else getattr(options, "kernel", None) or ["installed"]


def words(options: argparse.Namespace) -> list[str]:
    """Returns the command-line options that select the lab's machines."""
    chosen = {"--rdma": getattr(options, "rdma", None), "--kernel": getattr(options, "kernel", None)}
    return [word for flag, values in chosen.items() if values for word in (flag, *values)] + [
        word for argument in kernel_arguments(options) for word in ("--kernel-argument", argument)]  # fmt: skip


def parts_wanted(options: argparse.Namespace) -> int:
    """Returns the number of parts of each figure."""
    return len(kernels(options)) * len(networks(options))


def kernel_arguments(options: argparse.Namespace) -> tuple[str, ...]:
    return tuple(getattr(options, "kernel_argument", None) or ())


class Measured:
    """Collects the machines' results: a line of JSON for each figure, kernel and network as soon as it is complete, so that
    an early end keeps them. A thread of the lab delivers the bytes; the waiting thread uses the rest."""

    def __init__(self, wanted: int, say: Callable[[str], None] = lambda _: None) -> None:
        self.parts: dict[str, dict[tuple[str, str], dict]] = {}  # figure -> kernel, network -> the guest's measurements
        self._wanted, self._say = wanted, say  # parts of each figure
        self._partial = {True: b"", False: b""}

    def take(self, data: bytes, is_result: bool) -> None:
        *lines, self._partial[is_result] = (self._partial[is_result] + data).split(b"\n")
        for line in lines:
            if is_result:
                part = json.loads(line)
                self.parts.setdefault(part["figure"], {})[part["kernel"], part["network"]] = part["measured"]
            elif line.startswith(b"lab: "):
                self._say(line.decode(errors="replace").removeprefix("lab: "))

    def figure(self, name: str) -> dict | None:
        """Returns the figure of the kernels and networks that were measured, or None."""
        parts = self.parts.get(name)
        if not parts:
            return None
        return {**together(parts), **({} if len(parts) == self._wanted else {"interrupted": True})}


def together(parts: dict[tuple[str, str], dict]) -> dict:
    """Joins the measurements of each kernel and network into one figure. Its bound and ratio are those of the first kernel
    and network; its bounds include all."""
    for figure in parts.values():
        if "error" in figure:
            return figure
    first = next(iter(parts.values()))
    return {**first, **{key: [{"kernel": kernel, "network": network, **row} for (kernel, network), figure in parts.items() for row in figure.get(key, [])] for key in ("rows", "bounds")}}


def guest_words(names: list[str], options: argparse.Namespace, module: Path) -> list[str]:
    return ["python3", "-B", str(ROOT / "tests/bench/figures/lab_guest.py"), "--build", str(options.build), "--module", str(module),
            *(["--quick"] if options.quick else []), *([] if on_host() else ["--peers"]), "--rdma", *networks(options), "--figures", *names]  # fmt: skip


def run_guest(names: list[str], options: argparse.Namespace, measured: Measured) -> None:
    """Fills `measured` with the measurements of tests/bench/figures/lab_guest.py, in one boot of each kernel. Results before
    an error or an interruption are kept."""
    if kernel_arguments(options) and on_host():
        raise NoLab("--kernel-argument is for a virtual machine, and LAB=host measures on this machine itself")
    os.environ.setdefault("BUILD", str(options.build))
    for which in kernels(options):
        try:
            run_kernel(which, names, options, measured)
        except LabError as error:
            raise NoLab(str(error)) from error


def run_kernel(which: str, names: list[str], options: argparse.Namespace, measured: Measured) -> None:
    kernel = None if on_host() else kernel_named(which)
    words = guest_words(names, options, module_for(kernel, which, options.build, getattr(options, "module", None)))
    if kernel and "siw" in networks(options):
        if which in FETCHED:
            raise NoLab("soft iWARP is built for the installed kernel only")
        words += ["--siw", str(siw_module(kernel.release))]
    shape = Shape(cpus=1, memory_mib=2048, icount=kernel is not None, kernel_arguments=kernel_arguments(options))
    with Lab(1, shape, speaker(options), kernel) if kernel else open_lab(1, shape, speaker(options)) as lab:
        lab.vms[0].run(words, timeout=GUEST_SECONDS, on_output=lambda kind, data: measured.take(data, kind == frames.STDOUT))
        lab.shut_down()


def speaker(options: argparse.Namespace) -> Callable[[str], None]:
    def say(text: str) -> None:
        if not options.no_progress:
            print(f"wssbench: lab: {text}", file=sys.stderr, flush=True)

    return say


def as_figure(name: str, measured: dict, options: argparse.Namespace) -> dict:
    if "error" in measured:
        raise NoLab(measured["error"])
    kind = FIGURES[name]
    counted = not on_host()
    return {
        "figure": name, "paper": kind.paper, "title": kind.title, "unit": kind.unit, "x": kind.x, "series": list(kind.series),
        "command": os.environ.get("WSSBENCH_COMMAND", f"wssbench {name}"),
        "measured": "counted instructions" if counted else "seconds",
        "method": ("one virtual machine, one processor, soft RDMA, its clock counts instructions (2 ns each): most figures repeat within 0.2 %, "
                   "some within 2.5 % (benchmarks.md), and say what the work costs, not how long it takes on hardware" if counted else "seconds of this machine") + "; fio, one run" +
                  "".join(f"; kernel argument {word}" for word in kernel_arguments(options)),
        "machine": machine(), "rows": measured["rows"], "bounds": measured.get("bounds", []), "bound": measured.get("bound"),
        "ratio": measured.get("ratio"), "bound_means": measured.get("bound_means", ""), "paper_values": list(kind.paper_values), **({"interrupted": True} if measured.get("interrupted") else {}),
    }  # fmt: skip


def figure(name: str, options: argparse.Namespace) -> dict:
    measured = Measured(parts_wanted(options), speaker(options))
    interrupted = False
    try:
        run_guest([name], options, measured)
    except KeyboardInterrupt:
        interrupted = True
    found = measured.figure(name)
    if found is None:
        raise NoLab("interrupted before anything was measured" if interrupted else "the machine reported nothing of it")
    return as_figure(name, found, options)
