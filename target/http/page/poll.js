// SPDX-License-Identifier: Apache-2.0
// Polling: two loops, one for health and one for everything else, because the program reports its health even
// while its counters wait for a thread that does not respond.
//
// A loop has at most one open request, begins a round once a second, and pauses while the page is hidden. So
// ten pages use 20 connections. A program serves 48 (target/http/server.h).

const ROUND_MS = 1000;
const HEALTH_MAX_MS = 10000; // the program needs less than a second
const DATA_MAX_MS = 30000;   // the program waits up to 5 s for each of its threads
const SLOW_ROUNDS = 5;       // long lists are fetched only in every fifth round

// An error response of the program.
export class Refusal extends Error {}

async function get(address, limit, read) {
  const stop = AbortSignal.timeout(limit);
  const answer = await fetch(address, { signal: stop, cache: "no-store", credentials: "same-origin", redirect: "error" });
  return read(answer);
}

const getJson = (method) => get(`api/v1/${method}`, DATA_MAX_MS, async (answer) => {
  const value = await answer.json();
  if (!answer.ok) throw new Refusal(value?.error?.message ?? `HTTP status ${answer.status}`);
  return value;
});

function whenVisible() {
  if (document.visibilityState === "visible") return Promise.resolve();
  return new Promise((resolve) => document.addEventListener("visibilitychange", function changed() {
    if (document.visibilityState !== "visible") return;
    document.removeEventListener("visibilitychange", changed);
    resolve();
  }));
}

async function forever(round) {
  for (;;) {
    await whenVisible();
    const begin = performance.now();
    try {
      (await round())();
    } catch (error) {
      console.error(error); // an error in the page itself: continue
    }
    await new Promise((resolve) => setTimeout(resolve, Math.max(100, ROUND_MS - (performance.now() - begin))));
  }
}

// Calls `answered(ready, text)` after each answer of /readyz, `unanswered()` after a request without one.
export function pollHealth(answered, unanswered) {
  return forever(async () => {
    try {
      return await get("readyz", HEALTH_MAX_MS, async (answer) => {
        const text = (await answer.text()).trim();
        return () => answered(answer.status === 200, text);
      });
    } catch {
      return unanswered;
    }
  });
}

// Returns the answer of a method, if the program has the method. After an error it returns {refused: why}, so
// that the page can show the other parts.
async function part(methods, method) {
  if (!(method in methods)) return undefined;
  try {
    return await getJson(method.replace(".", "/"));
  } catch (error) {
    if (error instanceof Refusal) return { refused: error.message };
    throw error;
  }
}

// Calls `answered(sample)` after each round, `refused(why)` if the program answers with an error, and
// `unanswered()` if it does not answer. A sample is {at, ping, stats, latency, volumes, sessions}. A part
// that the program does not have is undefined.
export function pollData(answered, refused, unanswered) {
  let started, methods, sessions, round = 0;
  return forever(async () => {
    try {
      const ping = await getJson("ping");
      if (ping.started_ms !== started) {
        methods = await getJson("methods");
        round = 0;
      }
      started = ping.started_ms;
      const stats = await getJson("stats");
      const at = performance.now();
      const latency = await part(methods, "block.latency");
      const volumes = await part(methods, "volume.list");
      if (round++ % SLOW_ROUNDS === 0) sessions = { at: performance.now(), answer: await part(methods, "session.list") };
      return () => answered({ at, ping, stats, latency, volumes, sessions });
    } catch (error) {
      return error instanceof Refusal ? () => refused(error.message) : unanswered;
    }
  });
}
