/* api.js - asks tallyd: /api/... as JSON (openapi.yaml says the shapes).
 * A token, where the address needs one, is kept for this tab alone, and goes along as `Authorization: Bearer`. */

const TOKEN = "tallyd.token";
const EVERY_MS = 2000;
const AGAIN_MS = 1000; // after a problem
const SILENT_MS = 15000; // then no answer comes any more

/** What tallyd answered instead: status, what is wrong, and what to do about it. status 0: no answer came. */
export class Refused extends Error {
  constructor(status, text, next) {
    super(text);
    this.status = status;
    this.next = next;
  }
}

/** "What is wrong. What to do", as sentences, without the code that a Redis client looks for. */
export function told({ message, next }) {
  const parts = [message.replace(/^[A-Z]{3,} /, ""), next].filter(Boolean).map((part) => part.charAt(0).toUpperCase() + part.slice(1));
  return parts.join(/[.?!]$/.test(message) ? " " : ". ");
}

let needToken = () => {};
/** tell(given): an answer said that a token is missing, or that the given one is wrong. */
export function onTokenNeeded(tell) {
  needToken = tell;
}

export function setToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

function headers() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function ask(path, options) {
  let answer;
  try {
    answer = await fetch(path, { cache: "no-store", ...options, headers: { ...headers(), ...options.headers } });
  } catch (problem) {
    if (problem.name === "AbortError") throw problem;
    throw new Refused(0, "tallyd does not answer", "The page asks again by itself.");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  if (answer.status === 401) needToken(sessionStorage.getItem(TOKEN) !== null);
  throw new Refused(answer.status, said.error ?? `tallyd answered ${answer.status}`, said.next ?? "");
}

/** path`stores/${store}`: each value as one segment, whatever it contains. */
export function path(parts, ...values) {
  return "api/" + parts.reduce((made, part, at) => made + encodeURIComponent(values[at - 1]) + part);
}

/** query: values that are undefined are left out. */
function asked(where, query) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "");
  const text = new URLSearchParams(given).toString();
  return text ? `${where}?${text}` : where;
}

/** GET */
export async function get(where, query = {}, signal = undefined) {
  return (await ask(asked(where, query), { signal })).json();
}

/** The same figures as CSV, saved as a file; a link could not send the token. */
export async function save(where, query = {}) {
  const answer = await ask(asked(where, { ...query, format: "csv" }), {});
  const [, name] = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "") ?? [null, "figures.csv"];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export async function post(where) {
  return (await ask(where, { method: "POST", headers: { "X-Tallyd": "1" } })).json();
}

/** Asks again and again until close() is called. on(answer); state("live" | "away", problem), before the first answer after a
 * problem, and at each problem. */
export function poll(where, query, { on, state }) {
  let ended = false;
  let stop = () => {};
  (async () => {
    for (let live = false; !ended; await new Promise((done) => setTimeout(done, live ? EVERY_MS : AGAIN_MS))) {
      const silent = new AbortController();
      const timer = setTimeout(() => silent.abort(), SILENT_MS);
      stop = () => silent.abort();
      try {
        const answer = await get(where, query, silent.signal);
        if (ended) return;
        if (!live) state("live");
        live = true;
        on(answer);
      } catch (problem) {
        if (ended) return;
        live = false;
        state("away", problem);
      } finally {
        clearTimeout(timer);
      }
    }
  })();
  return {
    close() {
      ended = true;
      stop();
    },
  };
}
