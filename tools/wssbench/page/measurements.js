// SPDX-License-Identifier: Apache-2.0
// Everything that the commands measured, as tables and as CSV.
"use strict";

function cellText(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "number" ? short(value) : String(value);
}

// The keys of all rows, except those whose values are lists or objects.
function columnsOf(rows) {
  return [...new Set(rows.flatMap((row) => Object.keys(row).filter((key) => row[key] === null || typeof row[key] !== "object")))];
}

function table(rows) {
  const columns = columnsOf(rows);
  return element("div", {class: "scroll"}, element("table", {},
    element("thead", {}, element("tr", {}, ...columns.map((column) => element("th", {}, column)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...columns.map((column) =>
      element("td", typeof row[column] === "number" ? {class: "n"} : {}, cellText(row[column]))))))));
}

function csvLine(values) {
  return values.map((value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  }).join() + "\r\n";
}

// A line for each row of each command: its columns as in the table, and the measurements of its turns.
function measurementsCsv(figures) {
  const rows = figures.flatMap((figure) => figure.rows.map((row) => ({command: figure.command, ...row, turns_rate: row.turns?.rate?.join(" ")})));
  const columns = columnsOf(rows);
  return csvLine(columns) + rows.map((row) => csvLine(columns.map((column) => row[column]))).join("");
}

// A line for each value of each card, of the paper and ours.
function cardsCsv(cards) {
  let text = csvLine(["figure", "title", "series", "of", "x", "x value", "y", "low or median", "high", "turns"]);
  for (const card of cards) {
    const head = [card.paper_figure ?? "", card.title];
    for (const value of card.values) text += csvLine([...head, value.series, "the paper", card.x, value.x ?? "", card.y, value.low, value.high, ""]);
    for (const line of card.measured ?? [])
      for (const point of line.points) text += csvLine([...head, line.name, point.badge, card.x, point.x, card.y, point.y, "", point.turns.join(" ")]);
  }
  return text;
}

function measurementsSection(figure) {
  const node = element("details", {class: "measurements", id: figure.figure}, element("summary", {}, `wssbench ${figure.figure}: ${figure.title}`));
  if (figure.error) {
    node.append(element("p", {class: "bad"}, `Not measured: ${figure.error}`));
    node.open = true;
    return node;
  }
  node.append(element("p", {}, `Paper: ${figure.paper}. `, element("code", {}, figure.command)), element("p", {class: "note"}, figure.method));
  if (figure.interrupted) node.append(element("p", {class: "bad"}, "Interrupted: only these points were finished."));
  if (figure.ratio !== null && figure.ratio !== undefined)
    node.append(element("p", {}, `Bound ${cellText(figure.bound)}${figure.bound_means ? ` (${figure.bound_means})` : ""}, ratio ${cellText(figure.ratio)}.`));
  if (figure.doubts.length) node.append(element("ul", {class: "bad"}, ...figure.doubts.map((doubt) => element("li", {}, doubt))));
  // The tables are large, so they are made when they are opened.
  node.addEventListener("toggle", () => {
    if (node.open && node.querySelector("table") === null) node.append(...[figure.bounds ?? [], figure.rows].filter((rows) => rows.length).map(table));
  });
  return node;
}
