# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file; plots are SVG by gnuplot, and are missing without gnuplot."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import time
from pathlib import Path

from tests.bench.figures.core import ROOT, cell, columns_of, doubts, machine

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; color: #222; }
h1, h2 { line-height: 1.2 } h2 { margin-top: 2.2em; border-top: 1px solid #ccc; padding-top: .8em }
table { border-collapse: collapse; font-size: 13px; margin: .7em 0 } td, th { padding: .15em .6em; border-bottom: 1px solid #e4e4e4; text-align: right }
th { background: #f4f4f4; position: sticky; top: 0 } .scroll { overflow-x: auto; max-height: 32em; overflow-y: auto }
.method { color: #555 } .counted { background: #e7f3e7; padding: 0 .4em } .seconds { background: #fdf1dc; padding: 0 .4em } .bad { color: #a00 }
code { background: #f4f4f4; padding: 0 .3em; overflow-wrap: anywhere }
@media (max-width: 40em) { body { margin: 1em auto; font-size: 14px } }
@media print { .scroll { max-height: none; overflow: visible } table { font-size: 9px } h2 { break-after: avoid } svg { break-inside: avoid } th { position: static } }
 .plots { display: flex; flex-wrap: wrap; gap: 1em } svg { max-width: 100%; height: auto }
"""
LINES_MAX = 12  # of one plot: more are indistinguishable; the table has the others


def html_table(rows: list[dict]) -> str:
    columns = columns_of(rows)
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell(row.get(column)))}</td>" for column in columns) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


# ---- plots


def groups_of(figure: dict) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Plot -> line -> points. The first two labels of the series name a line, the others name a plot."""
    series, x = figure.get("series", []), figure.get("x", "")
    plots: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for row in figure["rows"]:
        if not isinstance(row.get(x), (int, float)) or "rate" not in row:
            continue
        line = " ".join(str(row[key]) for key in series[:2] if row.get(key) not in (None, ""))
        plots.setdefault(plot_name(figure, row), {}).setdefault(line or "ours", []).append((row[x], row["rate"]))
    return plots


def plot_name(figure: dict, row: dict) -> str:
    return ", ".join(f"{key} {row[key]}" for key in figure.get("series", [])[2:] if row.get(key) not in (None, ""))


def papers_points(figure: dict, plot: str) -> dict[str, list[tuple[float, float]]]:
    """Line -> points of the paper's values. A value appears only in the plots whose rows it may be compared with (its
    `where`)."""
    lines: dict[str, list[tuple[float, float]]] = {}
    rows = [row for row in figure["rows"] if plot_name(figure, row) == plot]
    for value in figure.get("paper_values", []):
        where = value.get("where", {})
        if "x" in value and any(all(row.get(key) == wanted for key, wanted in where.items()) for row in rows):
            name = " ".join(filter(None, ["paper", value.get("series", "")]))
            lines.setdefault(name, []).append((value["x"], value["value"]))
    return lines


def quoted(text: str) -> str:
    return '"' + re.sub(r'["\\\n]', " ", text) + '"'


def svg(figure: dict, title: str, lines: dict[str, list[tuple[float, float]]]) -> str:
    """Returns one plot, or "" if gnuplot fails."""
    omitted = max(len(lines) - LINES_MAX, 0)
    lines = {**dict(list(lines.items())[:LINES_MAX]), **papers_points(figure, title)}
    title = (title or figure["title"]) + (f" ({omitted} more lines in the table)" if omitted else "")
    points = [point for line in lines.values() for point in line]
    if len({x for x, _ in points}) < 2:
        return ""
    log_x = min(x for x, _ in points) > 0 and figure["x"] != "read_percent"
    script = [
        "set terminal svg size 560,360 font 'sans,11' background '#ffffff'", f"set title {quoted(title)} noenhanced",
        f"set xlabel {quoted(figure['x'])} noenhanced", f"set ylabel {quoted(figure['unit'])} noenhanced", "set key outside below noenhanced", "set grid",
        "set logscale x 2" if log_x else "", "set logscale y" if min(y for _, y in points) > 0 else "", "set format y '%.0s%c'",
        "plot " + ", ".join(f"'-' using 1:2 with {'points pt 3 ps 1.4' if name.startswith('paper') else 'linespoints lw 2'} title {quoted(name)}" for name in lines),
    ]  # fmt: skip
    for line in lines.values():
        script += [*(f"{x} {y}" for x, y in sorted(line)), "e"]
    try:
        run = subprocess.run(["gnuplot"], input="\n".join(filter(None, script)), capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    # Names inside an SVG are unique only there: nothing refers to them from outside.
    return run.stdout[run.stdout.find("<svg"):] if run.returncode == 0 and "<svg" in run.stdout else ""


# ---- the page


def section(figure: dict) -> str:
    title = f"<h2 id={figure['figure']}>{html.escape(figure['figure'])}: {html.escape(figure['title'])}</h2>"
    if figure.get("error"):
        return f"{title}<p class=bad>Not measured: {html.escape(figure['error'])}</p>"
    parts = [title, f"<p>Paper: {html.escape(figure['paper'])}. <code>{html.escape(figure['command'])}</code></p>"]
    kind = "counted" if figure["measured"] != "seconds" else "seconds"
    parts.append(f"<p class=method><span class={kind}>{html.escape(figure['measured'])}</span> {html.escape(figure['method'])}</p>")
    if figure.get("interrupted"):
        parts.append("<p class=bad>Interrupted: these are the points that were done.</p>")
    if figure.get("ratio") is not None:
        meaning = f" ({html.escape(figure['bound_means'])})" if figure.get("bound_means") else ""
        parts.append(f"<p>Bound {html.escape(cell(figure['bound']))}{meaning}, ratio <b>{cell(figure['ratio'])}</b>.</p>")
    if doubtful := doubts(figure):
        parts.append("<ul class=bad>" + "".join(f"<li>{html.escape(doubt)}</li>" for doubt in doubtful) + "</ul>")
    if figure.get("bounds"):
        parts.append(html_table(figure["bounds"]))
    if figure.get("paper_values"):
        parts.append("<ul>" + "".join(f"<li>{html.escape(value['text'])}</li>" for value in figure["paper_values"]) + "</ul>")
    plots = [svg(figure, name, lines) for name, lines in groups_of(figure).items()]
    parts.append(f"<div class=plots>{''.join(plots)}</div>")
    parts.append(html_table(figure["rows"]))
    return "\n".join(parts)


def version(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=20, check=False).stdout.splitlines()[0]
    except (OSError, IndexError, subprocess.TimeoutExpired):
        return "not there"


def versions() -> dict[str, str]:
    return {"WSS": version(["git", "describe", "--always", "--dirty"]), "compiler": version(["g++", "--version"]), "fio": version(["fio", "--version"]),
            "QEMU": version(["qemu-system-x86_64", "--version"]), "gnuplot": version(["gnuplot", "--version"])}  # fmt: skip


def page(results: list[dict], unfinished: bool) -> str:
    overview = [{"figure": figure["figure"], "paper": figure["paper"], "measured": figure.get("measured", "not"), "bound": figure.get("bound"),
                 "the bound is": figure.get("bound_means", ""), "ratio": figure.get("ratio"), "doubts": len(doubts(figure)) if figure["rows"] else None,
                 "largest spread, %": max((row["spread_percent"] for row in figure["rows"] if row.get("spread_percent") is not None), default=None)}
                for figure in results]  # fmt: skip
    note = "" if shutil.which("gnuplot") else "<p class=bad>gnuplot is not installed: there are no plots.</p>"
    note += "<p class=bad>This run was not finished.</p>" if unfinished else ""
    about = html_table([machine()]) + html_table([versions()])
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width, initial-scale=1'><title>WSS: measurements</title><style>{STYLE}</style><h1>WSS: measurements</h1>"
        f"<p>{time.strftime('%Y-%m-%d %H:%M %Z')}</p>{note}{about}"
        "<p>A ratio compares a measurement of this run with the bound named beside it; bounds that are a paper's ratio or a model were not measured here. "
        "Seconds of a machine that does other work are noise: see the spread (the largest distance of a repeat from the median; empty for single runs), the "
        "95 % intervals of the ratios (ratio_low, ratio_high) and the doubts of each figure. Counted instructions repeat.</p>"
        f"{html_table(overview)}{''.join(section(figure) for figure in results)}</html>\n"
    )


def write(results: list[dict], directory: Path, unfinished: bool) -> None:
    (directory / "report.html").write_text(page(results, unfinished))
