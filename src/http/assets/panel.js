/* panel.js - the page: which view the address names, what moves, the theme, the banners.
 *  #/store/12345?days=30    the merchant's view     #/operator    the operator's */
import { get, onTokenNeeded, path, poll, setToken, told } from "./api.js";
import { recolour } from "./chart.js";
import { el, say } from "./dom.js";
import * as format from "./format.js";
import { OperatorView, remember } from "./operator.js";
import { rangeOf, rangeText } from "./range.js";
import { called, NO_STORE, StoreView, storeForm, titleOfStore } from "./store.js";

const STORE = "tallyd.store";
const at = (id) => document.getElementById(id);
const root = at("view");

let view = null; // StoreView, OperatorView, or null
let viewing = ""; // what it shows: "operator", "store/<name>"
let polling = null; // what poll() gave
let counters = null; // of /api/counters; asked for once a connection

/* Remembered by the browser, where it may */
const remembered = {
  get(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(name, value);
    } catch {
      /* then not */
    }
  },
};

function place() {
  const [where, query] = location.hash.slice(1).split("?");
  const [, kind, store] = where.split("/");
  return {
    kind: kind === "operator" ? "operator" : "store",
    store: decoded(store ?? ""),
    parameters: new URLSearchParams(query),
  };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const address = (store, range) => `#/store/${encodeURIComponent(store)}?${rangeText(range)}`;

async function show() {
  const { kind, store, parameters } = place();
  for (const [id, of] of [
    ["to-store", "store"],
    ["to-operator", "operator"],
  ]) {
    if (kind === of) at(id).setAttribute("aria-current", "page");
    else at(id).removeAttribute("aria-current");
  }
  if (kind === "operator") return showOperator();
  const range = rangeOf(parameters);
  if (viewing === `store/${store}` && view) return view.setRange(range);
  if (store === "") return showAnyStore(range);
  return showStore(store, range);
}

function leave(next) {
  view?.close();
  view = null;
  viewing = next;
  polling?.close();
  polling = null;
  banners.clear();
}

function showOperator() {
  if (viewing === "operator") return;
  leave("operator");
  tellZone(null);
  document.title = "Operations · tallyd";
  view = new OperatorView(root);
  listen();
}

function wordOf(answer) {
  called.word = answer.word;
  say(at("to-store"), answer.word);
  return answer;
}

async function showStore(store, range) {
  leave(`store/${store}`);
  document.title = `${titleOfStore(store)} · tallyd`;
  waiting();
  let zone;
  let name;
  try {
    counters ??= await get("api/counters");
    ({ zone, name } = wordOf(await get(path`stores/${store}`)));
  } catch (problem) {
    return failed(problem, show);
  }
  if (viewing !== `store/${store}`) return;
  if (store !== NO_STORE) remembered.set(STORE, store);
  tellZone(zone);
  document.title = `${titleOfStore(store, name)} · tallyd`;
  range = rangeOf(place().parameters); // "today" may be another day there
  at("to-store").href = address(store, range);
  view = new StoreView(root, {
    store,
    name,
    zone,
    range,
    counters,
    onFigures: banners.figures,
    onRange: (chosen) => {
      location.hash = address(store, chosen);
    },
    onStore: (chosen) => {
      location.hash = address(chosen, place().parameters.size ? rangeOf(place().parameters) : range);
    },
  });
  listen(store);
}

/** No store in the address: the one that was shown last, else the first that has figures. */
async function showAnyStore(range) {
  leave("store/");
  waiting();
  try {
    counters ??= await get("api/counters");
    if (counters.length === 0) return noCounter();
    if (counters.every((counter) => counter.store === null)) return location.replace(address(NO_STORE, range));
    const known = remembered.get(STORE);
    const store = known || wordOf(await get("api/stores", { limit: 1 })).stores[0];
    if (viewing !== "store/") return;
    if (store) location.replace(address(store, range));
    else
      noStore(
        range,
        `No ${called.word.toLowerCase()} has figures yet`,
        "The first one appears here as soon as one of its hits is merged into its table. ",
      );
  } catch (problem) {
    if (problem.status === 503) noStore(range, "The stores cannot be listed", `${problem.message}. `);
    else failed(problem, show);
  }
}

function noCounter() {
  root.replaceChildren(
    el("h1", {}, "No counter is configured"),
    el("p", { class: "nothing" }, "This page shows the figures of counters."),
  );
  view = { close() {}, refresh() {}, setRange() {} };
  listen();
}

/** A store can be opened by its name, listed or not. */
function noStore(range, title, text) {
  const form = storeForm("", (chosen) => {
    location.hash = address(chosen, range);
  });
  const bare = counters?.some((counter) => counter.store === null);
  root.replaceChildren(
    el("div", { class: "heading" }, el("h1", {}, title), form),
    el("p", { class: "nothing" }, text, "You can open a store already if you know its name."),
    bare ? el("p", {}, el("a", { href: address(NO_STORE, range) }, "Counters without a store")) : "",
  );
  let seen = null;
  view = {
    close() {},
    refresh() {},
    setRange() {},
    pulse({ rows_merged: merged }) {
      if (seen !== null && merged > seen && form.store.value === "") showAnyStore(range);
      seen = merged;
    },
  };
  listen();
}

const waiting = () => root.replaceChildren(el("p", { class: "waiting", role: "status" }, "Loading"));

function failed(problem, again) {
  root.replaceChildren(
    el("h1", {}, "The figures could not be loaded"),
    el("p", { class: "note trouble", role: "alert" }, told(problem)),
    el("p", {}, el("button", { type: "button", onclick: again }, "Try again")),
  );
  if (problem.status === 0)
    setTimeout(() => {
      if (!view) {
        viewing = "";
        again();
      }
    }, 2000);
}

/* What moves. A hidden page does not ask, and requests everything when it is visible again. */

function listen(store) {
  const wanted = viewing;
  let marks = null; // of the last answer: what moved is what has another one
  polling = poll(
    "api/pulse",
    { store },
    {
      on: ({ moved = {}, ...pulse }) => {
        if (viewing !== wanted) return;
        if (marks) view?.moved?.(Object.keys(moved).filter((counter) => moved[counter] !== marks[counter]));
        marks = moved;
        banners.pulse(pulse);
        if (pulse.hits === undefined) return; // the token is bound to a store
        remember(pulse);
        view?.pulse?.(pulse);
      },
      state: (now, problem) => {
        if (viewing !== wanted) return;
        link(now, problem);
        if (now === "live") view?.refresh(); // what moved before it was asked for
        else view?.away?.();
      },
    },
  );
}

document.addEventListener("visibilitychange", () => {
  polling?.close();
  polling = null;
  if (document.hidden || !view) return;
  listen(place().kind === "store" ? place().store : undefined);
  view.refresh();
});

function link(state, problem) {
  at("link").dataset.state = state;
  say(at("link"), state === "live" ? "Live" : "Reconnecting");
  banners.set(
    "away",
    state === "away" &&
      (problem.status > 0
        ? told(problem)
        : "tallyd does not answer. The figures are the last known ones; the page goes on by itself when tallyd is back."),
  );
}

/* What the reader has to know about all figures at once */

const banners = {
  shown: new Map(),
  since: null, // stored figures are as of then, while MySQL is away
  state: "", // of the last pulse
  set(name, text) {
    if ((this.shown.get(name) ?? "") === (text || "")) return;
    if (text) this.shown.set(name, text);
    else this.shown.delete(name);
    at("banner").replaceChildren(...[...this.shown.values()].map((line) => el("p", { class: "banner" }, line)));
  },
  clear() {
    for (const name of [...this.shown.keys()]) if (name !== "away") this.set(name, "");
  },
  /** An answer with stored figures: without MySQL, as of when; of several the oldest. */
  figures({ mysql, redis, stored_as_of }) {
    if (mysql === "up") banners.since = null;
    else if (stored_as_of !== null) banners.since = Math.min(stored_as_of, banners.since ?? stored_as_of);
    banners.servers({ mysql, redis });
  },
  servers({ mysql, redis }) {
    if (viewing === "operator") return; // its problems say it, with what to do
    const stored = this.since
      ? `: stored figures are as of ${format.clock(this.since)}`
      : ": stored figures are not known";
    this.set(
      "mysql",
      mysql === "down" &&
        `MySQL is away${stored}. tallyd still counts hits, and merges them into the tables when MySQL is back.`,
    );
    this.set("redis", redis === "down" && "Redis is away: hits are refused, and live figures are not known.");
  },
  /** The pulse says it at once, but not as of when: the answers do, so they are asked for again. */
  pulse({ mysql, redis, started }) {
    const state = `${mysql} ${redis} ${started}`;
    if (this.state && this.state !== state) view?.refresh();
    this.state = state;
    if (mysql === "up") this.since = null;
    this.servers({ mysql, redis });
  },
};

/* Theme and token */

const theme = at("theme");
theme.value = document.documentElement.dataset.theme ?? "auto";
theme.addEventListener("change", () => {
  if (theme.value === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme.value;
  remembered.set("tallyd.theme", theme.value);
  recolour();
});

onTokenNeeded((given) => {
  if (!at("token").hidden) return;
  at("token").hidden = false;
  say(at("token-wrong"), given ? "tallyd does not know that token." : "");
  root.hidden = true;
  at("token-text").focus();
});
at("token").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(at("token-text").value.trim());
  location.reload();
});

function tellZone(zone) {
  say(at("foot"), `Times are those of ${format.useZone(zone)}.`);
}

tellZone(null);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the view's
  at("main").focus();
});
addEventListener("hashchange", async () => {
  await show();
  if (document.activeElement === document.body) at("main").focus({ preventScroll: true }); // what had it is gone
});
show();
