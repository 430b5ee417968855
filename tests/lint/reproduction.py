#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The generated section of Documentation/reproduction.md: the cards of Documentation/results.json, which is the
results.json of a full run of `wssbench all`. tests/lint/check reports a section that differs from the file.

    wssbench all --out DIR
    tests/lint/reproduction.py DIR/results.json     # copies the file, and writes the section
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE, RESULTS = Path("Documentation/reproduction.md"), Path("Documentation/results.json")
BEGIN, END = "<!-- tests/lint/reproduction.py writes this section -->\n", "<!-- end of the section -->\n"
NO_RESULTS = "No results of a full run are committed yet.\n"


def number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def claim_text(claim: dict) -> str:
    where = f"{claim['here']}: " if claim["here"] else ""
    paper = f", the paper {claim['paper']}" if claim["paper"] else ""
    return f"{claim['says']}: {where}{number(claim['ratio'])} ({number(claim['low'])} to {number(claim['high'])}{paper}; {claim['badge']}): {claim['status']}"


def row(card: dict) -> str:
    here = "<br>".join(claim_text(claim) for claim in card.get("claims", [])) or card["verdict"]
    cells = (card["paper_figure"], card["title"], card["quoted"], here, f"`{card['command']}`" if "command" in card else "")
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |\n"


def section(cards: list[dict]) -> str:
    """Returns the section for the cards of a run, or a note if no card has measurements."""
    cards = [card for card in cards if card["paper_figure"]]
    measured = next((card for card in cards if "measured" in card), None)
    if measured is None:
        return NO_RESULTS
    machine = measured["machine"]
    head = (f"From one run of `wssbench all`, source `{measured['source']}`, on {machine['processors']} processors ({machine['model']}), {machine['memory']},\n"
            f"Linux {machine['kernel']}, {machine['system']}, load average {machine['load_at_start']} at the start. Ratios have their 95 % confidence intervals.\n")  # fmt: skip
    return head + "\n| figure | title | the paper | here | command |\n| --- | --- | --- | --- | --- |\n" + "".join(map(row, cards))


def faults(cards: list[dict]):
    """Yields what makes a run unfit to be committed."""
    measured = [card for card in cards if "measured" in card]
    sources = {card["source"] for card in measured}
    if len(sources) > 1 or any(source.endswith("-dirty") for source in sources):
        yield f"measured from {', '.join(sorted(sources))}, not from one commit"
    if few := [card["title"] for card in measured if any(claim.get("reason", "").startswith("fewer than") for claim in card["claims"])]:
        yield f"too few turns, as in a quick run: {', '.join(few)}"


def parts(page: str) -> tuple[str, str, str]:
    """Returns the page before the section, the section, and the page after it."""
    before, begin, rest = page.partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} lacks the line {(END if begin else BEGIN).strip()}")
    return before + begin, inside, end + after


def committed(root: Path) -> list[dict]:
    results = root / RESULTS
    return json.loads(results.read_text()) if results.exists() else []


def check_reproduction(root: Path = ROOT):
    try:
        _, inside, _ = parts((root / PAGE).read_text())
    except ValueError as error:
        yield str(error)
        return
    cards = committed(root)
    if inside != f"\n{section(cards)}\n":
        yield f"{PAGE}: the generated section differs from {RESULTS}: tests/lint/reproduction.py {RESULTS}"
    for fault in faults(cards):
        yield f"{RESULTS}: {fault}"


def write(results: Path, root: Path = ROOT) -> None:
    text = results.read_text()
    cards = json.loads(text)
    for fault in faults(cards):
        sys.exit(f"{results}: {fault}")
    before, _, after = parts((root / PAGE).read_text())
    (root / RESULTS).write_text(text)
    (root / PAGE).write_text(f"{before}\n{section(cards)}\n{after}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    write(Path(sys.argv[1]))
