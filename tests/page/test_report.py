# SPDX-License-Identifier: Apache-2.0
"""The report of `wssbench all` is legible on three screen sizes and on paper, shows the values of its marks, and offers its data.
See build/page/report-*.png and report.pdf."""

import base64
import csv
import io
import json

import pytest

from tests.native.programs import BUILD, run

from .browser import SCREENSHOTS
from .figures import figures
from .test_looks import LOW_CONTRAST, WIDTHS

PAPER = (688, 1016)  # the area inside the margins of A4, in pixels


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    (folder / "figures.json").write_text(json.dumps(figures()))
    run(BUILD / "wssbench", "report", folder)
    return folder / "report.html"


def opened(page, report, width=1440):
    """Opens the report. On a busy machine, drawing two hundred charts takes longer than the status page."""
    shown = page(None, width=width)
    shown.command("Page.navigate", url=report.as_uri())
    shown.until("location.href !== 'about:blank' && document.readyState === 'complete'", 120)
    return shown


def choose(shown, key, value):
    shown.value(f"((select) => {{ select.value = {json.dumps(value)}; select.dispatchEvent(new Event('change')); }})(document.querySelector('#choice-{key}'))")


def labels(shown, card):
    """Returns the texts of a card's legends."""
    return shown.value(f"[...document.querySelectorAll('#{card} figure:not(.latency) .legend li')].map((one) => one.textContent)")


@pytest.mark.parametrize("width", WIDTHS)
def test_report_fits_the_screen_and_is_legible(page, report, width):
    shown = opened(page, report, width)
    assert shown.value("document.querySelectorAll('.card svg').length") > 30
    assert shown.value("document.scrollingElement.scrollWidth") <= width, "the page must have no horizontal scroll bar"
    assert shown.value("[...document.querySelectorAll('svg')].every((one) => one.getBoundingClientRect().right <= innerWidth)")
    assert shown.value("""[...document.querySelectorAll('.charts svg text')].filter((one) => {
        const box = one.getBoundingClientRect(), all = one.ownerSVGElement.getBoundingClientRect();
        return box.left < all.left - 1 || box.right > all.right + 1 || box.bottom > all.bottom + 1; }).map((one) => one.textContent)""") == []
    assert shown.value(LOW_CONTRAST) == []
    shown.screenshot(f"report-{width}")


def test_report_prints_each_card_on_one_page(page, report):
    shown = opened(page, report, PAPER[0])
    pdf = base64.b64decode(shown.command("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"])
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / "report.pdf").write_bytes(pdf)
    shown.command("Emulation.setEmulatedMedia", media="print")
    shown.screenshot("report-paper")
    high = f"""[...document.querySelectorAll('.card')].filter((one) => one.getBoundingClientRect().height > {PAPER[1]})
        .map((one) => `${{one.id}}: ${{one.getBoundingClientRect().height}}`)"""
    assert shown.value(high) == []
    assert shown.value("document.scrollingElement.scrollWidth") <= PAPER[0]


def test_pointer_shows_the_value_of_a_mark(page, report):
    shown = opened(page, report)
    x, y = shown.value("""(() => { const mark = document.querySelector('#B5 .charts path[fill]:not(.dot)'); mark.scrollIntoView({block: "center"});
        const box = mark.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()""")  # fmt: skip
    shown.command("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    shown.reads("#tip", "IOPS")
    assert "5 turns" in shown.text("#tip") and "no network" in shown.text("#tip")


def test_choices_select_fabric_method_and_unit(page, report):
    shown = opened(page, report)
    assert any("tcp" in label for label in labels(shown, "B7"))
    choose(shown, "fabric", "shm")
    assert labels(shown, "B7") and not any("tcp" in label for label in labels(shown, "B12"))
    choose(shown, "method", "aio")
    assert labels(shown, "B4")[0] == "aio" and "static" not in labels(shown, "B4")
    choose(shown, "method", "all")
    choose(shown, "unit", "MB/s")
    assert "MB/s" in shown.value("document.querySelector('#B4 svg').textContent")
    assert not any("paper" in label for label in labels(shown, "B4")), "the paper's values are in its own unit"
    choose(shown, "unit", "share")
    assert "%" in shown.value("document.querySelector('#D-table-3 svg').textContent")


def test_transports_and_the_best_methods_are_bars_and_stages_are_stacked(page, report):
    shown = opened(page, report)
    for card in ("A4", "B12", "D-table-3", "D14"):
        assert shown.value(f"document.querySelectorAll('#{card} rect.bar').length") >= 3, card
    assert {"network alone", "WSS and SRP"} <= set(labels(shown, "D14"))


def test_distribution_of_latencies_is_that_of_the_chosen_place(page, report):
    shown = opened(page, report)
    before = shown.value("document.querySelector('#B5 .latency svg').outerHTML")
    shown.value("((select) => { select.selectedIndex = 0; select.dispatchEvent(new Event('change')); })(document.querySelector('#B5 .latency select'))")
    assert shown.value("document.querySelector('#B5 .latency svg').outerHTML") != before


def test_report_offers_its_data(page, report):
    shown = opened(page, report)
    got = {name: shown.value(f"fetch(document.querySelector('a[download=\"{name}\"]').href).then((one) => one.text())")
           for name in ("cards.csv", "measurements.csv", "results.json", "figures.json")}  # fmt: skip
    cards = json.loads((report.parent / "results.json").read_text())
    assert json.loads(got["results.json"]) == cards
    assert [one["rows"] for one in json.loads(got["figures.json"])] == [one["rows"] for one in figures()]
    rows = list(csv.DictReader(io.StringIO(got["measurements.csv"])))
    assert len(rows) == sum(len(one["rows"]) for one in figures()) and rows[0]["command"] == "wssbench local --quick"
    points = sum(len(card["values"]) + sum(len(line["points"]) for line in card.get("measured", [])) for card in cards)
    assert len(list(csv.DictReader(io.StringIO(got["cards.csv"])))) == points


def test_report_renders_no_markup_of_its_data(page, report):
    shown = opened(page, report)
    assert shown.value("document.querySelectorAll('img').length") == 0 and shown.value("document.title") == "WSS: the papers' figures"
    assert "onerror" in shown.value("document.querySelector('#raw').textContent")
    assert "not measured: no machine <img" in shown.text("#D15")
