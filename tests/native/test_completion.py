# SPDX-License-Identifier: Apache-2.0
"""Tests bash completion: the words that bash offers after a TAB."""

import re
import subprocess
from pathlib import Path

import pytest

from .programs import BUILD, run

SCRIPT = Path(__file__).resolve().parents[2] / "tools/completion/wss.bash"
PROGRAMS = ("wss-target", "wss-cache", "wssctl", "kvctl", "wssbench")


def offered(line):
    """Returns the value of bash's COMPREPLY after a TAB at the end of `line`. The words of `line` are
    separated by blanks."""
    words = line.split(" ")
    inside = f"""
        source {SCRIPT}
        function=$(complete -p {words[0]} | sed 's/.*-F \\([^ ]*\\).*/\\1/')
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        $function
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = run("bash", "-c", inside, "bash", *words, env={"PATH": f"{BUILD}:/usr/bin:/bin"})
    assert not done.stderr, done.stderr
    return [word for word in done.stdout.split("\n") if word]


@pytest.mark.parametrize("program", PROGRAMS)
def test_completion_offers_every_option_of_the_help(program):
    help_text = run(BUILD / program, "--help").stdout
    options = set(re.findall(r"^\s+(?:-\w,)?(--[\w-]+)", help_text, re.M))
    assert options and set(offered(f"{program} --")) == options


@pytest.mark.parametrize("program", ("wssctl", "kvctl", "wssbench"))
def test_completion_offers_every_command_of_the_help(program):
    help_text = run(BUILD / program, "--help").stdout
    commands = re.findall(r"^  ([\w-]+)  ", help_text[help_text.index("Subcommands:"):], re.M)
    assert commands and offered(f"{program} ") == commands


@pytest.mark.parametrize("line, words", [
    ("wssctl vol", ["volume"]),
    ("wssctl --json maps ", ["up", "down", "check"]),
    ("wssctl --control volume ma", ["map", "maps"]),
    ("wssctl maps up --wa", ["--wait"]),
    ("wssctl doctor --ro", []),
    ("kvctl --algorithm ramp-f", ["ramp-fast"]),
    ("kvctl --algorithm = ramp-s", ["ramp-small"]),
    ("kvctl --one-sided =", ["off", "on", "paper"]),
    ("wss-target --role ", ["block", "kv", "rs"]),
    ("wss-target --config ", []),
    ("wssctl nothing-of-that-kind", []),
])
def test_completion_offers_the_words_that_are_valid_at_the_cursor(line, words):
    assert sorted(offered(line)) == sorted(words)


def test_completion_of_a_wrong_line_runs_nothing():
    assert offered("wss-target --listen tcp://127.0.0.1:0 --volume") == ["--volume"]
    assert offered("wssctl --wrong wrong ") == offered("wssctl ")


def test_bash_offers_file_names_where_the_program_offers_nothing():
    done = run("bash", "-c", f"source {SCRIPT}; complete -p {' '.join(PROGRAMS)}")
    assert done.stdout.count("-o default") == len(PROGRAMS)


def test_make_install_puts_completions_where_bash_completion_looks(tmp_path):
    root = Path(__file__).resolve().parents[2]
    listed = subprocess.run(["make", "-n", "-o", "programs", "install", "PREFIX=/usr", f"DESTDIR={tmp_path}", f"BUILD={BUILD}"],
                            cwd=root, capture_output=True, text=True, timeout=120, check=True).stdout  # fmt: skip
    line, = (line for line in listed.splitlines() if "wss.bash" in line)
    run("sh", "-c", f"mkdir -p {tmp_path}/usr/share/bash-completion/completions && {line}", cwd=root)
    assert {path.name for path in (tmp_path / "usr/share/bash-completion/completions").iterdir()} == set(PROGRAMS)
    packaged = "".join((root / f"tools/packaging/debian/{name}.install").read_text() for name in ("wss-tools", "wss-target"))
    assert set(re.findall("completions/(.*)", packaged)) == set(PROGRAMS)
