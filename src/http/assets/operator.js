/* operator.js - the operator's view: do hits flow, where do they stop, what is in the way, do the books balance. The
 * pulse (every two seconds) drives the drawing and the two charts; batches, rejects and books are requested. */
import { get, path, post, told } from "./api.js";
import { Chart } from "./chart.js";
import { coded, el, say, scrolling, table } from "./dom.js";
import { Flow } from "./flow.js";
import * as format from "./format.js";
import { Part } from "./part.js";

const KEPT = 450; // pulses: a quarter of an hour
const PAST_EVERY_S = 10; // what tallyd keeps of before
const PAST_S = 3600;
const RATE_OVER_S = 4;
const HELD_BY = { // redis.durability
  disk: (replicas) => (replicas > 0 ? `the AOF and ${many(replicas, "replica")}` : "the AOF"),
  replicas: (replicas) => many(replicas, "replica"),
  none: () => badge("bad", "nothing"),
};
const SENTINEL_SAYS = { // service.sentinels.each[].state
  answers: "answers",
  silent: "does not answer",
  refuses: "refuses tallyd",
  unknown_name: "does not know this Redis",
};
const MEANS = { // of columns, where the pointer rests
  "Hashes pending": "Redis hashes with hits that no batch has taken yet",
  Oldest: "How long the first of these hits has waited",
  "Complete up to": "Every hit before that moment is in the shop's table",
  Accepted: "All hits that clients were answered for",
  "In MySQL": "Hits in the shop's tables",
  Refused: "Hits in rows that MySQL refused: they wait above, or were dropped",
  Pending: "Hits in Redis that no batch has taken yet",
  Claimed: "Hits of the batches on their way to MySQL",
  Difference: "Accepted less all others: 0, or hits are missing",
  Adjusted: "Corrected by hand, by tallyd adjust",
  Hashes: "Redis hashes that the batch took",
  Rows: "Rows of the table that it adds to",
  Merged: "Its transactions that MySQL has",
};
const number = (title) => ({ title, number: true, means: MEANS[title] });
const pulses = []; // oldest first; kept while the reader looks at a store
let past = []; // the same of before, a point every ten seconds

/** A line for each node of a cluster: its lanes, and what is wrong with them. */
function nodes(lanes) {
  const at = new Map();
  for (const lane of lanes) at.set(lane.at, [...(at.get(lane.at) ?? []), lane]);
  return [...at].map(([where, own]) => {
    const away = own.filter((lane) => !lane.up).length;
    const held = own.filter((lane) => lane.held).length;
    const oldest = Math.max(...own.map((lane) => lane.oldest_s ?? 0));
    const waits = oldest > 0 ? `, oldest hit ${format.duration(Math.round(oldest))}` : "";
    const text = `${where ?? "not known"}, ${many(own.length, "lane")}${waits}`;
    if (away + held === 0) return text;
    return badge("bad", `${text}${away > 0 ? `, ${away} away` : ""}${held > 0 ? `, ${held} held` : ""}`);
  });
}

/** A pulse came, whatever view is open. */
export function remember(pulse) {
  const last = pulses.at(-1);
  if (last?.time === pulse.time) pulses.pop();
  pulses.push(pulse);
  if (pulses.length > KEPT) {
    const { time, pending_hashes, rows_in_flight, oldest_unmerged_s } = pulses.shift();
    if (time - (past.at(-1)?.time ?? 0) >= PAST_EVERY_S)
      past.push({ time, pending_hashes, rows_in_flight, oldest_unmerged_s });
  }
  past = past.filter(({ time }) => time >= pulse.time - PAST_S);
}

/** What the charts show, of the last hour. */
const points = () => [...past.filter(({ time }) => time < pulses[0].time), ...pulses];

/** What `name` grew by in a second, over the last pulses of this process, two at least; null when there is only one. */
function rateOf(name) {
  const last = pulses.at(-1);
  const first = pulses.find(
    ({ time, started }, at) => started === last.started && (time >= last.time - RATE_OVER_S || at === pulses.length - 2),
  );
  return first.time === last.time ? null : Math.max(0, (last[name] - first[name]) / (last.time - first.time));
}

