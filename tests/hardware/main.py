# SPDX-License-Identifier: Apache-2.0
"""`make check-hardware`: runs all parts, prints the progress, and writes the report."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator

from tests.hardware import conformance, faults, identify, performance, report, verifying
from tests.hardware.kit import FIRST_PORT, THIS_MACHINE, Failed, Kit, NotRun, Outcome
from tests.hardware.machine import Logs, Machine
from tests.hardware.part import Part
from tests.lab import paths
from tests.lab.errors import GuestDied, KernelComplaint, LabError

SSH = "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 {host}"
PARTS = (*identify.PARTS, *conformance.PARTS, *verifying.PARTS, *faults.PARTS, *performance.PARTS)
DESCRIPTION = """Tests WSS over the RDMA cards of two machines, or of this one, and writes a report to send (Documentation/hardware.md).

  make check-hardware TARGET=root@storage1                     this machine is the client
  make check-hardware TARGET=root@storage1 CLIENT=root@host2   both over ssh
  make check-hardware LOCAL=1 TARGET=10.0.0.1 CLIENT=10.0.1.1  the ports of this machine that have these addresses
  make check-hardware … PLAN=1                                 prints what would run, and runs nothing

Needs python3 on each machine, the same Debian release with the packages of `make deps`, and ssh without a password. Parts that need more
(root, perftest, nbdkit, fio, nvme-cli) are reported as not run without it. The kit starts servers without authentication on the RDMA
addresses while it runs: use a network that you trust.

