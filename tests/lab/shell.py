# SPDX-License-Identifier: Apache-2.0
"""An interactive shell in a machine. Connects the local terminal, in raw mode, to a terminal in the guest.

Ctrl-] ends the shell at once, even if the guest hangs. The local terminal is always restored.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import sys
import termios
import tty
from typing import Callable

from tests.lab.channel import AgentControls
from tests.lab.guest import Process
from tests.lab.vm import Vm

ESCAPE = b"\x1d"  # Ctrl-]
END_CHECK_SECONDS = 0.1


def run_shell(vm: Vm) -> int:
    """Runs bash in the machine until it exits, and returns its exit status."""
    terminal = sys.stdin.isatty()
    environment = {"TERM": os.environ.get("TERM", "linux"), "PS1": rf"{vm.name}:\w# "}
    process = vm.start(["bash", "--norc", "-i"] if terminal else ["bash"], tty=terminal, env=environment, on_output=relay)
    if terminal:
        _converse_raw(process)
    else:
        _pump(process, lambda data: True)
    result = process.poll()
    return result.status if result else 1


def relay(_kind: int, data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def _converse_raw(process: Process) -> None:
    before = termios.tcgetattr(sys.stdin)
    handler = signal.signal(signal.SIGWINCH, lambda *_: _send_size(process))
    try:
        tty.setraw(sys.stdin)
        _send_size(process)
        _pump(process, lambda data: ESCAPE not in data)
    finally:
        signal.signal(signal.SIGWINCH, handler)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _send_size(process: Process) -> None:
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(sys.stdin, termios.TIOCGWINSZ, bytes(8)))
    assert isinstance(process.controls, AgentControls)
    process.controls.resize(rows, columns)


def _pump(process: Process, goes_on: Callable[[bytes], bool]) -> None:
    """Forwards local input to the shell until the input or the shell ends."""
    sources = [sys.stdin]
    while process.running:
        if not select.select(sources, [], [], END_CHECK_SECONDS)[0]:
            continue
        data = os.read(sys.stdin.fileno(), 4096)
        if not goes_on(data):
            return
        process.write(data)
        if not data:
            sources = []