/** What a part says that needs a server which is away; the problem at the top says the rest. */
function lacks(server) {
  const { mysql, redis } = pulses.at(-1) ?? {};
  if ({ mysql, redis }[server] !== "down") return null;
  return { lacking: `Needs ${server === "mysql" ? "MySQL" : "Redis"}, which is away.` };
}

export class OperatorView {
  constructor(root) {
    this.root = root;
    this.verdict = el("h1", {}, "Operations");
    this.lead = el("p", { class: "lead" });
    this.problems = el("ul", { class: "problems" });
    root.replaceChildren(
      el("div", { class: "heading" }, el("div", {}, this.verdict, this.lead)),
      this.problems,
      this.way(),
      this.curves(),
      this.batchesCard(),
      this.rejectsCard(),
      this.booksCard(),
      this.serviceCards(),
    );
    this.refresh();
    if (pulses.length > 0) this.pulse(pulses.at(-1));
    this.look();
  }

  /** How it was before the page was opened; what another tallyd told before a restart remains. */
  async look() {
    const { points: told } = await get("api/history").catch(() => ({ points: [] })); // the other parts say why
    const first = told[0]?.time ?? Infinity;
    past = [...past.filter(({ time }) => time < first), ...told];
    if (this.root.isConnected && pulses.length > 0) this.drawCurves();
  }

  close() {
    for (const part of this.parts()) part.close();
    for (const closing of [this.flow, this.backlog, this.age]) closing.close();
    this.root.replaceChildren();
  }

  /** Nobody knows how it is now; the next status tells. */
  away() {
    say(this.verdict, "Not known now");
  }

  parts() {
    return [this.status, this.rejects, this.books];
  }

  refresh() {
    for (const part of this.parts()) part.changed();
  }

  pulse(pulse) {
    const servers = `${pulse.mysql} ${pulse.redis}`;
    if (servers !== this.servers) for (const part of [this.rejects, this.books]) part.fresh(); // what it needs is away, or back
    this.servers = servers;
    this.flow.draw(stepsOf(pulse));
    this.drawCurves();
    this.status.changed();
    this.books.changed();
    if (pulse.rejects !== this.rejectsSeen) {
      this.rejectsSeen = pulse.rejects;
      this.rejects.changed();
    }
  }

  card(title, attributes = {}) {
    const side = el("p", { class: "quiet" });
    const body = el("div");
    const section = el(
      "section",
      { class: "card", ...attributes },
      el("div", { class: "title" }, el("h2", {}, title), side),
      body,
    );
    return { section, body, side };
  }

  way() {
    const { section, body } = this.card("The way of a hit", { "data-part": "flow" });
    this.flow = new Flow(body);
    return section;
  }

  curves() {
    const backlog = this.card("Waiting for MySQL", { "data-part": "backlog" });
    const age = this.card("Oldest hit not yet claimed", { "data-part": "age" });
    const common = {
      kind: "lines",
      when: (x) => format.clock(x / 1000),
      axis: (x) => (pulses.at(-1).time - points()[0].time < 600 ? format.clock(x / 1000) : format.minute(x / 1000)),
    };
    this.backlog = new Chart(backlog.body, {
      ...common,
      label: "Waiting for MySQL",
      series: [
        { name: "Hashes pending", colour: "--accent" },
        { name: "Rows in flight", colour: "--second" },
      ],
    });
    this.age = new Chart(age.body, {
      ...common,
      label: "Age of the oldest hit that is not claimed",
      series: [{ name: "Age", colour: "--accent" }],
      value: format.duration,
      unit: (v) => (v === 0 ? "0" : format.duration(v)),
      steps: [1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400],
    });
    this.curveSides = [backlog.side, age.side];
    return el("div", { class: "columns" }, backlog.section, age.section);
  }

  drawCurves() {
    const at = ({ time }) => new Date(time * 1000);
    const shown = points();
    const since = `shown from ${format.clock(shown[0].time)}`;
    for (const side of this.curveSides) say(side, since);
    this.backlog.draw(shown.map((p) => [at(p), p.pending_hashes, p.rows_in_flight]));
    this.age.draw(
      shown.map((p) => [at(p), p.oldest_unmerged_s]),
      pulses.at(-1).redis === "down" ? "Not known now" : `Now ${format.duration(Math.round(pulses.at(-1).oldest_unmerged_s ?? 0))}`,
    );
  }

