# SPDX-License-Identifier: Apache-2.0
"""Compares Documentation/troubleshooting.md with the output of the programs. The output must contain every
indented line of a section. In such a line, … matches any text within one line, and a sequence of blanks
matches one blank."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "Documentation/troubleshooting.md"


def sections() -> dict[str, list[str]]:
    """Returns, for each heading, the lines that the programs print."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("## "):
            lines = found.setdefault(line[3:], [])
        elif line.startswith("    "):
            lines.append(line.strip())
    return found


def assert_holds(section: str, printed: str, impossible: tuple[str, ...] = ()) -> None:
    """Asserts that the output contains the lines of a section, except lines with one of the texts in
    `impossible`, which this machine cannot produce."""
    text = "\n".join(" ".join(line.split()) for line in printed.splitlines())
    missing = [line for line in sections()[section] if not any(words in line for words in impossible)
               and not re.search("[^\n]+?".join(re.escape(part) for part in " ".join(line.split()).split("…")), text)]
    assert not missing, "\n".join([f"not printed, of '{section}':", *missing, "--- printed:", text])
