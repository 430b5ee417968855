// SPDX-License-Identifier: Apache-2.0
// Builds the page from the embedded data: {made, remarks, machine, versions, cards, figures}.
"use strict";

const PAPERS = {A: "A: RAMP transactions over RDMA (Murata, Kawashima, Tatebe)", B: "B: remote I/O over RDMA (Katō, Ozawa, Gōda, Kitsuregawa)",
                C: "C: remote I/O in a parallel DBMS (Katō, Ozawa, Gōda, Kitsuregawa)", D: "D: Wire Speed Storage (Watanabe, Ōe, Nishikawa)"};

const wordOf = (card) => card.not_measured ? "not measured" : card.verdict.split(":")[0];

function contents(cards) {
  const nav = element("nav", {"aria-label": "Contents"});
  for (const [letter, title] of Object.entries(PAPERS)) {
    const its = cards.filter((card) => card.paper_figure?.startsWith(letter));
    nav.append(element("h3", {}, title), element("ul", {}, ...its.map((card) => element("li", {},
      element("a", {href: `#${anchorOf(card.paper_figure)}`}, card.paper_figure), ` ${card.title} `,
      element("span", {class: `word ${wordOf(card).replaceAll(" ", "-")}`}, wordOf(card))))));
  }
  return nav;
}

function choice(label, key, options, redraw) {
  const select = element("select", {id: `choice-${key}`}, ...options.map((one) => element("option", {value: one}, one)));
  select.addEventListener("change", () => {
    choices[key] = select.value;
    redraw();
  });
  return element("label", {}, `${label} `, select);
}

function switches(cards, redraw) {
  const lines = cards.flatMap((card) => card.measured ?? []);
  const some = (values) => ["all", ...new Set(values.filter((value) => value !== undefined && value !== "" && value !== "local"))];
  const units = new Set(lines.flatMap((line) => line.points.flatMap((point) => Object.keys(point.in ?? {}))));
  return element("form", {class: "switches", "aria-label": "What the charts show"},
    choice("Fabric", "fabric", some(lines.map(fabricOf)), redraw), choice("Method", "method", some(lines.map((line) => line.labels.method)), redraw),
    choice("Unit", "unit", [OWN_UNIT, ...units, ...(cards.some((card) => card.stack) ? ["share"] : [])], redraw));
}

function download(name, type, text) {
  return element("a", {download: name, href: URL.createObjectURL(new Blob([text], {type}))}, name);
}

function build(data) {
  const main = document.querySelector("main"), sections = data.cards.map(cardSection);
  const redraw = () => sections.forEach((section) => section.draw?.());
  const paper = (letter) => sections.filter((_, index) => (data.cards[index].paper_figure ?? "-").startsWith(letter));
  document.querySelector("#made").textContent = data.made;
  document.querySelector("#remarks").append(...data.remarks.map((remark) => element("li", {}, remark)));
  document.querySelector("#machine").append(table([data.machine]), table([data.versions]));
  document.querySelector("#downloads").append("Data: ", download("cards.csv", "text/csv", cardsCsv(data.cards)), " · ",
    download("measurements.csv", "text/csv", measurementsCsv(data.figures)), " · ", download("results.json", "application/json", JSON.stringify(data.cards, null, 1)),
    " · ", download("figures.json", "application/json", JSON.stringify(data.figures, null, 1)));
  main.append(contents(data.cards), switches(data.cards, redraw));
  for (const [letter, title] of Object.entries(PAPERS)) main.append(element("h2", {}, title), ...paper(letter));
  if (paper("-").length) main.append(element("h2", {}, "What the papers leave open"), ...paper("-"));
  main.append(element("h2", {class: "screen"}, "All measurements by command"), ...data.figures.map(measurementsSection));
  redraw();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width !== innerWidth) redraw();
    width = innerWidth;
  });
}

build(JSON.parse(document.querySelector("#data").textContent));
