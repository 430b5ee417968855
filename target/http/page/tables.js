// SPDX-License-Identifier: Apache-2.0
// Tables and the map of cache engines. Rows keep their nodes from round to round, so that text can be
// selected and read aloud. All strings are set as textContent, because they may come from other parties.
import { bytes, bytesPerSecond, clock, count, countPerSecond, percent, plural } from "./figures.js";

const ROWS_MAX = 100; // for more (up to 1024 sessions) use wssctl

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function add(parent, tag, name = "") {
  const made = parent.appendChild(document.createElement(tag));
  if (name !== "") made.className = name;
  return made;
}

// Makes the children of `parent` match `items`, in order. Creates one child per key and reuses it.
function keep(parent, items, keyOf, make, fill) {
  const old = new Map(Array.from(parent.children, (child) => [child.dataset.key, child]));
  items.forEach((item, i) => {
    const key = String(keyOf(item));
    let child = old.get(key);
    old.delete(key);
    if (child === undefined) {
      child = make(item);
      child.dataset.key = key;
    }
    if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null);
    fill(child, item);
  });
  for (const child of old.values()) child.remove();
}

// A column: {title, text(item), kind}. `text(item)` is a string, or {severity, text}. `kind` is the class of
// the cells; cells of class "number" are right-aligned.
export class Table {
  constructor(table, columns, keyOf) {
    this.columns = columns;
    this.keyOf = keyOf;
    // Set roles explicitly: narrow windows show rows as cards (page.css), where tags lose their roles.
    table.setAttribute("role", "table");
    const head = add(add(table, "thead"), "tr");
    for (const part of [head.parentNode]) part.setAttribute("role", "rowgroup");
    head.setAttribute("role", "row");
    for (const column of columns) {
      const cell = add(head, "th", column.kind ?? "");
      cell.scope = "col";
      cell.setAttribute("role", "columnheader");
      cell.textContent = column.title;
    }
    this.body = add(table, "tbody");
    this.body.setAttribute("role", "rowgroup");
    this.rest = add(add(table, "tfoot").appendChild(document.createElement("tr")), "td");
    this.rest.colSpan = columns.length;
  }

  fill(items, help) {
    keep(this.body, items.slice(0, ROWS_MAX), this.keyOf, () => this.makeRow(), (row, item) => this.fillRow(row, item));
    const hidden = items.length - ROWS_MAX;
    setText(this.rest, items.length === 0 ? "None" : hidden > 0 ? `${count(hidden)} more: ${help}` : "");
  }

  makeRow() {
    const row = document.createElement("tr");
    row.setAttribute("role", "row");
    this.columns.forEach((column, i) => {
      const cell = add(row, i === 0 ? "th" : "td", column.kind ?? "");
      if (i === 0) cell.scope = "row";
      cell.setAttribute("role", i === 0 ? "rowheader" : "cell");
      cell.dataset.title = column.title;
    });
    return row;
  }

  fillRow(row, item) {
    this.columns.forEach((column, i) => {
      const value = column.text(item);
      setText(row.children[i], typeof value === "string" ? value : value.text);
      if (typeof value !== "string") row.children[i].dataset.severity = value.severity;
    });
  }
}

const number = (title, text) => ({ title, text, kind: "number" });

function stateOf(volume) {
  if (volume.trouble !== "") return { severity: "bad", text: `${volume.state}: ${volume.trouble}` };
  if (volume.state !== "live") return { severity: volume.state === "closed" ? "bad" : "warning", text: volume.state };
  if (volume.cached?.lost_bytes > 0) return { severity: "bad", text: `live, ${bytes(volume.cached.lost_bytes)} lost` };
  if (volume.failure !== undefined) return { severity: "bad", text: `live, ${plural(volume.failure.errors, "error")}` };
  if (volume.cached?.frozen) return { severity: "warning", text: "live, frozen" };
  if (volume.cached?.error) return { severity: "warning", text: `live, ${volume.cached.error}` };
  return { severity: "good", text: volume.read_only ? "live, read-only" : "live" };
}

// Items are volumes of volume.list, each with {rates, cached, lineBytes, failure}.
export const volumeColumns = [
  { title: "Volume", text: (v) => v.name, kind: "name" },
  { title: "State", text: stateOf, kind: "state" },
  number("Size", (v) => bytes(v.size)),
  number("Reads", (v) => countPerSecond(v.rates.reads)),
  number("Read", (v) => bytesPerSecond(v.rates.readBytes)),
  number("Writes", (v) => countPerSecond(v.rates.writes)),
  number("Written", (v) => bytesPerSecond(v.rates.writtenBytes)),
  number("Errors", (v) => count(v.counters?.errors)),
  { title: "Cache", text: (v) => (v.cached === undefined ? "–" : v.cached.policy + (v.cached.unsafe ? ", unsafe" : "")) },
  number("Dirty", (v) => (v.cached === undefined ? "–" : bytes(v.cached.dirty_lines * v.lineBytes))),
  { title: "Storage", text: (v) => v.backend, kind: "long" },
];

