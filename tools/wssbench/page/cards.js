// SPDX-License-Identifier: Apache-2.0
// The section of a card: verdict, charts, claims, values. Text is inserted as text, never as markup.
"use strict";

function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children.filter((child) => child !== null));
  return node;
}

const anchorOf = (name) => name.replaceAll(" ", "-");

function legend(series) {
  return element("ul", {class: "legend"}, ...series.map((one, number) => {
    const swatch = svg("svg", {viewBox: "0 0 14 14", width: 14, height: 14, "aria-hidden": "true"});
    const d = one.paper ? (one.across ? "M0,7H14" : CROSS(7, 7)) : MARKS[one.bar ? 1 : number % MARKS.length](7, 7);
    swatch.append(svg("path", one.paper ? {d, class: one.across ? "paper across" : "paper"} : {d, fill: one.colour}));
    return element("li", {}, swatch, one.name);
  }));
}

function figureOf(chart, width) {
  const draw = chart.model.kind === "bars" ? barChart : lineChart;
  const series = chart.model.kind === "bars" ? chart.model.series.map((one) => ({...one, bar: !one.paper})) : chart.model.series;
  return element("figure", {}, chart.title ? element("figcaption", {}, chart.title) : null, draw(chart.model, width), legend(series));
}

function stackFigure(stack, width) {
  const names = [...new Set(stack.bars.flatMap((bar) => bar.parts.map((part) => part.name)))];
  const colours = new Map(names.map((name, number) => [name, COLOURS[number % COLOURS.length]]));
  const series = names.map((name) => ({name, colour: colours.get(name), bar: true}));
  const shares = choices.unit === "share";
  const bars = shares ? stack.bars.map((bar) => {
    const total = bar.parts.reduce((sum, part) => sum + part.y, 0);
    return {...bar, parts: bar.parts.map((part) => ({...part, y: 100 * part.y / total}))};
  }) : stack.bars;
  return element("figure", {class: "stack"}, stackChart(bars, shares ? "%" : stack.unit, colours, width), legend(series));
}

function latencyFigure(card, width) {
  const places = latencyPlaces(card);
  if (places.length === 0) return null;
  const select = element("select", {name: "place", "aria-label": "place"}, ...places.map((place) => element("option", {value: String(place)}, xText(card)(place))));
  const node = element("figure", {class: "latency"});
  const draw = () => {
    const shown = latencyModel(card, places[select.selectedIndex]);
    node.replaceChildren(element("figcaption", {}, `Latencies, ${card.x} `, select, element("span", {class: "on-paper"}, xText(card)(places[select.selectedIndex])),
      shown.left_out ? ` (${shown.left_out} more lines: choose a fabric or a method)` : ""));
    if (shown.series.length > 0) node.append(lineChart(shown, width), legend(shown.series));
  };
  select.selectedIndex = places.length - 1;
  select.addEventListener("change", draw);
  draw();
  return node;
}

function drawCharts(card, box) {
  const width = Math.max(280, Math.min(box.clientWidth, 860));
  const charts = [];
  if (card.stack) charts.push(stackFigure(card.stack, width));
  if (card.draw !== "stack") {
    const drawn = chartsOf(card).map((chart) => figureOf(chart, width));
    charts.push(...drawn.length ? drawn : [element("p", {class: "note"}, `No value of this figure fits the choice above (${choices.fabric}, ${choices.method}, ${choices.unit}).`)]);
    charts.push(latencyFigure(card, width));
  }
  box.replaceChildren(...charts.filter((one) => one !== null));
}

const interval = (claim) => `${short(claim.ratio)} (${short(claim.low)} to ${short(claim.high)})`;

function claimsList(claims) {
  return element("ul", {class: "claims"}, ...claims.map((claim) => element("li", {},
    element("b", {class: claim.status.replace(" ", "-")}, claim.status), ` ${claim.says}${claim.here ? `, ${claim.here}` : ""}: ratio ${interval(claim)}`,
    claim.paper ? `, the paper ${claim.paper}` : "", `; ${claim.badge}`, claim.reason ? `; ${claim.reason}` : "")));
}

// Makes a row for each series, and a column for each place of the x axis.
function valuesTable(card) {
  const series = [...papersSeries(card), ...card.measured.map((line) => ({name: line.name, points: line.points}))];
  const columns = placesOf(series);
  if (columns.every((one) => typeof one === "number")) columns.sort((a, b) => a - b);
  const any = series.some((one) => one.across);
  const head = element("tr", {}, element("th", {}, card.y), ...(any ? [element("th", {}, "any")] : []), ...columns.map((x) => element("th", {}, xText(card)(x))));
  const rows = series.map((one) => {
    const at = (x) => one.points.filter((point) => one.across ? x === null : point.x === x).map((point) => short(point.y)).join(" to ");
    return element("tr", {}, element("th", {}, one.name), ...(any ? [element("td", {}, at(null))] : []), ...columns.map((x) => element("td", {}, at(x))));
  });
  return element("div", {class: "scroll"}, element("table", {class: "values"}, element("caption", {}, `Medians by ${card.x}`), element("thead", {}, head), element("tbody", {}, ...rows)));
}

function cardSection(card) {
  const id = card.paper_figure, section = element("section", {class: card.not_measured ? "card empty" : "card", ...(id ? {id: anchorOf(id)} : {})});
  section.append(element("h3", {}, id ? `${id}: ${card.title}` : card.title));
  if (id) section.append(element("p", {class: "verdict"}, card.verdict));
  if (card.quoted) section.append(element("p", {class: "note"}, `The paper: ${card.quoted}.${card.parameters.paper ? ` Measured with ${card.parameters.paper}.` : ""}`));
  if (card.not_measured) return section;
  section.append(element("p", {class: "note"}, "Here: ", element("code", {}, card.command), `; ${card.parameters.here}`));
  if (id) section.append(element("p", {class: "note"}, `Why different: ${card.why_different[0]}`, element("br"), card.why_different[1]));
  const box = element("div", {class: "charts"});
  section.append(box);
  if (card.claims.length) section.append(claimsList(card.claims));
  section.append(valuesTable(card));
  section.draw = () => drawCharts(card, box);
  return section;
}
