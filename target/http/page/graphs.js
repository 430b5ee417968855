// SPDX-License-Identifier: Apache-2.0
// Graphs: each is a figure element with the current values as text, and a plot of the last minutes by uPlot.
/* global uPlot */
import { clock } from "./figures.js";

const KEPT_SECONDS = 15 * 60;
const LEAST_SECONDS = 60;
const BASE_TWO = Array.from({ length: 60 }, (_, i) => 2 ** i);

let shownSeconds = 5 * 60;
const graphs = [];

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function element(tag, parent, name = "") {
  const made = parent.appendChild(document.createElement(tag));
  if (name !== "") made.className = name;
  return made;
}

// `series`: [label, ...]. `write` converts a value to text. `options`: {logarithmic, baseTwo, least, most}.
// The scale ends at `most`, or at the greatest value shown, but not below `least`.
export class Graph {
  constructor(parent, title, series, write, options = {}) {
    this.title = title;
    this.series = series;
    this.write = write;
    this.options = options;
    this.rows = [[], ...series.map(() => [])]; // seconds since 1970, then the values of each series
    this.figure = element("figure", parent);
    element("h3", element("figcaption", this.figure)).textContent = title;
    const now = element("dl", this.figure.firstChild, "now");
    this.values = series.map((label, i) => {
      const pair = element("div", now);
      pair.dataset.series = String(i);
      element("dt", pair).textContent = label;
      return element("dd", pair);
    });
    this.plotted = element("div", this.figure, "plot");
    this.plotted.setAttribute("role", "img");
    this.describe();
    graphs.push(this);
  }

  // Adds one value per series; null means unknown.
  add(values) {
    const now = Date.now() / 1000;
    this.rows[0].push(now);
    values.forEach((value, i) => this.rows[i + 1].push(value));
    const old = this.rows[0].findIndex((time) => time >= now - KEPT_SECONDS);
    if (old > 0) this.rows = this.rows.map((row) => row.slice(old));
    this.describe();
    this.draw();
  }

  describe(at = this.rows[0].length - 1) {
    const texts = this.series.map((_, i) => this.write(this.rows[i + 1][at] ?? null));
    this.values.forEach((node, i) => { if (node.textContent !== texts[i]) node.textContent = texts[i]; });
    this.plotted.setAttribute("aria-label", `${this.title}, last ${shownSeconds / 60} minutes. Now: `
      + this.series.map((label, i) => `${label} ${texts[i]}`).join(", "));
  }

  // Soon after the page was opened, the time axis begins at the first value.
  range() {
    const end = this.rows[0].at(-1) ?? Date.now() / 1000;
    return [Math.max(end - shownSeconds, Math.min(this.rows[0][0] ?? end, end - LEAST_SECONDS)), end];
  }

  draw() {
    if (this.figure.offsetParent === null) return; // not shown
    if (this.plot === undefined) this.make();
    else this.plot.setData(this.rows);
  }

  make() {
    this.plot?.destroy();
    this.plot = new uPlot(this.settings(), this.rows, this.plotted);
  }

  settings() {
    const line = style("--grid"), text = style("--soft");
    const font = `11px ${style("--font")}`;
    const { logarithmic = false, baseTwo = false, least = 1, most = null } = this.options;
    const vertical = logarithmic ? { distr: 3, range: (_, low, high) => decades(low, high) }
      : { range: (_, low, high) => [0, most ?? Math.max(high ?? 0, least) * 1.1] };
    return {
      width: this.plotted.clientWidth, height: this.plotted.clientHeight,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false, points: { size: 6 } },
      scales: { x: { range: () => this.range() }, y: vertical },
      axes: [
        { stroke: text, font, size: 30, gap: 9, space: 70, grid: { show: false }, ticks: { show: false },
          values: (_, times) => times.map((time) => clock(new Date(time * 1000)).slice(0, times[1] - times[0] < 60 ? 8 : 5)) },
        { stroke: text, font, size: 70, gap: 6, space: 32, grid: { stroke: line, width: 1 }, ticks: { show: false },
          ...(logarithmic ? { splits: (_, axis, low, high) => powersOfTen(low, high), filter: (_, splits) => splits }
            : baseTwo ? { incrs: BASE_TWO } : {}),
          values: (_, values) => values.map((value) => (value === null ? "" : this.write(value))) },
      ],
      series: [{}, ...this.series.map((_, i) => ({
        stroke: style(`--series-${i}`), width: 1.75, points: { show: false },
        fill: this.series.length === 1 ? style("--series-0-fill") : undefined,
      }))],
      hooks: { setCursor: [(plot) => this.describe(plot.cursor.idx ?? undefined)] },
    };
  }
}

// Range of whole powers of ten around the values, at least two decades.
function decades(low, high) {
  if (low === null || high === null || !(high > 0)) return [1, 1000];
  const first = Math.floor(Math.log10(Math.max(low, 0.1)));
  return [10 ** first, 10 ** Math.max(Math.ceil(Math.log10(high)), first + 2)];
}

// At most four powers of ten from `low` to `high`.
function powersOfTen(low, high) {
  const first = Math.round(Math.log10(low)), last = Math.round(Math.log10(high));
  const step = Math.ceil((last - first) / 3);
  return Array.from({ length: Math.floor((last - first) / step) + 1 }, (_, i) => 10 ** (first + i * step));
}

function makeAll() {
  for (const graph of graphs) {
    if (graph.figure.offsetParent !== null) graph.make();
  }
}

export function show(minutes) {
  shownSeconds = minutes * 60;
  makeAll();
  graphs.forEach((graph) => graph.describe());
}

// Adds a gap to all graphs: the values that follow are unknown.
export function interrupt() {
  for (const graph of graphs) {
    if (graph.rows.slice(1).some((row) => row.at(-1) !== null && row.length > 0)) graph.add(graph.series.map(() => null));
  }
}

// Makes plots follow the width and the colours of the window.
export function follow(container) {
  let width = 0;
  new ResizeObserver(() => {
    if (container.clientWidth === width) return;
    width = container.clientWidth;
    makeAll();
  }).observe(container);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", makeAll);
}
