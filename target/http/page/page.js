// SPDX-License-Identifier: Apache-2.0
// The status page: shows the samples of the pollers as a headline, problems, graphs and tables.
import { bytes, bytesPerSecond, clock, count, countPerSecond, duration, microseconds, moreThan, percent, percentile,
  perSecond, plural, sumPerSecond } from "./figures.js";
import { Graph, follow, interrupt, show } from "./graphs.js";
import { Growth } from "./growth.js";
import { pollData, pollHealth } from "./poll.js";
import { isEngine, partitionsOf, problemsOf } from "./problems.js";
import { Table, fillMap, partitionColumns, sessionColumns, setText, storageColumns, volumeColumns } from "./tables.js";

const NO_ANSWER_MS = 3000;  // time without an answer after which the headline reports it
const GONE_MAX = 64;     // maximum number of engines that left
const RECENT_MS = 300000; // time after the last error during which a volume counts as a problem, as in the
                          // alert
const SHARES = [0.5, 0.99, 0.999];

const byId = (id) => document.getElementById(id);

const state = {
  health: null,         // {ready, text}
  answered: new Date(), // time of the last answer; initially the time when the page was opened
  refusal: null,        // error of the API in the last round
  dataAt: null,         // Date of the last sample
  sample: null,
  engines: new Map(),   // identity -> engine, from the last sample
  gone: new Map(),      // identity -> {engine, when}
  growth: new Growth(), // growth of counters in the last minutes
  failures: new Map(),  // volume -> {errors, since, last}: recent failures of commands
};

// The previous sample, for rates; null after a restart of the program.
function before(sample) {
  const old = state.sample;
  if (old === null || old.ping.started_ms !== sample.ping.started_ms) return null;
  return old;
}

// ---- Graphs: title, whether the program has the data (`has`), and values computed from two samples; a gauge
// needs only one.

const graphs = byId("graphs");
const LATENCIES = ["p50", "p99", "p99.9"];
const made = new Map();

const GRAPHS = [
  { title: "Throughput", series: ["read", "write"], write: bytesPerSecond, options: { baseTwo: true, least: 2 ** 20 },
    has: (s) => s.stats.volumes !== undefined,
    values: (now, old, seconds) => ["read_bytes", "written_bytes"].map((field) =>
      sumPerSecond(old.stats.volumes, now.stats.volumes, seconds, (volume) => volume[field])) },
  { title: "Operations", series: ["read", "write"], write: countPerSecond, options: { least: 10 },
    has: (s) => s.stats.volumes !== undefined,
    values: (now, old, seconds) => ["reads", "writes"].map((field) =>
      sumPerSecond(old.stats.volumes, now.stats.volumes, seconds, (volume) => volume[field])) },
  { title: "Read latency", series: LATENCIES, write: microseconds, options: { logarithmic: true },
    has: (s) => s.latency !== undefined,
    values: (now, old) => percentiles(old.latency.read?.buckets_us_pow2, now.latency.read?.buckets_us_pow2) },
  { title: "Write latency", series: LATENCIES, write: microseconds, options: { logarithmic: true },
    has: (s) => s.latency !== undefined,
    values: (now, old) => percentiles(old.latency.write?.buckets_us_pow2, now.latency.write?.buckets_us_pow2) },
  { title: "Cache hits", series: ["reads answered by engines"], write: percent, options: { most: 100 },
    has: (s) => s.stats.cache !== undefined,
    values: (now, old, seconds) => [hitRatio(old.stats.cache, now.stats.cache, seconds)] },
  { title: "Dirty and lost", gauge: true, series: ["dirty", "lost"], write: bytes, options: { baseTwo: true, least: 2 ** 20 },
    has: (s) => s.stats.cache !== undefined,
    values: ({ stats: { cache } }) => (cache.error !== undefined ? [null, null]
      : [cache.dirty_lines * cache.line_bytes, cache.volumes.reduce((sum, volume) => sum + volume.lost_bytes, 0)]) },
  { title: "To and from clients", series: ["to clients", "from clients"], write: bytesPerSecond, options: { baseTwo: true, least: 2 ** 20 },
    has: (s) => s.stats.engine !== undefined,
    values: (now, old, seconds) => engineRates(now, old, seconds, ["to_client_bytes", "from_client_bytes"]) },
  { title: "To and from targets", series: ["to targets", "from targets"], write: bytesPerSecond, options: { baseTwo: true, least: 2 ** 20 },
    has: (s) => s.stats.engine !== undefined,
    values: (now, old, seconds) => engineRates(now, old, seconds, ["to_storage_bytes", "from_storage_bytes"]) },
  { title: "To and from real storage", series: ["read", "written"], write: bytesPerSecond, options: { baseTwo: true, least: 2 ** 20 },
    has: (s) => sum(s.stats.engine?.counters ?? {}, ["storage_reads", "storage_writes"]) > 0, // a process
                                                                                              // with --role
                                                                                              // rs
    values: (now, old, seconds) => engineRates(now, old, seconds, ["storage_read_bytes", "storage_write_bytes"]) },
  { title: "Moves", series: ["done", "failed"], write: countPerSecond, options: { least: 10 },
    has: (s) => s.stats.engine !== undefined,
    values: (now, old, seconds) => engineRates(now, old, seconds, ["moves", "failed_moves"]) },
  { title: "Key-value requests", series: ["keys read", "keys read one-sidedly", "writes"], write: countPerSecond, options: { least: 10 },
    has: (s) => s.stats.kv !== undefined,
    values: (now, old, seconds) => [["get_keys"], ["one_sided_keys"], ["prepares"]].map((fields) =>
      sumPerSecond(partitionsByIndex(old.stats), partitionsByIndex(now.stats), seconds, (p) => sum(p.traffic, fields))) },
  { title: "Key-value latency", series: LATENCIES, write: microseconds, options: { logarithmic: true },
    has: (s) => s.stats.kv !== undefined,
    values: (now, old) => percentiles(kvBuckets(old.stats), kvBuckets(now.stats)) },
  { title: "Key-value memory", gauge: true, series: ["values", "index and keys"], write: bytes, options: { baseTwo: true, least: 2 ** 20 },
    has: (s) => s.stats.kv !== undefined,
    values: ({ stats }) => [["arena_used"], ["heap_used", "index_used"]].map((fields) =>
      partitionsOf(stats).reduce((total, p) => total + sum(p.memory, fields), 0)) },
];

