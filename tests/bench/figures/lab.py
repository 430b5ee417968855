# SPDX-License-Identifier: Apache-2.0
"""The figures of paper D that need the driver: in a virtual machine that counts instructions (tests/lab), all in one boot.

LAB=host measures on this machine itself, in its own seconds, where it has RDMA and loads modules.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures.core import ROOT, machine

GUEST_SECONDS = 1800
NETWORKS = {"rxe": "soft RoCE (rxe)", "siw": "soft iWARP (siw, built once from the kernel's own sources)"}
LEFT_OUT = ROOT / "tests/lab/kernels/left_out.sh"


class NoLab(Exception):
    """There is no machine, module or answer; the text says which."""


@dataclass(frozen=True)
class Kind:
    paper: str
    title: str
    x: str
    series: tuple[str, ...]
    paper_values: tuple[dict, ...]
    unit: str = "IOPS"


FIGURES = {
    "mlockv": Kind("D fig 13", "Requests as one region each, against one region for each piece", "bytes", ("network", "registered", "operation", "depth"),
                   ({"text": "D fig 13: 570-600 MB/s as one region, 250-350 MB/s by pieces: 1.7-2.3 x"},)),
    "raw": Kind("D fig 15", "Raw I/O (O_DIRECT) by record size", "bytes", ("network", "operation", "depth"),
                ({"text": "D fig 15: 70 MB/s, 24 % of the model 1/(1/net + 1/copy) = 287 MB/s"},)),
    "block": Kind("D fig 16", "Block I/O through the page cache by record size", "bytes", ("network", "operation"),
                  ({"text": "D fig 16: read 220, write 210 MB/s, 76.7 % of the model 1/(1/net + 1/copy) = 287 MB/s"},)),
    "breakdown": Kind("D tables 3, 4", "Where the time of a 64 KiB raw request goes", "stage", ("network", "operation"),
                      ({"text": "D tables 3, 4: of 920 us for a raw write of 64 KiB: communication 309 (33.6 %), WSS and SRP 92 (10.0 %), memory copy 114 "
                                "(12.4 %), other (kernel, system call) 405 (44.0 %)"},), unit="requests"),
}  # fmt: skip


def networks(options: argparse.Namespace) -> list[str]:
    """Those of the lab; this machine itself has the one that it has."""
    return ["this machine's"] if os.environ.get("LAB") == "host" else options.rdma or ["rxe"]


def siw_module(release: str) -> Path:
    """Debian's kernel has none."""
    made = subprocess.run([str(LEFT_OUT), "siw", release], stdout=subprocess.PIPE, text=True, check=False)
    if made.returncode != 0:
        raise NoLab("siw could not be built")
    return Path(made.stdout.strip()) / "siw/siw.ko"


def run_guest(names: list[str], options: argparse.Namespace) -> dict[str, dict]:
    """What tests/bench/figures/lab_guest.py measured, by figure."""
    module = (getattr(options, "module", None) or options.build / "kernel/wss.ko").resolve()
    if not module.exists():
        raise NoLab(f"{module} is not there: make modules BUILD={options.build}")
    os.environ.setdefault("BUILD", str(options.build))
    from tests.lab.errors import LabError
    from tests.lab.kernel import choose_kernel
    from tests.lab.lab import Lab
    from tests.lab.vm import Shape

    def say(text: str) -> None:
        if not options.no_progress:
            print(f"wssbench: lab: {text}", file=sys.stderr, flush=True)

    words = ["python3", "-B", str(ROOT / "tests/bench/figures/lab_guest.py"), "--build", str(options.build), "--module", str(module),
             *(["--quick"] if options.quick else []), "--rdma", *networks(options), "--figures", *names]  # fmt: skip
    try:
        if "siw" in networks(options):
            words += ["--siw", str(siw_module(choose_kernel().release))]
        with Lab(1, Shape(cpus=1, memory_mib=2048, icount=True), say) as lab:
            machine_of_lab = lab.vms[0]
            result = machine_of_lab.run(words, timeout=GUEST_SECONDS)
            machine_of_lab.power_off()
    except LabError as error:
        raise NoLab(str(error)) from error
    return json.loads(result.stdout.splitlines()[-1])


def as_figure(name: str, measured: dict) -> dict:
    if "error" in measured:
        raise NoLab(measured["error"])
    kind = FIGURES[name]
    counted = os.environ.get("LAB") != "host"
    return {
        "figure": name, "paper": kind.paper, "title": kind.title, "unit": kind.unit, "x": kind.x, "series": list(kind.series),
        "command": os.environ.get("WSSBENCH_COMMAND", f"wssbench {name}"),
        "measured": "counted instructions" if counted else "seconds",
        "method": ("one virtual machine, one processor, soft RDMA, its clock counts instructions (2 ns each): the figures repeat within 0.2 % and "
                   "say what the work costs, not how long it takes on hardware" if counted else "seconds of this machine") + "; fio, one run",
        "machine": machine(), "rows": measured["rows"], "bounds": measured.get("bounds", []), "bound": measured.get("bound"),
        "ratio": measured.get("ratio"), "paper_values": list(kind.paper_values),
    }  # fmt: skip


def figure(name: str, options: argparse.Namespace) -> dict:
    return as_figure(name, run_guest([name], options)[name])
