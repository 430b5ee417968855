// SPDX-License-Identifier: Apache-2.0
// Counters whose growth is shown as a problem for a few minutes. The time is the range of the corresponding
// Prometheus alert (tools/monitoring/alerts.yaml). Only growth since the page was opened is known.
import { clock, plural } from "./figures.js";
import { partitionsOf } from "./problems.js";

const MINUTE_MS = 60000;
const LIMITS = { refused_sessions: "sessions", refused_name_sessions: "sessions per name",
  refused_source_sessions: "sessions per source", refused_channels: "channels" };

// The counters that the program has. A growth by more than `most` in `minutes` is a problem.
function countersOf({ sessions, block, engine, tls, kv }) {
  const found = [];
  const add = (key, value, minutes, most, text) => {
    if (value !== undefined) found.push({ key, value, minutes, most, text });
  };
  for (const [field, limit] of Object.entries(LIMITS))
    add(field, sessions?.[field], 15, 0, (more) => `${plural(more, "login")} refused at the limit of ${limit}`);
  add("logins", block?.refused_logins, 15, 5, (more) => `${plural(more, "login")} failed authentication`);
  add("clients", engine?.counters?.clients_refused, 15, 5, (more) => `${plural(more, "client")} failed authentication`);
  add("tls", tls?.handshakes_failed, 15, 5, (more) => `${plural(more, "TLS handshake")} failed`);
  add("storage", engine?.counters?.storage_errors, 5, 0, (more) => `${plural(more, "operation")} of storage failed`);
  for (const { server, memory } of partitionsOf({ kv })) {
    add(`memory ${server.partition}`, memory.refused_memory, 5, 0,
      (more) => `Partition ${server.partition}: ${plural(more, "write")} refused, as memory is full`);
  }
  return found;
}

export class Growth {
  #seen = new Map(); // key -> [{more, when}], oldest first
  #counters = [];

  // `old`: statistics of the previous sample of the same process, or undefined.
  note(stats, old, now) {
    this.#counters = countersOf(stats);
    const before = new Map(old === undefined ? [] : countersOf(old).map(({ key, value }) => [key, value]));
    for (const { key, value, minutes } of this.#counters) {
      const seen = (this.#seen.get(key) ?? []).filter(({ when }) => now - when <= minutes * MINUTE_MS);
      const more = value - (before.get(key) ?? value);
      if (more > 0) seen.push({ more, when: now });
      this.#seen.set(key, seen);
    }
  }

  problems() {
    return this.#counters.flatMap(({ key, most, text }) => {
      const seen = this.#seen.get(key);
      const more = seen.reduce((sum, one) => sum + one.more, 0);
      return more > most ? [{ severity: "warning", text: `${text(more)} since ${clock(seen[0].when)}` }] : [];
    });
  }
}
