# SPDX-License-Identifier: Apache-2.0
"""The status page is usable on three screen sizes, in light and dark, by keyboard and with screen readers. See build/page/*.png."""

import urllib.request
from urllib.parse import urljoin

import pytest

from tests.native.ports import free_port

from .programs import Pages, address, verifying_load
from .test_page import SERVING, THOROUGH, figure, flows

WIDTHS = (390, 820, 1440)

# Visible texts whose contrast with their background is below WCAG AA (4.5; 3 for large text).
LOW_CONTRAST = """(() => {
  const parse = (colour) => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => { for (; node; node = node.parentElement) {
    const { backgroundColor, backgroundImage } = getComputedStyle(node), colour = parse(backgroundColor);
    const over = parse(backgroundImage.match(/rgba?\\([^)]*\\)/)?.[0] ?? "rgba(0, 0, 0, 0)");
    if (colour[3] > 0) return colour.slice(0, 3).map((c, i) => c + (over[i] - c) * over[3]); } return [255, 255, 255]; };
  document.querySelectorAll("#engines li").forEach((tile) => tile.style.setProperty("--heat", "1"));
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim() !== "");
    if (!own || node.getClientRects().length === 0) continue;
    const style = getComputedStyle(node), [a, b] = [light(parse(style.color)), light(ground(node))].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.6 && style.fontWeight >= 700);
    if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) found.push(`${node.textContent}: ${style.color} ${ground(node)}`);
  }
  return found;
})()"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Programs under load, with enough volumes, engines and long names to fill the page."""
    folder = tmp_path_factory.mktemp("looks")
    volumes = {name: f"aio:{folder}/{name}.img,size=64M,create" for name in ("disk", "database-of-the-accounts", "a" * 63)}
    more = ["--kv-listen", f"tcp://127.0.0.1:{free_port()}"]
    with Pages(folder, engines=3, volumes=volumes, more=more) as made, verifying_load(made.target, "disk", folder / "load"):
        yield made


@pytest.mark.parametrize("width, scheme", [(width, scheme) for width in WIDTHS for scheme in ("light", "dark")])
def test_page_fits_the_screen_and_is_legible(page, cluster, width, scheme):
    if not THOROUGH and scheme == ("dark" if width == 1440 else "light"):
        pytest.skip("the short run has each width once; WSS_THOROUGH=1 has all pairs")
    shown = page(None, width=width)
    shown.prefer(prefers_color_scheme=scheme)
    shown.open(address(cluster.http))
    shown.until(SERVING)
    shown.until(flows("Throughput"), 30)
    shown.reads("#sessions", "WSS, tcp")
    shown.idle(2)
    shown.screenshot(f"page-{width}-{scheme}")
    assert shown.value("document.scrollingElement.scrollWidth") <= width, "the page must have no horizontal scroll bar"
    assert shown.value("[...document.querySelectorAll('.plot canvas')].every((one) => one.getBoundingClientRect().right <= innerWidth)")
    assert shown.value(LOW_CONTRAST) == []


def test_every_link_and_button_works_with_mouse_and_keyboard(page, cluster):
    shown = page(address(cluster.http))
    shown.until(SERVING)
    shown.until(flows("Throughput"), 30)
    for minutes in ("1", "15", "5"):
        shown.click(f"[data-minutes='{minutes}']")
        assert shown.value("[...document.querySelectorAll('[aria-pressed=true]')].map((one) => one.dataset.minutes).join()") == minutes
        assert f"last {minutes} minutes" in shown.value("document.querySelector('.plot').getAttribute('aria-label')")
    reached = []
    for _ in range(12):
        shown.press("Tab")
        reached.append(shown.value("document.activeElement.textContent"))
        assert shown.value("document.activeElement === document.body || getComputedStyle(document.activeElement).outlineStyle !== 'none'")
    wanted = shown.value("[...document.querySelectorAll('a, button')].filter((one) => one.offsetParent !== null).map((one) => one.textContent)")
    assert set(wanted) <= set(reached)
    links = shown.value("[...document.querySelectorAll('a')].map((one) => one.getAttribute('href'))")
    assert len(links) == 5
    for number, link in enumerate(links):
        assert urllib.request.urlopen(urljoin(address(cluster.http), link), timeout=10).status == 200, link
        shown.click(f"footer a:nth-of-type({number + 1})")
        shown.until(f"location.pathname === {'/' + link!r}")
        shown.value("history.back()")
        shown.until("document.querySelector('#headline') !== null")
        shown.until(SERVING)


def test_graphs_provide_their_values_as_text(page, cluster):
    shown = page(address(cluster.http))
    shown.until(SERVING)
    shown.until(flows("Throughput"), 30)
    assert shown.value("""[...document.querySelectorAll(".plot")].every((plot) =>
        plot.getAttribute("role") === "img" && [...plot.parentNode.querySelectorAll("dd")].every((value) =>
            plot.getAttribute("aria-label").includes(value.textContent)))""")
    assert shown.value("[...document.querySelectorAll('table')].every((one) => one.caption.textContent !== '')")
    assert shown.value("[...document.querySelectorAll('h1, h2, h3')].filter((one) => one.tagName === 'H1').length") == 1
    assert shown.value(figure("Read latency", 2)) != ""


def test_page_has_no_transitions_with_reduced_motion(page, cluster):
    shown = page(None)
    shown.prefer(prefers_reduced_motion="reduce")
    shown.open(address(cluster.http))
    shown.until(SERVING)
    moving = "[...document.querySelectorAll('*')].filter((one) => parseFloat(getComputedStyle(one).transitionDuration) > 0).length"
    assert shown.value(moving) == 0
    shown.prefer(prefers_reduced_motion="no-preference")
    assert shown.value(moving) > 0
