/* api.js - asks tallyd: /api/... as JSON, /api/stream as server-sent events (openapi.yaml says the shapes).
 * A token, where the address needs one, is kept for this tab alone, and goes along as `Authorization: Bearer`; the
 * browser's own EventSource cannot send it, so the stream is read with fetch. */

const TOKEN = "tallyd.token";
const SILENT_MS = 15000; // the stream beats once a second: after this long without a byte it is dead
const AGAIN_MS = 1000;

/** What tallyd answered instead: status, what is wrong, and what to do about it. status 0: no answer came. */
export class Refused extends Error {
  constructor(status, text, next) {
    super(text);
    this.status = status;
    this.next = next;
  }
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

/** Server-sent events until close() is called; reconnects by itself. on(event, data); state("live" | "away", problem): a
 * stream that tallyd ended (it stops, say) is away only when it cannot be opened again. */
export function stream(where, query, { on, state }) {
  const ending = new AbortController();
  const text = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  (async () => {
    while (!ending.signal.aborted) {
      const problem = await listen(text ? `${where}?${text}` : where, ending.signal, { on, state }).catch((why) => why);
      if (ending.signal.aborted) return;
      if (problem) state("away", problem);
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  })();
  return { close: () => ending.abort() };
}

async function listen(where, ended, { on, state }) {
  const silent = new AbortController();
  const give_up = () => silent.abort();
  let timer = setTimeout(give_up, SILENT_MS);
  ended.addEventListener("abort", give_up, { once: true });
  try {
    const answer = await ask(where, { signal: silent.signal, headers: { Accept: "text/event-stream" } });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    state("live");
    for (let rest = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return null;
      clearTimeout(timer);
      timer = setTimeout(give_up, SILENT_MS);
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) deliver(block, on);
    }
  } finally {
    clearTimeout(timer);
    ended.removeEventListener("abort", give_up);
  }
}

function deliver(block, on) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
  }
  if (data.length > 0) on(name, JSON.parse(data.join("\n")));
}
