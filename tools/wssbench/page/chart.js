// SPDX-License-Identifier: Apache-2.0
// Charts as SVG: lines, grouped bars, stacked bars. The pointer shows the value next to it.
//
// A model is {x, y, kind, names, series}: `x` and `y` are labels; `kind` is "lines", "bars" or "percentiles";
// `names` are the categories of bars; a series is {name, colour, paper, across, points: [{x, y, text}], dots: [{x, y}]}.
"use strict";

const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#aa4499", "#b07800", "#3388cc", "#882255", "#555555"];
const MARKS = [
  (x, y) => `M${x - 4},${y}a4,4 0 1,0 8,0a4,4 0 1,0 -8,0`,
  (x, y) => `M${x - 4},${y - 4}h8v8h-8z`,
  (x, y) => `M${x},${y - 5}l5,9h-10z`,
  (x, y) => `M${x},${y - 6}l5,6l-5,6l-5,-6z`,
];
const DOT = (x, y) => `M${x - 2},${y}a2,2 0 1,0 4,0a2,2 0 1,0 -4,0`;
const CROSS = (x, y) => `M${x - 5},${y - 5}l10,10m0,-10l-10,10`;

function svg(name, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// A drawing with room for axes. `spots` are the places whose text is shown when the pointer is near.
class Drawing {
  constructor(width, label) {
    this.width = width;
    this.height = width < 500 ? 290 : 330;
    this.area = {left: 62, right: width - 18, top: 26, bottom: this.height - 46};
    this.spots = [];
    this.node = svg("svg", {viewBox: `0 0 ${width} ${this.height}`, width, height: this.height, role: "img", "aria-label": label});
  }

  text(x, y, words, attributes = {}) {
    this.node.append(svg("text", {x, y, ...attributes}, words));
  }

  path(d, attributes) {
    this.node.append(svg("path", {d, ...attributes}));
  }

  axes(x, y, model, nameOf) {
    const {left, right, top, bottom} = this.area;
    for (const tick of y.ticks) {
      const at = y.at(tick);
      this.path(`M${left},${at}H${right}`, {class: "grid"});
      this.text(left - 6, at + 4, short(tick), {class: "tick", "text-anchor": "end"});
    }
    const room = x.width || 60;
    x.ticks.forEach((tick, number) => {
      const words = nameOf(tick), lines = room < 90 && typeof tick === "string" ? words.split(" ") : [words];
      lines.forEach((line, row) => this.text(x.at(tick), bottom + 15 + 12 * row + (x.width && x.width < 52 && number % 2 ? 12 : 0), line,
                                             {class: "tick", "text-anchor": "middle"}));
      this.path(`M${x.at(tick)},${bottom}v4`, {class: "axis"});
    });
    this.path(`M${left},${top}V${bottom}H${right}`, {class: "axis"});
    this.text(left - 54, top - 12, model.y, {class: "label"});
    this.text((left + right) / 2, this.height - 4, model.x, {class: "label", "text-anchor": "middle"});
  }

  spot(x, y, text) {
    this.spots.push({x, y, text});
  }

  // Returns the node, with a tip that follows the pointer.
  finished() {
    const tip = document.getElementById("tip");
    const show = (event) => {
      const box = this.node.getBoundingClientRect(), scale = this.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      let nearest = null, least = 40 ** 2;
      for (const spot of this.spots) {
        const distance = (spot.x - x) ** 2 + (spot.y - y) ** 2;
        if (distance < least) [nearest, least] = [spot, distance];
      }
      tip.hidden = nearest === null;
      if (nearest === null) return;
      tip.textContent = nearest.text;
      tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${event.clientY + 16}px`;
    };
    this.node.addEventListener("pointermove", show);
    this.node.addEventListener("pointerdown", show);
    this.node.addEventListener("pointerleave", () => { tip.hidden = true; });
    return this.node;
  }
}

function rangeOf(model) {
  const values = model.series.flatMap((one) => [...one.points, ...one.dots].map((point) => point.y));
  return [Math.min(...values), Math.max(...values)];
}

// A range of more than a factor of 20 gets a logarithmic axis. Bars always begin at zero.
function yScale(model, area, bars) {
  const [low, high] = rangeOf(model);
  return !bars && low > 0 && high / low > 20 ? logarithmic(low, high, area.bottom, area.top) : linear(high, area.bottom, area.top);
}

function drawSeries(drawing, one, number, x, y) {
  const at = one.points.map((point) => [x(point), y.at(point.y)]);
  const {left, right} = drawing.area;
  if (one.across) {
    one.points.forEach((point, index) => {
      drawing.path(`M${left},${at[index][1]}H${right}`, {class: "paper across"});
      drawing.spot((left + right) / 2, at[index][1], point.text);
    });
    return;
  }
  const dashes = number >= COLOURS.length ? "6 3" : "none";
  if (!one.paper) drawing.path("M" + at.map((place) => place.join()).join("L"), {class: "line", stroke: one.colour, "stroke-dasharray": dashes});
  for (const dot of one.dots) drawing.path(DOT(x(dot), y.at(dot.y)), {class: "dot", fill: one.colour});
  one.points.forEach((point, index) => {
    drawing.path(one.paper ? CROSS(...at[index]) : MARKS[number % MARKS.length](...at[index]), one.paper ? {class: "paper"} : {fill: one.colour});
    drawing.spot(...at[index], point.text);
  });
}

function lineChart(model, width) {
  const drawing = new Drawing(width, model.label), {left, right} = drawing.area;
  const percent = model.kind === "percentiles", all = model.series.flatMap((one) => one.across ? [] : one.points.map((point) => point.x));
  const x = percent ? percentiles(Math.max(...all), left, right) : places(new Set(all), left, right), y = yScale(model, drawing.area, false);
  drawing.axes(x, y, model, model.xText || String);
  model.series.forEach((one, number) => drawSeries(drawing, one, number, (point) => x.at(point.x), y));
  return drawing.finished();
}

// Shows the bars of our series side by side, and the values of the paper as crosses.
function barChart(model, width) {
  const drawing = new Drawing(width, model.label), {left, right, bottom} = drawing.area;
  const x = bands(model.names, left, right), y = yScale(model, drawing.area, true);
  drawing.axes(x, y, model, model.xText || String);
  const ours = model.series.filter((one) => !one.paper), step = x.width * 0.8 / Math.max(ours.length, 1);
  model.series.forEach((one, number) => {
    if (one.paper) return drawSeries(drawing, one, number, (point) => x.at(point.x), y);
    const shift = (ours.indexOf(one) + 0.5) * step - x.width * 0.4;
    for (const point of one.points) {
      const at = x.at(point.x) + shift, top = y.at(point.y);
      drawing.node.append(svg("rect", {x: at - step * 0.45, y: top, width: step * 0.9, height: Math.max(bottom - top, 0.5), fill: one.colour, class: "bar"}));
      if (step > 34) drawing.text(at, top - 4, short(point.y), {class: "tick", "text-anchor": "middle"});
      drawing.spot(at, top, point.text);
    }
    for (const dot of one.dots) drawing.path(DOT(x.at(dot.x) + shift, y.at(dot.y)), {class: "dot", fill: "#222"});
  });
  return drawing.finished();
}

// Shows horizontal bars of {name, parts: [{name, y}]}, one below another. `colours` belong to the names of
// the parts.
function stackChart(bars, unit, colours, width) {
  const drawing = new Drawing(width, bars.map((bar) => `${bar.name}: ${bar.parts.map((part) => `${part.name} ${short(part.y)}`).join(", ")}`).join("; "));
  const {left, right} = {left: 8, right: width - 14}, high = Math.max(...bars.map((bar) => bar.parts.reduce((sum, part) => sum + part.y, 0)));
  const x = linear(high, left, right), row = 46;
  drawing.height = bars.length * row + 50;
  drawing.node.setAttribute("viewBox", `0 0 ${width} ${drawing.height}`);
  drawing.node.setAttribute("height", drawing.height);
  const bottom = bars.length * row + 14;
  for (const tick of x.ticks) {
    drawing.path(`M${x.at(tick)},6V${bottom}`, {class: "grid"});
    drawing.text(x.at(tick), bottom + 14, short(tick), {class: "tick", "text-anchor": tick === 0 ? "start" : "middle"});
  }
  drawing.text((left + right) / 2, drawing.height - 6, unit, {class: "label", "text-anchor": "middle"});
  bars.forEach((bar, number) => {
    const top = number * row + 10, total = bar.parts.reduce((sum, part) => sum + part.y, 0);
    drawing.text(left, top + 10, `${bar.name}: ${short(total)} ${unit}`, {class: "label"});
    let from = left;
    for (const part of bar.parts) {
      const to = from + x.at(part.y) - left, percent = Math.round(100 * part.y / total);
      drawing.node.append(svg("rect", {x: from, y: top + 15, width: Math.max(to - from, 0.5), height: 18, fill: colours.get(part.name), class: "bar"}));
      const words = short(part.y);
      if (to - from > 8 * words.length) drawing.text((from + to) / 2, top + 28, words, {class: "inside", "text-anchor": "middle"});
      drawing.spot((from + to) / 2, top + 24, `${bar.name}: ${part.name} ${short(part.y)} ${unit} (${percent} %)`);
      from = to;
    }
  });
  return drawing.finished();
}
