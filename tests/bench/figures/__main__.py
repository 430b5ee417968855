# SPDX-License-Identifier: Apache-2.0
"""What `wssbench ramp|mlockv|raw|block|breakdown|scaling|ceph|all` runs."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from tests.bench.figures import ceph, core, everything, lab, ramp, scaling
from tests.bench.kernels import KERNELS

WHERE_FROM = Path(os.environ.get("WSSBENCH_FROM", "."))


def add_lab(parser: argparse.ArgumentParser) -> None:
    named = ", ".join(f"{name}: {what}" for name, what in lab.NETWORKS.items())
    parser.add_argument("--rdma", nargs="+", choices=list(lab.NETWORKS), help=f"the lab's networks, one after the other (default: rxe); {named}")
    named = ", ".join(f"{name}: {what}" for name, what in KERNELS.items())
    parser.add_argument("--kernel", nargs="+", choices=list(KERNELS), help=f"the lab's kernels, one after the other (default: installed); {named}")
    parser.add_argument("--kernel-argument", action="append", metavar="WORD", help="of the lab's kernels, as init_on_alloc=0 (pages are not cleared before they are given out)")


def parse() -> argparse.Namespace:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--build", type=Path, default=Path("build/release"), help=argparse.SUPPRESS)
    common.add_argument("--seconds", type=float, help="of one measurement (default: 1)")
    common.add_argument("--warm-up", type=float, help=argparse.SUPPRESS)
    common.add_argument("--repeats", type=int, help="of each point, in turns; the median counts (default: 3)")
    common.add_argument("--json", action="store_true", help="print the figure as JSON")
    common.add_argument("--quick", action="store_true", help="fewer points, shorter: a look, not a result")
    common.add_argument("--no-progress", action="store_true")
    common.add_argument("--address", default="", help=argparse.SUPPRESS)
    common.add_argument("--directory", default="", help=argparse.SUPPRESS)
    parser = argparse.ArgumentParser(prog="wssbench")
    commands = parser.add_subparsers(dest="command", required=True)
    of_ramp = commands.add_parser("ramp", parents=[common], help="RAMP transactions (A figs 4-7)")
    of_ramp.add_argument("which", choices=["transports", "size", "mix", "ycsb"])
    for name in lab.FIGURES:
        one = commands.add_parser(name, parents=[common], help=lab.FIGURES[name].title)
        one.add_argument("--module", type=Path, help="wss.ko for the installed kernel (default: of the build)")
        add_lab(one)
    of_scaling = commands.add_parser("scaling", parents=[common], help="cost by connections, volumes, keys, cache engines")
    of_scaling.add_argument("which", nargs="*", default=[], help=f"of {', '.join(scaling.KINDS)} (default: all)")
    commands.add_parser("ceph", parents=[common], help="an image of a Ceph cluster of this host, directly and through WSS")
    of_all = commands.add_parser("all", parents=[common], help="everything, into an HTML report")
    of_all.add_argument("--out", type=Path, required=True, metavar="DIR", help="where report.html and results.json go")
    of_all.add_argument("--only", nargs="+", metavar="FIGURE", help=f"of {', '.join(everything.NAMES)}")
    of_all.add_argument("--no-lab", action="store_true", help="without the figures that need a virtual machine")
    add_lab(of_all)
    options = parser.parse_args()
    options.build = options.build.resolve()
    for name, (full, quick) in {"seconds": (1, 0.3), "warm_up": (0.3, 0.1), "repeats": (3, 1)}.items():
        if getattr(options, name) is None:
            setattr(options, name, quick if options.quick else full)
    return options


def main() -> int:
    def interrupt(*_):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    options = parse()
    if options.command == "all":
        options.out = WHERE_FROM / options.out
        return everything.make(options)
    if options.command == "scaling":
        return scaling.show(options)
    if options.command == "ceph":
        return core.show(ceph.figure(options), options.json)
    try:
        result = ramp.figure(options.which, options) if options.command == "ramp" else lab.figure(options.command, options)
    except lab.NoLab as error:
        print(f"wssbench: {options.command}: {error}", file=sys.stderr)
        return 1
    return core.show(result, options.json)


if __name__ == "__main__":
    sys.exit(main())