Exit status: 0 all parts that ran passed, 1 a part failed or the run was interrupted, 2 wrong usage."""


def options_of(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser("check-hardware", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", metavar="HOST", help="[USER@]HOST of the machine that serves volumes; 'local' is this machine; with --local an address of this machine")
    parser.add_argument("--client", metavar="HOST", help="the machine that uses them (default: this machine); with --local a second address (default: that of --target)")
    parser.add_argument("--local", action="store_true", help="both ends on this machine, without ssh")
    parser.add_argument("--target-address", metavar="ADDRESS", help="IP address of the target's RDMA port (default: one in a network of the client's)")
    parser.add_argument("--client-address", metavar="ADDRESS", help="IP address of the client's RDMA port")
    parser.add_argument("--ssh", default=SSH, metavar="COMMAND", help="how to run a command on a host; the command is appended as one word (default: '%(default)s')")
    parser.add_argument("--driver", action="store_true", help="also load wss.ko on the client; a fault of the driver can crash that machine")
    parser.add_argument("--faults", action="store_true", help="also take the client's RDMA port down for some seconds; its routes may be lost")
    parser.add_argument("--quick", action="store_true", help="small volumes and short measurements: a first look, not a result")
    parser.add_argument("--only", nargs="+", metavar="PART", choices=[part.name for part in PARTS], help=f"only these parts: {', '.join(part.name for part in PARTS)}")
    parser.add_argument("--plan", action="store_true", help="print what would run, and run nothing")
    parser.add_argument("--port", type=int, default=FIRST_PORT, metavar="PORT", help="first port of the kit's servers; it uses up to 60 (default: %(default)s)")
    parser.add_argument("--directory", default="/var/tmp", metavar="DIR", help="where the kit creates its directory on each machine (default: %(default)s)")
    parser.add_argument("--build", type=Path, default=Path("build/release"), help="directory of the programs (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("build/hardware"), help="directory for the report (default: %(default)s)")
    parser.add_argument("--scheme", choices=("rdma", "tcp"), default="rdma", help=argparse.SUPPRESS)  # tcp: tests of the kit on a machine without RDMA
    options = parser.parse_args(arguments)
    if not options.target:
        parser.error("give --target HOST (make check-hardware TARGET=HOST), or --local --target ADDRESS")
    if options.local and (options.target_address or options.client_address):
        parser.error("with --local, --target and --client are the addresses: leave --target-address and --client-address out")
    if "{host}" not in options.ssh:
        parser.error("--ssh: the command must contain {host}")
    options.build, options.out = options.build.resolve(), options.out.resolve()
    if not options.local:
        options.client = options.client or THIS_MACHINE
    return options


def reason_to_leave_out(part: Part, options: argparse.Namespace) -> str:
    if options.only and part.name not in options.only and not part.always:
        return "left out by --only"
    if part.option and not getattr(options, part.option):
        return f"it is off by default: {part.option.upper()}=1"
    return ""


def plan(options: argparse.Namespace) -> None:
    where = f"this machine, {options.target} and {options.client or options.target}" if options.local else f"target {options.target}, client {options.client}"
    print(f"check-hardware: plan for {where}; nothing is run\n")
    for number, part in enumerate(PARTS, 1):
        reason = reason_to_leave_out(part, options)
        print(f"[{number:2}/{len(PARTS)}] {part.name}: {f'would not run: {reason}' if reason else 'would run'}\n        {part.does}")


class Run:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.date = time.strftime("%Y%m%d-%H%M%S")
        self.work = options.out / f"run-{self.date}"
        self.kit = Kit(options, Logs(self.work))
        self.outcomes: list[Outcome] = []
        self.interrupted = False
        self._ended = 0  # parts that have an outcome
        self._begun = time.monotonic()

    def all(self) -> int:
        self.options.out.mkdir(parents=True, exist_ok=True)
        try:
            self._connect()
            for number, part in enumerate(PARTS, 1):
                self._part(number, part)
        except KeyboardInterrupt:
            self.interrupted = True
        with uninterruptible():
            say("ending all programs of the kit on the machines")
            self.kit.close()
            for number, part in list(enumerate(PARTS, 1))[self._ended :]:
                self._part(number, part)
            self._report()
        return 1 if self.interrupted or any(one.state == "failed" for one in self.outcomes) else 0

    def _connect(self) -> None:
        try:
            self.kit.connect()
        except (LabError, ValueError) as error:
            self.outcomes.append(Outcome("connect", "connection to the machines", "failed", str(error)))
            say(f"connection to the machines FAILED: {error}")

    def _part(self, number: int, part: Part) -> None:
        reason = "the run was interrupted" if self.interrupted else reason_to_leave_out(part, self.options)
        if reason:
            self._end(number, part, Outcome(part.name, part.title, "not run", reason))
            return
        print(f"[{number:2}/{len(PARTS)}] {part.name}: {part.title} …", end="", flush=True)
        self.kit.notes = []
        self.kit.logs.begin(part.name)
        begun = time.monotonic()
        state, text = self._state(part)
        self._end(number, part, Outcome(part.name, part.title, state, text, round(time.monotonic() - begun, 1), self.kit.notes), True)

    def _state(self, part: Part) -> tuple[str, str]:
        """Runs a part. Returns its state and text. Complaints of the kernels make it fail."""
        marks = [(machine, machine.klog.mark()) for machine in self.kit.machines if machine.running]
        state, text = self._result(part)
        complaints = [complaint for machine, mark in marks if (complaint := complaint_of(machine, mark))]
        return ("failed", "\n".join([text, *complaints])) if complaints else (state, text)

    def _result(self, part: Part) -> tuple[str, str]:
        try:
            self.kit.need_machines()
            return "ok", part.run(self.kit)
        except NotRun as reason:
            return "not run", str(reason)
        except KeyboardInterrupt:
            self.interrupted = True
            return "failed", "interrupted"
        except (Failed, LabError) as error:
            return "failed", str(error)
        except Exception as error:  # noqa: BLE001  (a fault of the kit itself must not stop the other parts)
            return "failed", f"{type(error).__name__}: {error}"

    def _end(self, number: int, part: Part, outcome: Outcome, begun: bool = False) -> None:
        self.outcomes.append(outcome)
        self._ended = number
        shown = {"ok": "ok", "failed": "FAILED", "not run": "NOT RUN"}[outcome.state]
        head = "" if begun else f"[{number:2}/{len(PARTS)}] {part.name}: {part.title} …"
        print(f"{head} {shown} after {outcome.seconds:.0f} s: {outcome.text}" if begun else f"{head} {shown}: {outcome.text}", flush=True)

    def _report(self) -> None:
        path = report.write(self.kit, self.outcomes, self._header(), self.options.out, self.date)
        shutil.rmtree(self.work, ignore_errors=True)  # the archive has the logs
        for outcome in self.outcomes:
            if outcome.state == "failed":
                print(f"check-hardware: {outcome.name} failed: {(outcome.text.splitlines() or [''])[0]}")
        print(f"check-hardware: {report.counts(self.outcomes)} in {time.monotonic() - self._begun:.0f} s")
        print(f"check-hardware: report: {path.with_name(path.name.replace('.tar.gz', '.md'))}\ncheck-hardware: to send: {path}", flush=True)

    def _header(self) -> dict:
        options = self.options
        chosen = [name for name in ("quick", "driver", "faults", "only") if getattr(options, name)]
        return {"date": self.date, "seconds": round(time.monotonic() - self._begun), "source": source(), "form": "one machine" if options.local else "two machines",
                "network": options.scheme, "options": " ".join(chosen) or "none", "interrupted": self.interrupted}  # fmt: skip


def complaint_of(machine: Machine, mark: int) -> str:
    """Returns what the kernel has complained about since the mark, or that the machine no longer answers, or ""."""
    try:
        machine.check_klog(mark)
    except (KernelComplaint, GuestDied) as error:
        return str(error)
    return ""


def source() -> str:
    """Returns the commit of the tree, with a mark if files were changed."""
    done = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=paths.REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def say(text: str) -> None:
    print(f"check-hardware: {text}", flush=True)


@contextlib.contextmanager
def uninterruptible() -> Iterator[None]:
    """Ignores interruptions while the machines are cleaned up, which has time limits of its own."""
    former = [(number, signal.signal(number, signal.SIG_IGN)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    try:
        yield
    finally:
        for number, handler in former:
            signal.signal(number, handler)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    options = options_of(arguments)
    if options.plan:
        plan(options)
        return 0
    os.environ["BUILD"] = str(options.build)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    return Run(options).all()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
