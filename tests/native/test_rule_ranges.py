# SPDX-License-Identifier: Apache-2.0
"""`make lint` detects ranges of rules in architecture.md that do not match the headers (check_rule_ranges in
tests/lint/prose.py)."""

from pathlib import Path

import pytest

from tests.lint.prose import ARCHITECTURE, check_rule_ranges

HEADERS = {
    "lib/kv/store.h": "".join(f"//  S{number}{' ' if number > 9 else '  '}A rule.\n" for number in range(1, 14)) + "// S14 of another\n",
    "lib/kv/one.h": "// Rules\n//   O1  The only rule.\n",
    "kernel/wss.h": "/*\n *   I1  A rule.\n *   I2  Another one, unlike\n *       S3 of store.h.\n */\n",
    "tests/model.h": "//  M1  Headers of tests are not listed.\n",
}
PAGE = """# Architecture

## Parts

| `kernel/` | the driver | `wss.h` I1–I2 |
| `lib/kv` | the store | `kv/store.h` S1–S13, `plain.h`, `one.h` O1 |

## Invariants

| a rule | because | `lib/kv/store.h` S7, `wss.h` I1–I2 |
"""


@pytest.fixture
def findings(tmp_path):
    """Returns the findings after an edit of the page or of a header."""
    for name, text in {**HEADERS, str(ARCHITECTURE): PAGE}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def check(file=None, old="", new=""):
        if file is not None:
            text = (tmp_path / file).read_text()
            assert old in text
            (tmp_path / file).write_text(text.replace(old, new, 1))
        return [finding.removeprefix(str(ARCHITECTURE)) for finding in check_rule_ranges([Path(name) for name in HEADERS], tmp_path)]

    return check


def test_lint_accepts_complete_ranges_and_single_rules(findings):
    assert findings() == []


@pytest.mark.parametrize("file, old, new, finding", [
    (ARCHITECTURE, "S1–S13", "S1–S9", ":6: kv/store.h S1–S9: lib/kv/store.h defines S1–S13"),
    (ARCHITECTURE, "S1–S13", "S2–S13", ":6: kv/store.h S2–S13: lib/kv/store.h defines S1–S13"),
    (ARCHITECTURE, "S1–S13", "S1", ":6: kv/store.h S1: lib/kv/store.h defines S1–S13"),
    (ARCHITECTURE, "S7, `wss.h` I1–I2", "S7, `wss.h` I1–I3", ":10: wss.h I1–I3: kernel/wss.h defines I1–I2"),
    (ARCHITECTURE, ", `one.h` O1", "", ": the table of parts lacks lib/kv/one.h O1"),
    (ARCHITECTURE, "`wss.h` I1–I2", "", ": the table of parts lacks kernel/wss.h I1–I2"),
    (ARCHITECTURE, "`plain.h`", "`plain.h` Q1–Q2", ":6: plain.h defines no rules Q"),
    (ARCHITECTURE, "`plain.h`", "`plain.h` S1–S13", ":6: plain.h defines no rules S"),
    ("lib/kv/one.h", "rule.\n", "rule.\n//   O2  A new one.\n", ":6: one.h O1: lib/kv/one.h defines O1–O2"),
    ("lib/kv/store.h", "//  S13 A rule.\n", "", ":6: kv/store.h S1–S13: lib/kv/store.h defines S1–S12"),
], ids=["short", "late", "no-range", "too-long", "header-is-missing", "only-an-invariant", "no-rules", "rules-of-another", "new-rule", "removed-rule"])
def test_lint_reports_wrong_and_missing_ranges(findings, file, old, new, finding):
    assert findings(file, old, new) == [finding]
