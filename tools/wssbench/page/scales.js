// SPDX-License-Identifier: Apache-2.0
// Scales convert values to pixels and have ticks. Also converts numbers to text.
"use strict";

// Three significant digits, with k, M or G from ten thousand on.
function short(value) {
  const size = Math.abs(value);
  for (const [factor, suffix] of [[1e9, " G"], [1e6, " M"], [1e4, " k"]])
    if (size >= factor) return Number((value / (factor === 1e4 ? 1e3 : factor)).toPrecision(3)) + suffix;
  return String(Number(value.toPrecision(size >= 1000 ? 4 : 3)));
}

function bytesText(value) {
  for (const [factor, suffix] of [[1048576, " MiB"], [1024, " KiB"]])
    if (value >= factor && value % factor === 0) return value / factor + suffix;
  return String(value);
}

// Round values from `low` to `high`, about `count` of them.
function roundTicks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
  const ticks = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step / 1e6; at += step) ticks.push(Number(at.toPrecision(12)));
  return ticks;
}

// A scale from zero to a round value above `high`.
function linear(high, from, to) {
  const ticks = roundTicks(0, high > 0 ? high * 1.05 : 1, 5);
  const top = Math.max(ticks[ticks.length - 1], high * 1.05 || 1);
  return {at: (value) => from + (to - from) * value / top, ticks, base: from};
}

function logarithmic(low, high, from, to, base = 10) {
  const log = (value) => Math.log(value) / Math.log(base);
  const first = Math.floor(log(low) + 1e-9), last = Math.max(Math.ceil(log(high) - 1e-9), first + 1);
  const step = Math.max(1, Math.ceil((last - first) / 8)), ticks = [];
  for (let power = first; power <= last; power += step) ticks.push(base ** power);
  return {at: (value) => from + (to - from) * (log(value) - first) / (last - first), ticks, base: from};
}

// A logarithmic x axis. Its ticks are the measured places, as far as there is room for their labels.
function places(values, from, to) {
  const low = Math.min(...values), high = Math.max(...values), wide = low > 0 && high / low > 20;
  const map = wide ? Math.log : (value) => value, span = map(high) - map(low) || 1;
  const at = (value) => from + 14 + (to - from - 28) * (map(value) - map(low)) / span;
  const ticks = [];
  for (const value of [...values].sort((a, b) => a - b))
    if (ticks.length === 0 || at(value) - at(ticks[ticks.length - 1]) > 44) ticks.push(value);
  return {at, ticks};
}

// A scale for names, each in a band of the axis.
function bands(names, from, to) {
  const width = (to - from) / Math.max(names.length, 1);
  return {at: (name) => from + width * (names.indexOf(name) + 0.5), ticks: names, width};
}

// Percentiles by the share that exceeds them: 90, 99 and 99.9 % have equal distances.
function percentiles(highest, from, to) {
  const place = (percent) => Math.log10(100 / (100 - percent)), end = place(highest);
  return {at: (percent) => from + (to - from) * place(percent) / end,
          ticks: [0, 50, 90, 99, 99.9, 99.99].filter((percent) => percent <= highest)};
}