// Items are sessions of session.list, each with {rates}.
export const sessionColumns = [
  { title: "Initiator", text: (s) => s.name || s.initiator, kind: "name" },
  { title: "Address", text: (s) => s.peers.slice(0, 2).join(", ") + (s.peers.length > 2 ? ", …" : ""), kind: "long" },
  { title: "Kind", text: (s) => `${s.kind === "wss" ? "WSS" : "stock SRP"}, ${s.fabric}${s.authenticated ? ", authenticated" : ""}` },
  number("Channels", (s) => count(s.channels)),
  number("Read", (s) => bytesPerSecond(s.rates.readBytes)),
  number("Written", (s) => bytesPerSecond(s.rates.writtenBytes)),
  number("Errors", (s) => count(s.counters.errors)),
];

// Items are partitions of stats.kv, each with {rates}.
export const partitionColumns = [
  { title: "Partition", text: (p) => `${p.server.partition} of ${p.server.partitions}` },
  { title: "State", text: (p) => (p.server.ready ? { severity: "good", text: "serving" } : { severity: "bad", text: "not ready" }), kind: "state" },
  { title: "Durability", text: (p) => p.server.durability },
  number("Keys", (p) => count(p.memory.keys)),
  number("Memory", (p) => `${bytes(p.memory.arena_used)} of ${bytes(p.memory.arena_bytes)}`),
  number("Gets", (p) => countPerSecond(p.rates.gets)),
  number("One-sided", (p) => countPerSecond(p.rates.oneSided)),
  number("Writes", (p) => countPerSecond(p.rates.writes)),
  number("Refused", (p) => count(p.traffic.refused)),
  number("Prepared", (p) => count(p.ramp.prepared)),
  number("Connections", (p) => count(p.traffic.connections)),
];

// Items are storage engines of engine.status.
export const storageColumns = [
  { title: "Address", text: (s) => s.address, kind: "name" },
  { title: "State", text: (s) => (s.up ? { severity: "good", text: "connected" } : { severity: "bad", text: s.error || "not connected" }), kind: "state" },
  number("Memory used", (s) => s.lines === 0 ? "–" : `${bytes(s.used_lines * s.line_bytes)} of ${bytes(s.lines * s.line_bytes)}`),
  number("Lines", (s) => count(s.used_lines)),
  number("Clients", (s) => count(s.clients)),
];

function makeTile() {
  const tile = document.createElement("li");
  const head = add(tile, "div", "head");
  add(head, "strong");
  add(head, "span", "state");
  add(tile, "code", "peer");
  const bar = add(tile, "div", "bar");
  bar.setAttribute("aria-hidden", "true");
  add(bar, "div");
  add(tile, "p", "used");
  add(tile, "p", "served");
  const dismiss = add(tile, "button");
  dismiss.type = "button";
  dismiss.textContent = "Dismiss";
  return tile;
}

// `items`: {engine, lineBytes, served (bytes per second), share (of the bytes of all engines), gone}.
export function fillMap(list, items, dismissed) {
  keep(list, items, (item) => item.engine.identity, makeTile, (tile, { engine, lineBytes, served, share, gone }) => {
    const used = engine.lines > 0 ? engine.used_lines / engine.lines : 0;
    const storage = engine.state === "storage";
    const severity = gone ? "warning" : engine.state === "live" || storage ? "good" : "warning";
    tile.dataset.severity = severity;
    tile.classList.toggle("gone", gone !== null);
    tile.style.setProperty("--heat", String(gone ? 0 : share ?? 0));
    tile.querySelector(".bar > div").style.width = `${Math.round(used * 100)}%`;
    setText(tile.querySelector("strong"), `${storage ? "Real storage" : "Engine"} ${engine.index}`);
    setText(tile.querySelector(".state"), gone ? `left at ${clock(gone)}` : engine.state);
    setText(tile.querySelector(".peer"), engine.peer);
    tile.title = `identity ${engine.identity}, ${engine.addresses.join(", ")}`;
    setText(tile.querySelector(".used"), storage ? "" : `${bytes(engine.used_lines * lineBytes)} of ${bytes(engine.lines * lineBytes)} used`
      + (engine.dirty_lines > 0 ? `, ${bytes(engine.dirty_lines * lineBytes)} dirty` : ""));
    setText(tile.querySelector(".served"), storage || gone ? ""
      : `${bytesPerSecond(served)} to clients${share > 0 ? `, ${percent(100 * share)} of all` : ""}`);
    const button = tile.querySelector("button");
    button.hidden = !gone;
    button.onclick = () => dismissed(engine.identity);
  });
}
