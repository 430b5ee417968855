# SPDX-License-Identifier: Apache-2.0
"""The report of a run: text for people, JSON for programs, and an archive of both with the logs of all commands.

Names of hosts and users are replaced by the machines' names in the kit, as the report is sent to others.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from pathlib import Path

from tests.hardware.kit import Kit, Outcome
from tests.hardware.performance import ratios
from tests.lab import paths

CONTENTS = """This report contains: types, firmware, GUIDs, GIDs, MAC and IP addresses of the RDMA ports and network devices, kernel versions, processors, and the output of
the commands that ran. Names of the hosts, of users and of directories of the source tree are replaced. It contains no keys, no passwords and no data of yours. Read it before you send it."""


class Redactor:
    def __init__(self, names: dict[str, str]) -> None:
        """`names` are the texts to replace and what replaces them. Very short names would replace parts of other words."""
        self._names = {name: shown for name, shown in names.items() if len(name) > 1}
        self._pattern = re.compile("|".join(rf"(?<![\w]){re.escape(name)}(?![\w])" for name in sorted(self._names, key=len, reverse=True)))

    def __call__(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._names[match[0]], text) if self._names else text

    def within(self, value: object) -> object:
        """Replaces the names in all strings of a JSON value, but not in its keys."""
        if isinstance(value, dict):
            return {key: self.within(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self.within(one) for one in value]
        return self(value) if isinstance(value, str) else value


def names_of(kit: Kit) -> dict[str, str]:
    """Returns the names of machines, users and directories, and what the report shows instead."""
    names = {str(paths.REPOSITORY): "TREE", str(kit.build): "BUILD", os.environ.get("HOME", ""): "HOME", os.environ.get("USER", ""): "USER"}
    for machine in kit.machines:
        host = machine.facts.get("host", "")
        names |= {host: machine.name.upper(), host.split(".")[0]: machine.name.upper()}
    for option, name in ((kit.options.target, "TARGET"), (kit.options.client, "CLIENT")):
        user, _, host = (option or "").rpartition("@")
        if kit.options.local or host == "local":
            continue
        names |= {host: f"{name}-HOST"} | {user: "USER"}
    return {name: shown for name, shown in names.items() if name not in ("", "/", "root", "/root", "localhost")}


def counts(outcomes: list[Outcome]) -> str:
    return ", ".join(f"{sum(one.state == state for one in outcomes)} {state}" for state in ("ok", "failed", "not run"))


def number(value: float | None) -> str:
    return "" if not value else f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def table(rows: list[list[str]]) -> list[str]:
    head, *rest = rows
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rest)]


def measures_text(measures: list[dict]) -> list[str]:
    if not measures:
        return ["Nothing was measured."]
    rows = [["system", "operation", "bytes", "depth", "IOPS", "MB/s", "latency µs", "99 % µs"]]
    rows += [[one["system"], one["operation"], str(one["bytes"]), str(one["depth"] or ""), *(number(one.get(name)) for name in ("iops", "mb_per_s", "latency_us", "p99_us"))]
             for one in measures]  # fmt: skip
    lines = table(rows)
    compared = ratios(measures)
    if compared:
        lines += ["", "Ratios within this run:", ""]
        lines += table([["system", "to", "operation", "bytes", "depth", "ratio of", "ratio"],
                        *([row["system"], row["base"], row["operation"], str(row["bytes"]), str(row["depth"]), row["of"], str(row["ratio"])] for row in compared)])  # fmt: skip
    return lines


def part_text(outcome: Outcome) -> list[str]:
    first, *more = outcome.text.splitlines() or [""]
    lines = [f"### {outcome.name}: {outcome.state}", "", f"{outcome.title} ({outcome.seconds:.0f} s): {first}"]
    quoted = [*more, *(line for note in outcome.notes for line in note.splitlines())]
    return [*lines, "", *(f"    {line}" for line in quoted), ""]


def text(kit: Kit, outcomes: list[Outcome], header: dict) -> str:
    rows = [["part", "result", "seconds", "text"], *([one.name, one.state, f"{one.seconds:.0f}", (one.text.splitlines() or [""])[0].replace("|", "\\|")] for one in outcomes)]
    lines = ["# WSS on RDMA hardware", "", CONTENTS, "", *(f"* {name}: {value}" for name, value in header.items()), "", f"**{counts(outcomes)}**", "", *table(rows),
             "", "## Performance", "", *measures_text(kit.measures), "", "## Parts", "", *(line for one in outcomes for line in part_text(one))]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def as_json(kit: Kit, outcomes: list[Outcome], header: dict) -> dict:
    machines = [{"name": machine.name, "address": machine.address, **machine.facts} for machine in kit.machines]
    return {"format": 1, **header, "machines": machines, "parts": [vars(one) for one in outcomes], "measures": kit.measures, "ratios": ratios(kit.measures)}


def write(kit: Kit, outcomes: list[Outcome], header: dict, out: Path, date: str) -> Path:
    """Writes report-DATE.md and report-DATE.tar.gz, and returns the path of the archive."""
    redact = Redactor(names_of(kit))
    report = redact(text(kit, outcomes, header))
    (out / f"report-{date}.md").write_text(report)
    path = out / f"report-{date}.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        add(tar, f"report-{date}/report.md", report)
        add(tar, f"report-{date}/report.json", json.dumps(redact.within(as_json(kit, outcomes, header)), indent=1) + "\n")
        for log in sorted(kit.logs.directory.rglob("*.log")):
            add(tar, f"report-{date}/logs/{log.relative_to(kit.logs.directory)}", redact(log.read_text(errors="replace")))
    return path


def add(tar: tarfile.TarFile, name: str, content: str) -> None:
    data = content.encode()
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