  /* Batches, and what else /api/status says */

  batchesCard() {
    const { section, body, side } = this.card("Batches in flight", { "data-part": "batches" });
    this.status = new Part(body, {
      every: 3000,
      missing: () => {
        for (const other of [this.service, this.counters])
          other.replaceChildren(el("p", { class: "nothing" }, "Not known."));
      },
      load: (signal) => get("api/status", {}, signal),
      draw: (status) => {
        this.drawVerdict(status);
        this.drawService(status);
        this.drawCounters(status);
        drawBatches(status.batches, body, side);
      },
    });
    return section;
  }

  drawVerdict({ well, problems, service }) {
    say(
      this.verdict,
      well ? "All is well" : problems.length === 1 ? "One thing needs a look" : `${problems.length} things need a look`,
    );
    say(
      this.lead,
      service.up ? `tallyd ${service.version}, instance ${service.instance}, up for ${format.duration(service.uptime_s)}` : "",
    );
    const text = problems.map(({ what, next }) => what + next).join();
    if (text === this.problemsShown) return; // an unchanged list is not read out again
    this.problemsShown = text;
    this.problems.replaceChildren(
      ...problems.map(({ what, next }) =>
        el(
          "li",
          { class: "banner" },
          el("div", {}, el("strong", {}, coded(what)), el("p", { class: "quiet" }, coded(next))),
        ),
      ),
    );
  }

  serviceCards() {
    const service = this.card("The servers", { "data-part": "service" });
    const counters = this.card("The counters", { "data-part": "counters" });
    this.service = service.body;
    this.counters = counters.body;
    for (const body of [this.service, this.counters]) body.append(el("p", { class: "waiting" }, "Loading"));
    return el("div", { class: "columns" }, counters.section, service.section);
  }

  drawService({ service, redis, mysql }) {
    const fact = (name, text) => [el("dt", {}, name), el("dd", {}, text)];
    const memory =
      redis.up &&
      (redis.memory_most_bytes > 0
        ? `${format.bytes(redis.memory_bytes)} of ${format.bytes(redis.memory_most_bytes)}`
        : format.bytes(redis.memory_bytes));
    const { sentinels } = service;
    const answering = sentinels && `${sentinels.up} of ${sentinels.known} answer, a majority is ${sentinels.majority}`;
    this.service.replaceChildren(
      el(
        "dl",
        { class: "facts" },
        service.up &&
          fact(
            "Clients connected",
            `${format.number(service.connections)} of ${format.number(service.connections_most)}`,
          ),
        service.up && fact("Hits since its start", format.number(service.hits)),
        fact("Redis", redis.up ? `${redis.version}, ${redis.role}` : badge("bad", "away")),
        redis.up && fact("Redis' address", service.up ? service.redis_server : redis.at),
        redis.lane && nodes(redis.lane).map((node) => fact("Node", node)),
        redis.up && fact("Redis' memory", memory),
        redis.up && fact("Redis' AOF", redis.aof ? `on, fsync ${redis.appendfsync ?? "not known"}` : "off"),
        redis.up && fact("A claim is held by", HELD_BY[redis.durability](redis.replicas_wanted)),
        redis.up &&
          redis.replica.map((one) =>
            fact("Replica", `${one.at}, ${one.online ? `${format.bytes(one.behind_bytes)} behind` : "not in step"}`),
          ),
        sentinels && fact("Sentinels", sentinels.up < sentinels.majority ? badge("bad", answering) : answering),
        sentinels?.each.map(({ at, state, heard }) =>
          fact("Sentinel", `${at}, ${SENTINEL_SAYS[state]}${heard ? "" : ", its events are not heard"}`),
        ),
        fact("MySQL", mysql.up ? `${mysql.server} ${mysql.version.split("-")[0]}` : badge("bad", "away")),
        mysql.up && fact("MySQL's address", `${mysql.at}${mysql.read_only ? ", read-only" : ""}`),
      ),
    );
  }