const sum = (counters, fields) => fields.reduce((total, field) => total + counters[field], 0);

function percentiles(old, now) {
  const more = moreThan(old, now);
  return SHARES.map((share) => percentile(more, share));
}

function partitionsByIndex(stats) {
  return Object.fromEntries(partitionsOf(stats).map((partition) => [partition.server.partition, partition]));
}

function kvBuckets(stats) {
  const all = partitionsOf(stats).map((partition) => partition.latency.buckets_us_pow2);
  return all.length === 0 ? undefined : all.reduce((a, b) => a.map((value, i) => value + b[i]));
}

const byName = (list) => Object.fromEntries(list.map((item) => [item.name, item]));

function hitRatio(old, now, seconds) {
  if (old?.volumes === undefined || now.volumes === undefined) return null;
  const rate = (field) => sumPerSecond(byName(old.volumes), byName(now.volumes), seconds, (volume) => volume.counters[field]);
  const reads = rate("reads");
  return reads > 0 ? 100 * Math.min(1, rate("read_hits") / reads) : null;
}

function engineRates(now, old, seconds, fields) {
  return fields.map((field) => perSecond(old.stats.engine?.counters?.[field], now.stats.engine.counters?.[field], seconds));
}

function fillGraphs(sample, old) {
  const seconds = old === null ? 0 : (sample.at - old.at) / 1000;
  for (const graph of GRAPHS) {
    const has = graph.has(sample);
    if (has && !made.has(graph)) made.set(graph, new Graph(graphs, graph.title, graph.series, graph.write, graph.options));
    const drawn = made.get(graph);
    if (drawn === undefined) continue;
    drawn.figure.hidden = !has;
    if (has) drawn.add(old === null && !graph.gauge ? graph.series.map(() => null) : graph.values(sample, old, seconds));
  }
}

// ---- Sections

const volumes = new Table(byId("volumes"), volumeColumns, (volume) => volume.wwid);
const sessions = new Table(byId("sessions"), sessionColumns, (session) => session.initiator + session.target);
const partitions = new Table(byId("partitions"), partitionColumns, (partition) => partition.server.partition);
const storages = new Table(byId("storages"), storageColumns, (storage) => storage.address);

