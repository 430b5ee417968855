// SPDX-License-Identifier: Apache-2.0
// Figures: rates and percentiles from counters, and their text format. The functions have no state. null
// means "unknown": it is drawn as a gap and written as a dash.

// Change of a counter per second. It is unknown if the counter is new or went backwards.
export function perSecond(before, after, seconds) {
  if (before === undefined || after === undefined || after < before || !(seconds > 0)) return null;
  return (after - before) / seconds;
}

// Sum of the changes per second over all members of an object. A new member adds nothing in its first
// interval, nor does one that replaced another of the same name.
export function sumPerSecond(before, after, seconds, pick) {
  if (before === undefined || after === undefined) return null;
  let sum = 0;
  for (const [key, value] of Object.entries(after)) {
    const old = before[key];
    if (old !== undefined) sum += perSecond(pick(old), pick(value), seconds) ?? 0;
  }
  return sum;
}

// The difference of two histograms. It is null if nothing was added, or if a bucket went backwards.
export function moreThan(before, after) {
  if (before === undefined || after === undefined) return null;
  const more = after.map((count, i) => count - (before[i] ?? 0));
  return more.some((count) => count < 0) || !more.some((count) => count > 0) ? null : more;
}

// The percentile `share`, in microseconds. Bucket i counts the values below 2^i µs that no smaller bucket
// counts. Values are assumed to be spread evenly within a bucket, as in Prometheus.
export function percentile(buckets, share) {
  if (buckets === null) return null;
  let rest = share * buckets.reduce((sum, count) => sum + count, 0);
  for (let i = 0; i < buckets.length; ++i) {
    const low = i === 0 ? 0 : 2 ** (i - 1);
    if (rest <= buckets[i] && buckets[i] > 0) return low + (2 ** i - low) * (rest / buckets[i]);
    rest -= buckets[i];
  }
  return null;
}

function scaled(value, step, units) {
  let unit = 0;
  while (value >= step * 0.9995 && unit + 1 < units.length) {
    value /= step;
    ++unit;
  }
  const digits = value >= 99.95 || Number.isInteger(value) ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)}${units[unit] === "" ? "" : "\u202f"}${units[unit]}`;
}

const dash = (write) => (value) => (value === null || value === undefined ? "–" : write(value));

export const bytes = dash((value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]));
export const bytesPerSecond = dash((value) => `${bytes(value)}/s`);
export const count = dash((value) => scaled(Math.round(value), 1000, ["", "k", "M", "G", "T"]));
export const countPerSecond = dash((value) => `${count(value)}/s`);
export const percent = dash((value) => `${value.toFixed(value > 0 && value < 9.95 ? 1 : 0)}\u202f%`);
export const microseconds = dash((value) => (value < 1 ? "<\u202f1\u202fµs" : scaled(value, 1000, ["µs", "ms", "s"])));

export const duration = dash((ms) => {
  const seconds = Math.floor(ms / 1000);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([length]) => seconds >= length);
  if (first < 0) return "0\u202fs";
  return parts.slice(first, first + 2)
    .map(([length, unit], i) => [Math.floor(i === 0 ? seconds / length : seconds % parts[first][0] / length), unit])
    .filter(([value], i) => i === 0 || value > 0)
    .map(([value, unit]) => `${value}\u202f${unit}`).join(" ");
});

export function plural(number, noun) {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

// "20:15:03", as in logs, in the time zone of the browser.
export function clock(date) {
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}
