# SPDX-License-Identifier: Apache-2.0
"""The lab's command line: run, shell, probe, clean. See README.md."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from tests.lab import paths
from tests.lab.disks import parse_size
from tests.lab.errors import GuestTimeout, LabError
from tests.lab.inside import frames
from tests.lab.kernel import choose_kernel
from tests.lab.lab import Lab, open_lab
from tests.lab.probe import accelerator_for
from tests.lab.shell import run_shell
from tests.lab.vm import Shape

LAB_FAILED = 125  # exit status when the lab failed, and not the command
TIMED_OUT = 124


def say(text: str) -> None:
    print(f"lab: {text}", file=sys.stderr, flush=True)


def relay(kind: int, data: bytes) -> None:
    """Copies a command's output to standard output and error as it arrives."""
    stream = sys.stdout.buffer if kind == frames.STDOUT else sys.stderr.buffer
    stream.write(data)
    stream.flush()


def shape_of(options: argparse.Namespace) -> Shape:
    return Shape(
        cpus=options.cpus,
        memory_mib=parse_size(options.mem) >> 20,
        nvme_sizes=tuple(parse_size(size) for size in options.nvme),
        icount=options.icount,
        kernel_arguments=tuple(options.kernel_argument),
    )


def command_run(options: argparse.Namespace) -> int:
    """Runs a command in the first machine and exits with its status."""
    command = options.command[0] if len(options.command) == 1 else options.command
    with open_lab(options.vms, shape_of(options), say) as lab:
        result = lab.vms[0].run(command, options.timeout, check=False, on_output=None if options.icount else relay)
        if options.icount:  # with icount the output is printed at the end, so that it does not disturb the
                            # count
            relay(frames.STDOUT, result.stdout.encode())
            relay(frames.STDERR, result.stderr.encode())
        say(f"status {result.status} after {result.seconds:.3f} s of the machine's time")
        if not options.no_klog:
            lab.check_klog()
        lab.shut_down()
    return result.status if result.status >= 0 else 128 - result.status


def command_shell(options: argparse.Namespace) -> int:
    """Runs an interactive shell in the first machine, from which the others can be reached over the segment."""
    if os.environ.get("LAB") == "host":
        raise LabError("LAB=host: you already have a shell on this machine")
    with Lab(options.vms, shape_of(options), say) as lab:
        if sys.stdin.isatty():
            say("Ctrl-D ends the shell, Ctrl-] cuts the power; /lab is " + str(lab.share))
        return run_shell(lab.vms[0])


def command_probe(options: argparse.Namespace) -> int:
    kernel = choose_kernel()
    answer = accelerator_for(kernel, again=options.again)
    print(f"kernel {kernel.release} ({kernel.image}), acceleration {answer.accelerator}: {answer.reason}")
    return 0


def command_clean(_options: argparse.Namespace) -> int:
    """Removes logs and disks of finished runs, and the caches."""
    removed = paths.prune_runs(keep=0)
    for pattern in ("initramfs-*", "vmlinux-*"):
        for cached in paths.lab_directory().glob(pattern):
            cached.unlink()
    (paths.lab_directory() / "accelerator.json").unlink(missing_ok=True)
    print(f"removed {removed} runs from {paths.runs_directory()}")
    return 0


def machine_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--vms", type=int, default=1, help="number of machines on one private segment (default 1)")
    add("--cpus", type=int, default=2, help="processors of each machine (default 2)")
    add("--mem", default="1536M", help="memory of each machine (default 1536M)")
    add("--nvme", action="append", default=[], metavar="SIZE", help="an emulated NVMe disk in each machine (repeatable)")
    add("--icount", action="store_true", help="derive time from executed instructions: 1 processor, deterministic, slow")
    add("--kernel-argument", action="append", default=[], metavar="WORD", help="append to the kernel's command line")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lab", description="virtual machines with soft RDMA on this machine's own root file system")
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="run a command in a machine")
    machine_options(run)
    run.add_argument("--timeout", type=float, default=600, help="time limit of the command in seconds (default 600)")
    run.add_argument("--no-klog", action="store_true", help="do not fail on complaints in the kernel log")
    run.add_argument("command", nargs="+", metavar="CMD", help="after --; a single word goes to sh -c")
    run.set_defaults(function=command_run)
    shell = actions.add_parser("shell", help="run an interactive shell in a machine")
    machine_options(shell)
    shell.set_defaults(function=command_shell)
    probe = actions.add_parser("probe", help="print the kernel and the acceleration that the lab uses")
    probe.add_argument("--again", action="store_true", help="probe even if a result is stored")
    probe.set_defaults(function=command_probe)
    clean = actions.add_parser("clean", help="remove logs, disks and caches of finished runs")
    clean.set_defaults(function=command_clean)
    return parser.parse_args(arguments)


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the machines must be powered off
    options = parse(sys.argv[1:])
    try:
        return options.function(options)
    except GuestTimeout as error:
        say(str(error))
        return TIMED_OUT
    except (LabError, ValueError) as error:
        say(str(error))
        return LAB_FAILED
    except KeyboardInterrupt:
        say("interrupted")
        return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
