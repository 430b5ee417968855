# SPDX-License-Identifier: Apache-2.0
"""The kernel log of a machine, and the messages that make a test fail.

The log has two sources: the agent sends every record of /dev/kmsg while the machine runs, and the serial
console shows warnings and more severe messages, including the last ones of a machine that panicked. A mark
(klog.mark()) before a test limits a check to the records of that test.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path

from tests.lab.errors import tail

REPORT_LINES = 45  # lines after a complaint that are shown; enough for a call trace
TRACE_LINES = 150  # limit of the search for the last line of a report
CAUSE_LINES = 15  # lines of a dead machine's first complaint in an error message
LAST_LINES = 10  # last lines of a dead machine in an error message
LINES_MAX = 200_000  # maximum number of lines per machine; older lines are dropped

# Messages that a healthy kernel never prints.
COMPLAINTS = re.compile(
    "|".join(
        [
            r"\bWARNING:",
            r"\bBUG\b",
            r"\bOops\b",
            r"Kernel panic",
            r"general protection fault",
            r"[Uu]nable to handle",
            r"invalid opcode",
            r"KASAN",
            r"KCSAN",
            r"UBSAN",
            r"kmemleak: \d+ new",
            r"ODEBUG",
            r"DMA-API: .*(ERR|WARN|leak|device driver)",
            r"INFO: task .* blocked for more than",
            r"INFO: possible .*(lock|deadlock)",
            r"possible (circular|recursive) locking",
            r"inconsistent lock state",
            r"suspicious RCU usage",
            r"soft lockup",
            r"hard LOCKUP",
            r"rcu: INFO: .*(stall|self-detected)",
            r"sleeping function called",
            r"scheduling while atomic",
            r"refcount_t:",
            r"list_(add|del) corruption",
            r"Bad page state",
            r"still has .* (locks? held|users)",
        ]
    )
)


@dataclass(frozen=True)
class Allowance:
    """A pattern of lines that are allowed, and the reason. With `anywhere`, it allows reports that contain a
    matching line."""

    pattern: re.Pattern[str]
    reason: str
    anywhere: bool = False


ALLOWED: tuple[Allowance, ...] = ()


class KernelLog:
    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._lock = threading.Lock()  # protects everything below; the channel's thread appends
        self._lines: list[str] = []
        self._dropped = 0
        self._boot_start = 0
        self._console_read = True
        self._allowed = list(ALLOWED)

    def append(self, record: str) -> None:
        """Adds a record of /dev/kmsg: "priority,sequence,microseconds,flags;text". Its continuation lines are
        dropped."""
        head, separator, text = record.partition(";")
        fields = head.split(",")
        if not separator or len(fields) < 3 or not fields[2].isdigit():
            return
        text = text.split("\n", 1)[0]
        with self._lock:
            self._lines.append(f"[{int(fields[2]) / 1e6:12.6f}] {text}")
            surplus = len(self._lines) - LINES_MAX
            if surplus > 0:
                del self._lines[:surplus]
                self._dropped += surplus

    def allow(self, pattern: str, reason: str, anywhere: bool = False) -> None:
        """Allows matching lines, for a test that provokes them. With `anywhere`, also allows reports that
        contain a matching line, such as a function in the call trace."""
        self._allowed.append(Allowance(re.compile(pattern), reason, anywhere))

    def mark(self) -> int:
        """Returns a position for text() and reports()."""
        with self._lock:
            return self._dropped + len(self._lines)

    def text(self, since: int = 0) -> str:
        return "\n".join(self._since(since))

    def reports(self, since: int = 0) -> list[str]:
        """Returns the complaints since the mark, each with its following lines."""
        lines = self._since(since)
        found: list[str] = []
        next_free = 0
        for position, line in enumerate(lines):
            if position < next_free or not self._complains(line):
                continue
            end = _end_of_report(lines, position)
            if end and self._allows(lines[position:end]):
                next_free = end
                continue
            next_free = position + REPORT_LINES
            found.append("\n".join("    " + line for line in lines[position:next_free]))
        return found

    def new_boot(self) -> None:
        with self._lock:
            self._boot_start = self._dropped + len(self._lines)
            self._console_read = False

    def end_of_boot(self, console: Path) -> None:
        """Adds messages that only the console received, such as the end of a panic. Called when the machine is gone."""
        with self._lock:
            if self._console_read or not console.exists():
                return
            self._console_read = True
            known = {_bare(line) for line in self._lines[max(0, self._boot_start - self._dropped) :]}
            heard = console.read_text(errors="replace").replace("\r", "").splitlines()
            self._lines += [line for line in heard if line.strip() and _bare(line) not in known]

    def _since(self, mark: int) -> list[str]:
        with self._lock:
            return self._lines[max(0, mark - self._dropped) :]

    def _complains(self, line: str) -> bool:
        return bool(COMPLAINTS.search(line)) and not any(rule.pattern.search(line) for rule in self._allowed)

    def _allows(self, report: list[str]) -> bool:
        rules = [rule for rule in self._allowed if rule.anywhere]
        return any(rule.pattern.search(line) for rule in rules for line in report)


def _end_of_report(lines: list[str], start: int) -> int:
    """Returns one past the last line of a report that has an end marker, otherwise 0."""
    for position in range(start, min(start + TRACE_LINES, len(lines))):
        if "---[ end trace" in lines[position]:
            return position + 1
    return 0


def last_words(log: str) -> str:
    """Returns an excerpt of a dead machine's log for an error message: the start of its first complaint and its last lines."""
    lines = log.replace("\r", "").splitlines()
    first = next((number for number, line in enumerate(lines) if COMPLAINTS.search(line)), len(lines))
    if first < len(lines) - LAST_LINES:
        lines = [*lines[first : first + CAUSE_LINES], "…", *lines[-LAST_LINES:]]
    return tail("\n".join(lines), CAUSE_LINES + 1 + LAST_LINES)


def _bare(line: str) -> str:
    """Returns a line without its timestamp."""
    return re.sub(r"^\s*\[ *[\d.]+\] ", "", line).strip()