function fillVolumes(sample, old) {
  const list = sample.volumes;
  byId("volumes-section").hidden = !Array.isArray(list);
  if (byId("volumes-section").hidden) return;
  const seconds = old === null ? 0 : (sample.at - old.at) / 1000;
  const cached = byName(sample.stats.cache?.volumes ?? []);
  const items = list.map((volume) => {
    const counters = sample.stats.volumes?.[volume.name], earlier = old?.stats.volumes?.[volume.name];
    const rate = (field) => perSecond(earlier?.[field], counters?.[field], seconds);
    return { ...volume, counters, cached: cached[volume.name], lineBytes: sample.stats.cache?.line_bytes,
      failure: state.failures.get(volume.name),
      rates: { reads: rate("reads"), readBytes: rate("read_bytes"), writes: rate("writes"), writtenBytes: rate("written_bytes") } };
  });
  const failing = (volume) => volume.trouble !== "" || volume.state !== "live" || volume.cached?.lost_bytes > 0
    || volume.failure !== undefined;
  volumes.fill([...items.filter(failing), ...items.filter((volume) => !failing(volume))], "wssctl volume list");
}

function noteErrors(sample, old) {
  const now = new Date();
  for (const [name, counters] of Object.entries(sample.stats.volumes ?? {})) {
    const more = counters.errors - (old?.stats.volumes?.[name]?.errors ?? counters.errors);
    const failure = state.failures.get(name) ?? { errors: 0, since: now };
    if (more > 0) state.failures.set(name, { ...failure, errors: failure.errors + more, last: now });
  }
  for (const [name, failure] of state.failures) {
    if (now - failure.last > RECENT_MS || !(name in (sample.stats.volumes ?? {}))) state.failures.delete(name);
  }
}

let sessionsBefore = null, sessionsNow = null;

function fillSessions(sample) {
  const answer = sample.sessions.answer;
  byId("sessions-section").hidden = answer?.sessions === undefined;
  if (byId("sessions-section").hidden) return;
  if (sessionsNow !== sample.sessions) [sessionsBefore, sessionsNow] = [sessionsNow, sample.sessions];
  const seconds = sessionsBefore === null ? 0 : (sessionsNow.at - sessionsBefore.at) / 1000;
  const key = (session) => session.initiator + session.target;
  const old = new Map(sessionsBefore?.answer?.sessions?.map((session) => [key(session), session.counters]));
  sessions.fill(answer.sessions.map((session) => {
    const rate = (field) => perSecond(old.get(key(session))?.[field], session.counters[field], seconds);
    return { ...session, rates: { readBytes: rate("read_bytes"), writtenBytes: rate("written_bytes") } };
  }), "wssctl session list");
}

function fillPartitions(sample, old) {
  const list = partitionsOf(sample.stats);
  byId("partitions-section").hidden = list.length === 0;
  const seconds = old === null ? 0 : (sample.at - old.at) / 1000;
  const earlier = old === null ? {} : partitionsByIndex(old.stats);
  partitions.fill(list.map((partition) => {
    const traffic = earlier[partition.server.partition]?.traffic;
    const rate = (field) => perSecond(traffic?.[field], partition.traffic[field], seconds);
    return { ...partition, rates: { gets: rate("gets"), oneSided: rate("one_sided_keys"), writes: rate("prepares") } };
  }), "kvctl info");
}

function fillStorages(sample) {
  const list = sample.stats.engine?.storages;
  byId("storages-section").hidden = list === undefined;
  if (list !== undefined) storages.fill(list, "wssctl engine status");
}

// ---- Cache engines. The program does not report engines that left. The page shows at most GONE_MAX of them.
// Each is shown until it returns, the operator dismisses it, or the page is closed.

function noteEngines(cache) {
  const now = new Map(cache.engines.map((engine) => [engine.identity, engine]));
  for (const [identity, engine] of state.engines) {
    if (!now.has(identity) && state.gone.size < GONE_MAX) state.gone.set(identity, { engine, when: new Date() });
  }
  for (const identity of now.keys()) state.gone.delete(identity);
  state.engines = now;
}

function fillEngines(sample, old) {
  const cache = sample.stats.cache;
  byId("engines-section").hidden = cache === undefined;
  if (cache?.engines === undefined) return;
  noteEngines(cache);
  const seconds = old === null ? 0 : (sample.at - old.at) / 1000;
  const earlier = new Map(old?.stats.cache?.engines?.map((engine) => [engine.identity, engine]));
  const items = cache.engines.map((engine) => ({ engine, lineBytes: cache.line_bytes, gone: null, share: 0,
    served: perSecond(earlier.get(engine.identity)?.bytes_to_clients, engine.bytes_to_clients, seconds) }));
  const all = items.reduce((total, item) => total + item.served, 0);
  if (all > 0) items.forEach((item) => { item.share = item.served / all; });
  const gone = Array.from(state.gone.values(), ({ engine, when }) =>
    ({ engine, lineBytes: cache.line_bytes, gone: when, share: 0, served: null }));
  fillMap(byId("engines"), [...gone, ...items], (identity) => {
    state.gone.delete(identity);
    fillEngines(sample, old);
    showHealth();
  });
  setText(byId("cache-summary"), `${plural(cache.engines.filter(isEngine).length, "engine")}, `
    + `${bytes(cache.used_lines * cache.line_bytes)} of ${bytes(cache.lines * cache.line_bytes)} used, `
    + `${bytes(cache.dirty_lines * cache.line_bytes)} dirty. The deeper the colour, the larger the engine's share of all reads.`);
}