  drawCounters({ counters }) {
    const rows = counters.map((counter) => [
      format.title(counter.name),
      format.number(counter.dirty),
      counter.oldest_s ? format.duration(Math.round(counter.oldest_s)) : format.MISSING,
      counter.held
        ? el("span", { title: counter.held.why }, badge("bad", "held"))
        : format.clock(counter.complete_until),
    ]);
    this.counters.replaceChildren(
      scrolling(
        "Each counter",
        table(
          "Each counter",
          [
            { title: "Counter" },
            ...["Hashes pending", "Oldest", "Complete up to"].map(number),
          ],
          rows,
          { class: "stack" },
        ),
      ),
    );
  }

  /* Rejects */

  rejectsCard() {
    const { section, body, side } = this.card("Refused by MySQL", { "data-part": "rejects" });
    this.outcome = el("p", { class: "quiet outcome", role: "status" });
    section.append(this.outcome);
    this.rejects = new Part(body, {
      every: 1000,
      load: async (signal) => lacks("mysql") || get("api/rejects", { limit: 50 }, signal),
      empty: ({ lacking, rejects }) =>
        lacking ??
        (rejects.length > 0
          ? ""
          : "None. Rows that MySQL refuses wait here, with the reason, until they are replayed or dropped."),
      draw: ({ rejects, waiting }) => {
        say(
          side,
          waiting > rejects.length
            ? `the oldest ${format.number(rejects.length)} of ${format.number(waiting)}`
            : `${format.number(waiting)} in all`,
        );
        body.replaceChildren(
          scrolling(
            "Rows that MySQL refused",
            rejectTable(rejects, (what, reject) => this.act(what, reject)),
          ),
        );
      },
    });
    return section;
  }

  async act(what, reject) {
    if (what === "drop" && !(await confirmed(reject))) return;
    const named = `${reject.key} ${reject.field} (${reject.delta})`;
    try {
      const { outcome, reason } = await post(path`rejects/${reject.id}/${what}`);
      say(
        this.outcome,
        outcome === "refused"
          ? `Refused again: ${named}: ${reason}`
          : `${outcome === "dropped" ? "Dropped" : "Replayed"}: ${named}`,
      );
    } catch (problem) {
      say(this.outcome, told(problem));
    }
    this.rejects.changed();
    this.books.changed();
  }

  /* The books */

  booksCard() {
    const { section, body, side } = this.card("The books", { "data-part": "books" });
    this.books = new Part(body, {
      every: 10000,
      load: async (signal) => lacks("mysql") || lacks("redis") || get("api/books", {}, signal),
      empty: ({ lacking }) => lacking ?? "",
      draw: ({ counters, balanced, as_of }) => {
        say(side, `as of ${format.clock(as_of)}`);
        const columns = ["Accepted", "In MySQL", "Refused", "Pending", "Claimed", "Difference", "Adjusted"].map(number);
        const rows = counters.map((book) => [
          format.title(book.counter),
          ...["accepted", "merged", "rejected", "pending", "claimed"].map((of) => format.number(book[of])),
          badge(book.difference === 0 ? "good" : "bad", format.number(book.difference)),
          format.number(book.adjusted),
        ]);
        body.replaceChildren(
          el(
            "p",
            { class: "lead" },
            balanced
              ? "They balance: every accepted hit is in exactly one place."
              : coded("They do not balance. `tallyd verify` says where, and the next step."),
          ),
          scrolling(
            "The books of each counter",
            table("Accepted = in MySQL + refused + pending + claimed", [{ title: "Counter" }, ...columns], rows, {
              class: "stack",
            }),
          ),
        );
      },
    });
    return section;
  }
}

const badge = (kind, text) => el("span", { class: `badge ${kind}` }, text);

function drawBatches({ standing, oldest: batches }, body, side) {
  say(
    side,
    standing > batches.length ? `the oldest ${format.number(batches.length)} of ${format.number(standing)}` : "",
  );
  if (batches.length === 0) {
    const text =
      standing === null
        ? "Redis is away, so this is not known."
        : "None. Counts wait in pending hashes until they are due.";
    return body.replaceChildren(el("p", { class: "nothing" }, text));
  }
  const rows = batches.map((batch) => [
    el("code", {}, batch.id.slice(0, 8)),
    format.title(batch.counter),
    format.number(batch.hashes),
    format.number(batch.fields),
    format.duration(Math.round(batch.age_s)),
    progressOf(batch),
  ]);
  body.replaceChildren(
    scrolling(
      "Batches in flight",
      table(
        "Batches in flight",
        [
          { title: "Batch" },
          { title: "Counter" },
          ...["Hashes", "Rows", "Age"].map(number),
          { title: "Merged", means: MEANS.Merged },
        ],
        rows,
        { class: "stack" },
      ),
    ),
  );
}

