// SPDX-License-Identifier: Apache-2.0
// From a card (tools/wssbench/card.h) to the models of its charts, by the reader's choices.
"use strict";

const LATENCY_LINES = 12; // a reader cannot distinguish more lines
const OWN_UNIT = "the paper's";
const choices = {fabric: "all", method: "all", unit: OWN_UNIT};

function median(values) {
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

const fabricOf = (line) => line.labels.fabric ?? line.labels.where ?? line.labels.network;

function isChosen(line) {
  const fabric = fabricOf(line);
  return (choices.fabric === "all" || fabric === undefined || fabric === "local" || fabric === choices.fabric) &&
         (choices.method === "all" || !line.labels.method || line.labels.method === choices.method);
}

// The turns of a point in the chosen unit, or undefined.
const turnsOf = (point) => choices.unit === OWN_UNIT ? point.turns : point.in?.[choices.unit];

const isBytes = (card) => ["bytes", "region"].includes(card.x);
const xText = (card) => (x) => typeof x === "number" && isBytes(card) ? bytesText(x) : String(x);

function pointText(card, line, point, turns) {
  const unit = choices.unit === OWN_UNIT ? card.y : choices.unit;
  const range = turns.length > 1 ? `; ${turns.length} turns, ${short(Math.min(...turns))} to ${short(Math.max(...turns))}` : "; 1 turn";
  return `${line.name}\n${card.x} ${xText(card)(point.x)}: ${short(median(turns))} ${unit}${range}\n${point.badge}`;
}

function seriesOf(card, line, number) {
  const series = {name: line.name, colour: COLOURS[number % COLOURS.length], points: [], dots: []};
  for (const point of line.points) {
    const turns = turnsOf(point);
    if (turns === undefined) continue;
    series.points.push({x: point.x, y: median(turns), text: pointText(card, line, point, turns)});
    if (turns.length > 1) series.dots.push(...turns.map((y) => ({x: point.x, y})));
  }
  if (typeof series.points[0]?.x === "number") series.points.sort((a, b) => a.x - b.x);
  return series;
}

// The quoted values of the paper. They are shown in the paper's own unit, each at its own place.
function papersSeries(card) {
  const all = new Map();
  for (const value of card.values) {
    const name = value.series === "" ? "the paper" : `the paper: ${value.series}`, across = !("x" in value);
    if (!all.has(name)) all.set(name, {name, paper: true, across, points: [], dots: []});
    for (const y of value.low === value.high ? [value.low] : [value.low, value.high])
      all.get(name).points.push({x: value.x, y, text: `${name}${across ? "" : `\n${card.x} ${xText(card)(value.x)}`}: ${short(y)} ${card.y}`});
  }
  return [...all.values()];
}

const placesOf = (series) => [...new Set(series.flatMap((one) => one.across ? [] : one.points.map((point) => point.x)))];

function model(card, series, label) {
  const bars = card.draw === "bars" || series.some((one) => typeof one.points[0]?.x === "string");
  const names = placesOf(series);
  if (names.every((name) => typeof name === "number")) names.sort((a, b) => a - b);
  return {x: card.x, y: choices.unit === OWN_UNIT ? card.y : choices.unit, kind: bars ? "bars" : "lines", names, series, xText: xText(card), label};
}

// The charts of a card. There is one, or one for each fabric if a single chart had too many lines. If the
// paper's own bars were measured on other hardware than ours, they get a chart of their own, so that the
// shapes can be compared.
function chartsOf(card) {
  const lines = card.measured.filter(isChosen), fabrics = [...new Set(lines.map(fabricOf))].filter((one) => one && one !== "local");
  const split = lines.length > 8 && fabrics.length > 1 ? fabrics : [null];
  const papers = choices.unit === OWN_UNIT ? papersSeries(card) : [];
  const apart = card.draw === "bars" && !card.relative && papers.length > 0;
  const charts = split.map((fabric) => {
    const its = lines.filter((line) => fabric === null || fabricOf(line) === fabric || fabricOf(line) === "local" || !fabricOf(line));
    const series = its.map((line, number) => seriesOf(card, line, number)).filter((one) => one.points.length > 0);
    return {title: fabric ?? (apart ? "here" : ""), model: model(card, apart ? series : [...series, ...papers], `${card.title}${fabric ? `, ${fabric}` : ""}`)};
  });
  if (apart) {
    const bars = papers.map((one, number) => ({...one, paper: false, colour: COLOURS[number % COLOURS.length]}));
    charts.unshift({title: "the paper, another machine", model: model(card, bars, `${card.title}, the paper`)});
  }
  return charts.filter((chart) => chart.model.series.some((one) => !one.paper));
}

// The distributions of latencies at one point of the x axis. The thin lines are turns.
function latencyModel(card, place) {
  const series = [];
  card.measured.filter(isChosen).forEach((line) => {
    const latency = line.points.find((point) => point.x === place)?.latency;
    if (latency === undefined) return;
    const text = (percent, us) => `${line.name}\n${percent} % take at most ${short(us)} µs\nmedian of ${latency.turns.length} turns`;
    const points = latency.percent.map((percent, index) => ({x: percent, y: latency.us[index], text: text(percent, latency.us[index])}));
    const dots = latency.turns.length > 1 ? latency.turns.flatMap((turn) => turn.map((y, index) => ({x: latency.percent[index], y}))) : [];
    series.push({name: line.name, colour: COLOURS[series.length % COLOURS.length], points, dots});
  });
  const left_out = Math.max(series.length - LATENCY_LINES, 0);
  return {x: "percent of the operations", y: "latency, µs", kind: "percentiles", series: series.slice(0, LATENCY_LINES), left_out,
          label: `Latencies of ${card.title}`};
}

const latencyPlaces = (card) => [...new Set(card.measured.flatMap((line) => line.points.filter((point) => point.latency).map((point) => point.x)))];
