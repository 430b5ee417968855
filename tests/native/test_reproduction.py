# SPDX-License-Identifier: Apache-2.0
"""Tests the generated section of reproduction.md: `make lint` detects that it differs from the results file.
Runs that must not be committed are refused (tests/lint/reproduction.py)."""

import copy
import json

import pytest

from tests.lint.reproduction import BEGIN, END, NO_RESULTS, PAGE, RESULTS, check_reproduction, section, write

CARDS = [
    {"paper_figure": "B5", "title": "Local I/O", "quoted": "4.8 M", "verdict": "agrees: IOPS rise", "command": "wssbench local", "source": "abc", "measured": [{"name": "aio"}],
     "machine": {"processors": 2, "model": "m", "memory": "8 kB", "kernel": "6.1", "system": "Debian", "load_at_start": 0.1},
     "claims": [{"says": "IOPS rise", "here": "aio", "ratio": 9.876, "low": 9, "high": 10.5, "paper": "8", "badge": "no network", "status": "agrees"}]},
    {"paper_figure": "D15", "title": "Raw | I/O", "quoted": "70 MB/s", "verdict": "not measured: no machine", "not_measured": "no machine"},
    {"paper_figure": None, "title": "Writes", "quoted": "", "verdict": "", "measured": [], "source": "abc", "claims": []},
]  # fmt: skip


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "Documentation").mkdir()
    (tmp_path / PAGE).write_text(f"# Page\n\n{BEGIN}\n{NO_RESULTS}\n{END}\nMore.\n")
    return tmp_path


def results_of(tree, cards):
    file = tree / "results.json"
    file.write_text(json.dumps(cards))
    return file


def test_section_has_a_row_for_every_figure_with_ratio_interval_and_fabric():
    text = section(CARDS)
    assert "| B5 | Local I/O | 4.8 M | IOPS rise: aio: 9.88 (9 to 10.5, the paper 8; no network): agrees | `wssbench local` |" in text
    assert "| D15 | Raw / I/O | 70 MB/s | not measured: no machine |  |" in text and "Writes" not in text
    assert "source `abc`" in text and "load average 0.1" in text


def test_lint_detects_a_section_that_differs_from_the_results(tree):
    assert list(check_reproduction(tree)) == [], "without results the section says so"
    write(results_of(tree, CARDS), tree)
    assert list(check_reproduction(tree)) == [] and (tree / PAGE).read_text().endswith("More.\n")
    (tree / PAGE).write_text((tree / PAGE).read_text().replace("9.88", "9.99"))
    [finding] = check_reproduction(tree)
    assert "differs from Documentation/results.json" in finding
    (tree / PAGE).write_text("# Page\n")
    [finding] = check_reproduction(tree)
    assert "lacks the line" in finding


@pytest.mark.parametrize("change, said", [
    ({"source": "abc-dirty"}, "not from one commit"),
    ({"source": "other"}, "not from one commit"),
    ({"claims": [{**CARDS[0]["claims"][0], "status": "not conclusive", "reason": "fewer than 5 turns"}]}, "as in a quick run: Local I/O"),
])  # fmt: skip
def test_run_that_is_unfit_to_be_committed_is_refused(tree, change, said):
    cards = copy.deepcopy(CARDS)
    cards[0].update(change)
    with pytest.raises(SystemExit, match=said):
        write(results_of(tree, cards), tree)
    assert not (tree / RESULTS).exists() and NO_RESULTS in (tree / PAGE).read_text()
    (tree / RESULTS).write_text(json.dumps(cards))
    assert any(said in finding for finding in check_reproduction(tree))