/** How many of its transactions went in; MySQL knows how many there are once the first did. */
function progressOf({ held, chunks, chunks_merged: merged }) {
  if (held) return el("span", {}, badge("bad", "held"), ` ${held}`);
  if (chunks === null) return "not begun";
  return el(
    "span",
    {},
    el("progress", { value: merged, max: chunks, "aria-label": "Merged" }),
    ` ${format.number(merged)} of ${format.number(chunks)}`,
  );
}

/** The six figures of the drawing. */
function stepsOf(pulse) {
  const [hits, frames, cells, rows] = ["hits", "frames", "cells", "rows_merged"].map(rateOf);
  const flowing = hits > 0 ? "busy" : "";
  const away = (state) => (state === "down" ? "stuck" : "");
  return {
    socket: { value: format.rate(hits), small: many(pulse.connections, "connection"), state: flowing, pace: hits },
    frame: {
      value: format.rate(frames),
      small: frames > 0 ? `${format.rate(cells / frames)} cells each` : frames === 0 ? "nothing to send" : "",
      state: flowing,
      pace: frames,
    },
    pending: {
      value: format.number(pulse.pending_hashes),
      small: pulse.redis === "down" ? "Redis is away" : oldest(pulse),
      state: away(pulse.redis),
      pace: pulse.batches_in_flight > 0 || rows > 0 ? 10 : 0,
    },
    claimed: {
      value: format.number(pulse.batches_in_flight),
      small: many(pulse.rows_in_flight, "row"),
      state: pulse.batches_in_flight > 0 ? "busy" : "",
      pace: rows,
    },
    fence: {
      value: format.number(pulse.batches_held),
      small: `${format.compact(pulse.batches_done)} passed`,
      state: pulse.batches_held > 0 ? "stuck" : "",
      pace: rows,
    },
    mysql: {
      value: format.rate(rows),
      small: pulse.mysql === "down" ? "MySQL is away" : `${many(pulse.rejects, "row")} refused`,
      state: away(pulse.mysql),
      pace: 0,
    },
  };
}

const many = (count, word) => `${format.number(count)} ${word}${count === 1 ? "" : "s"}`;
const oldest = ({ oldest_unmerged_s: age }) => (age ? `oldest ${format.duration(Math.round(age))}` : "nothing waits");

/** Dropping cannot be taken back, so it is asked for twice. */
function confirmed(reject) {
  return new Promise((answer) => {
    const dialog = el(
      "dialog",
      { "aria-labelledby": "drop-title" },
      el("h2", { id: "drop-title" }, "Drop this row?"),
      el(
        "p",
        {},
        el("code", {}, `${reject.key} ${reject.field}`),
        `: its hits (${reject.delta}) will be missing from every figure. You cannot undo this.`,
      ),
      el(
        "form",
        { method: "dialog", class: "fields" },
        el("button", { value: "keep" }, "Keep it"),
        el("button", { value: "drop" }, "Drop it"),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(dialog.returnValue === "drop");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

function rejectTable(rejects, act) {
  const button = (what, title, reject) =>
    el(
      "button",
      {
        type: "button",
        class: "plain",
        onclick: () => act(what, reject),
        "aria-label": `${title} ${reject.key} ${reject.field}`,
      },
      title,
    );
  const rows = rejects.map((reject) => [
    el("span", { class: "when" }, format.clock(reject.rejected_at)),
    el("code", {}, `${reject.key} ${reject.field}`),
    el("span", { class: "count" }, reject.delta),
    reject.reason,
    el("span", { class: "acts" }, button("replay", "Replay", reject), button("drop", "Drop", reject)),
  ]);
  return table(
    "Rows that MySQL refused",
    [
      { title: "Refused" },
      { title: "Key and field" },
      { title: "Hits", number: true },
      { title: "Reason" },
      { title: "What to do" },
    ],
    rows,
    { class: "stack" },
  );
}
