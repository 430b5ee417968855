// SPDX-License-Identifier: Apache-2.0
// Problems: the list that an operator should see first. The functions have no state.
import { bytes, clock, count, duration, percent, plural } from "./figures.js";

const bad = (text) => ({ severity: "bad", text });
// The same limits as in alerts.yaml.
const NEARLY = 0.9;         // used share of a limit
const DIRTY_SHARE = 0.45;   // dirty share of the cache's lines
const DIRTY_MS = 60000;     // age of dirty data
const GC_LAG_US = 60e6;

const warning = (text) => ({ severity: "warning", text });

function ofCachedVolume(volume) {
  const found = [];
  const name = `Volume ${volume.name}`;
  if (volume.lost_bytes > 0)
    found.push(bad(`${name}: ${bytes(volume.lost_bytes)} of acknowledged writes have been in no present engine `
      + `for ${duration(volume.lost_for_ms)}`));
  if (volume.waiting > 0) found.push(warning(`${name}: ${plural(volume.waiting, "command")} waiting for cache engines`));
  if (volume.single_lines > 0)
    found.push(bad(`${name}: the loss of one more engine loses ${plural(volume.single_lines, "dirty line")} with one copy`));
  if (volume.error !== "") found.push(bad(`${name}: ${volume.error}`));
  if (volume.oldest_dirty_ms > DIRTY_MS)
    found.push(warning(`${name}: dirty data has waited for storage for ${duration(volume.oldest_dirty_ms)}`));
  return found;
}

// The target's list of engines also contains remote storage processes.
export const isEngine = (engine) => engine.state !== "storage";

function ofCache(cache) {
  if (cache === undefined) return [];
  if (cache.error !== undefined) return [bad(`Cache: ${cache.error}`)];
  const found = cache.volumes.flatMap(ofCachedVolume);
  if (cache.recovering) {
    const awaited = cache.awaited.length > 0 ? `; it waits for ${cache.awaited.join(", ")}` : "";
    found.push(bad(`The cache is recovering the contents of its engines${awaited}`));
  }
  if (cache.trouble) found.push(bad(`Writes wait: the state of the cache cannot be saved: ${cache.trouble}`));
  if (cache.away > 0) found.push(bad(`${plural(cache.away, "cache engine")} that left may return with lost data`));
  for (const engine of cache.engines) {
    if (engine.state !== "live" && isEngine(engine))
      found.push(warning(`Cache engine ${engine.identity} (${engine.peer}) is ${engine.state}`));
  }
  if (cache.dirty_lines > DIRTY_SHARE * cache.lines && cache.lines > 0)
    found.push(warning(`${percent(100 * cache.dirty_lines / cache.lines)} of the lines of the cache are dirty`));
  if (!cache.engines.some(isEngine)) found.push(warning("No cache engine has joined"));
  for (const volume of cache.absent) {
    if (volume.lost) found.push(bad(`Volume ${volume.name || volume.wwid} is not open, and some of its data is lost`));
    else if (volume.dirty_lines > 0)
      found.push(warning(`Volume ${volume.name || volume.wwid} is not open, and has ${count(volume.dirty_lines)} dirty lines`));
  }
  return found;
}

function ofEngine(engine, ping) {
  if (engine === undefined) return [];
  if (engine.error !== undefined) return [bad(`${ping.role === "rs" ? "Storage process" : "Cache engine"}: ${engine.error}`)];
  return engine.storages.filter((storage) => !storage.up)
    .map((storage) => bad(`Storage engine ${storage.address}: ${storage.error || "not connected"}`));
}

function ofPartition(partition) {
  const name = `Partition ${partition.server.partition}`;
  const found = [];
  if (!partition.server.ready) found.push(bad(`${name} does not serve clients yet`));
  if (partition.memory.log_failures > 0) found.push(bad(`${name}: ${plural(partition.memory.log_failures, "write")} of its log failed`));
  if (partition.ramp.terminations_waiting > 0)
    found.push(warning(`${name}: ${plural(partition.ramp.terminations_waiting, "transaction")} waiting for a partition that cannot be reached`));
  if (partition.server.client_ids_leased > NEARLY * partition.server.client_ids)
    found.push(warning(`${name}: ${count(partition.server.client_ids_leased)} of ${count(partition.server.client_ids)} client ids are leased`));
  if (partition.ramp.gc_lag_us > GC_LAG_US)
    found.push(warning(`${name}: old versions are collected ${duration(partition.ramp.gc_lag_us / 1000)} late`));
  return found;
}

function ofSessions(sessions) {
  if (sessions === undefined) return [];
  return ["sessions", "channels"].filter((kind) => sessions[kind] > NEARLY * sessions[`${kind}_max`])
    .map((kind) => warning(`${sessions[kind]} of ${sessions[`${kind}_max`]} ${kind} are in use`));
}

function ofVolumes(volumes) {
  if (volumes === undefined) return [];
  if (volumes.refused !== undefined) return [bad(`Volumes: ${volumes.refused}`)];
  return volumes.filter((volume) => volume.trouble !== "" || volume.state === "closed")
    .map((volume) => bad(`Volume ${volume.name}: ${volume.trouble || "closed"}`));
}

// `gone`: engines that left while the page was open, with the times. `failures`: volumes with recent errors.
// `growth`: recent growth of counters.
export function problemsOf(sample, { gone, failures, growth }) {
  const { stats } = sample;
  const found = [];
  for (const [name, part] of [["Block service", stats.block], ["Sessions", stats.sessions]]) {
    if (part?.error !== undefined) found.push(bad(`${name}: ${part.error}`));
  }
  for (const [name, part] of [["Latency", sample.latency], ["Sessions", sample.sessions.answer]]) {
    if (part?.refused !== undefined) found.push(bad(`${name}: ${part.refused}`));
  }
  found.push(...ofVolumes(sample.volumes), ...ofCache(stats.cache), ...ofEngine(stats.engine, sample.ping));
  for (const [name, { errors, since }] of failures)
    found.push(bad(`Volume ${name}: ${plural(errors, "command")} ended with an error since ${clock(since)}`));
  for (const { engine, when } of gone.values())
    found.push(warning(`Cache engine ${engine.identity} (${engine.peer}) left at ${clock(when)}`));
  found.push(...partitionsOf(stats).flatMap(ofPartition), ...ofSessions(stats.sessions), ...growth.problems());
  return [...found.filter((one) => one.severity === "bad"), ...found.filter((one) => one.severity !== "bad")];
}

export function partitionsOf(stats) {
  return stats.kv === undefined ? [] : Array.isArray(stats.kv) ? stats.kv : [stats.kv];
}