// ---- Health

function headlineOf(problems) {
  const now = Date.now();
  if (now - state.answered > NO_ANSWER_MS) return ["bad", `No answer since ${clock(state.answered)}`];
  if (state.health !== null && !state.health.ready) return ["bad", "Not ready"];
  if (problems.length > 0) {
    const worst = problems.some((one) => one.severity === "bad") ? "bad" : "warning";
    return [worst, problems.length === 1 ? "Serving, with a problem" : `Serving, with ${problems.length} problems`];
  }
  return state.health === null ? ["unknown", "Connecting"] : ["good", "Serving"];
}

function allProblems() {
  const found = [];
  if (state.health !== null && !state.health.ready) found.push({ severity: "bad", text: state.health.text });
  if (state.refusal !== null) found.push({ severity: "bad", text: `The API refuses: ${state.refusal}` });
  else if (state.dataAt !== null && state.answered - state.dataAt > 2 * NO_ANSWER_MS)
    found.push({ severity: "bad", text: `The counters are those of ${clock(state.dataAt)}: threads of the program do not answer` });
  return state.sample === null ? found : [...found, ...problemsOf(state.sample, state)];
}

function showHealth() {
  const problems = allProblems();
  const [severity, headline] = headlineOf(problems);
  byId("health").dataset.severity = severity;
  setText(byId("headline"), headline);
  const texts = problems.map((one) => one.severity + one.text).join("\n");
  const list = byId("problems");
  if (list.dataset.texts !== texts) {
    list.dataset.texts = texts;
    list.replaceChildren(...problems.map((one) => {
      const item = document.createElement("li");
      item.dataset.severity = one.severity;
      item.textContent = one.text;
      return item;
    }));
  }
  // This text is not in the headline, because screen readers read the headline aloud at each change.
  if (headline.startsWith("No answer since")) setText(byId("program"), `${location.host}: the last answer came ${duration(Date.now() - state.answered)} ago`);
  const stale = headline.startsWith("No answer") || (state.dataAt !== null && Date.now() - state.dataAt > 2 * NO_ANSWER_MS);
  byId("data").classList.toggle("stale", stale);
  document.title = `${severity === "good" ? "" : `${headline} – `}WSS ${location.host}`;
}

function showProgram({ ping }) {
  const role = ping.role === undefined ? "" : `, role ${ping.role},`;
  setText(byId("program"), `${ping.program} ${ping.version}${role} at ${location.host}, running for ${duration(ping.uptime_ms)}`);
}

// ---- Start

pollHealth((ready, text) => {
  Object.assign(state, { health: { ready, text }, answered: new Date() });
  showHealth();
}, interrupt);

pollData((sample) => {
  const old = before(sample);
  if (old === null) interrupt();
  byId("data").hidden = false;
  Object.assign(state, { answered: new Date(), dataAt: new Date(), refusal: null });
  fillGraphs(sample, old);
  fillEngines(sample, old);
  noteErrors(sample, old);
  state.growth.note(sample.stats, old?.stats, new Date());
  fillVolumes(sample, old);
  fillPartitions(sample, old);
  fillStorages(sample);
  fillSessions(sample);
  state.sample = sample;
  showProgram(sample);
  setText(byId("updated"), `Counters of ${clock(state.dataAt)}`);
  showHealth();
}, (why) => {
  state.refusal = why;
  interrupt();
  showHealth();
}, interrupt);

setInterval(() => { if (document.visibilityState === "visible") showHealth(); }, 1000);

document.addEventListener("visibilitychange", () => {
  // A hidden page does not poll, so it must not report missing answers as the program's fault.
  if (document.visibilityState === "visible") state.answered = new Date();
  else interrupt();
});

for (const button of document.querySelectorAll(".windows button")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll(".windows button")) other.setAttribute("aria-pressed", String(other === button));
    show(Number(button.dataset.minutes));
  });
}

follow(graphs);
