/* store.js - the merchant's view: one store, live, and as the merchant's own tables have it.
 * What there is to show follows from the configured counters: a counter by date or hour has a figure of today and a
 * chart of the range; one by number or text has a list of its highest, one by both has both; what a counter feeds (series, timebox, uniques)
 * has charts of the last hour and day, the busiest minutes, and the different visitors of the range.
 * "Today" is the day in the store's time zone, or the reader's own where none is configured. */
import { get, path } from "./api.js";
import { Chart } from "./chart.js";
import { el, fill, say, scrolling, table } from "./dom.js";
import * as format from "./format.js";
import { Part } from "./part.js";
import { daysBefore, daysOf, hoursOf, lastDays, monthsOf, rangeForm, rangeTitle } from "./range.js";
import { saver } from "./saver.js";

const FIVE_MINUTES_S = 300;
const HOUR_S = 3600;
const DAY_S = 86400;
const TOP = 10;
const MOST = 1000; // as the API gives
const STORED = { name: "Stored", colour: "--bar" };
const LIVE = { name: "Live", colour: "--bar-pale" };
const BEFORE = { name: "Before", colour: "--before", thin: true };

/** The place of the counters that have no store, as the API has it. */
export const NO_STORE = "-";
/** What a store is called here, as the API has it: store_word. */
export const called = { word: "Store" };
export const titleOfStore = (store, name) =>
  store === NO_STORE ? "All counters without a store" : (name ?? `${called.word} ${store}`);

const named = (pattern, store) => pattern.replaceAll("<store>", store);
const longToday = () => format.longDay(format.fieldTime(format.today()));
const nowSeconds = () => Math.floor(Date.now() / 1000);
const sum = (rows, of) => rows.reduce((total, row) => total + (row[of] ?? 0), 0);

const MEANS = "Stored: in your table. Every hit before the moment named here is in that figure.";

/** "complete up to 14:03:07": how much of what was counted is in a stored figure. */
function freshness({ mysql, complete_until, stored_as_of }) {
  if (mysql === "down")
    return stored_as_of === null ? "MySQL is away" : `as of ${format.clock(stored_as_of)}, MySQL is away`;
  return complete_until === null ? "nothing merged yet" : `complete up to ${format.clock(complete_until)}`;
}

export class StoreView {
  /** onRange(range), onStore(name): the reader chose; onFigures({mysql, redis, stored_as_of}): what an answer said. */
  constructor(root, { store, name, zone, range, counters, onRange, onStore, onFigures }) {
    Object.assign(this, { root, store, name, zone, range, onRange, onFigures, parts: [], charts: [] });
    const own = counters.filter((counter) => (counter.store === null) === (store === NO_STORE));
    this.counters = own.flatMap(countsOf);
    this.others = own.length < counters.length; // they have other pages
    root.replaceChildren(this.heading(onStore), this.todays(), this.ranged(), ...this.tops(), ...this.nameless(), ...this.fed());
    this.setRange(range);
    this.clock = setInterval(() => document.hidden || this.refresh(), 60000); // minutes pass without hits, too
  }

  /** Figures of these counters moved. */
  moved(names) {
    for (const { part, counter } of this.parts) if (names.includes(counter)) part.changed();
  }

  refresh() {
    for (const { part } of this.parts) part.changed();
  }

  setRange(range) {
    this.range = range;
    say(this.rangeHeading, rangeTitle(range));
    this.rangeForm.set(range);
    for (const { part } of this.parts) {
      if (part.ranged || !part.drawn) part.fresh();
    }
  }

  close() {
    clearInterval(this.clock);
    for (const { part } of this.parts) part.close();
    for (const chart of this.charts) chart.close();
    this.root.replaceChildren();
  }

  /* The frame of the page */

  heading(onStore) {
    const bare = this.store === NO_STORE;
    this.lead = el("p", { class: "lead" }, longToday());
    return el(
      "div",
      { class: "heading" },
      el(
        "div",
        {},
        el("h1", {}, el("bdi", {}, titleOfStore(this.store, this.name))),
        this.name !== null && el("p", { class: "quiet" }, titleOfStore(this.store)),
        this.lead,
      ),
      (!bare || this.others) && storeForm(bare ? "" : this.store, onStore),
      !bare && this.others && el("a", { href: `#/store/${NO_STORE}` }, "Counters without a store"),
    );
  }

  card(title, attributes = {}, level = "h2") {
    const heading = el(level, {}, title);
    const side = el("p", { class: "quiet" });
    const body = el("div");
    const section = el("section", { class: "card", ...attributes }, el("div", { class: "title" }, heading, side), body);
    return { section, body, side };
  }

  part(counter, body, options) {
    const part = new Part(body, options);
    part.ranged = options.ranged === true;
    this.parts.push({ part, counter: counter.name });
    return part;
  }

  chart(holder, options) {
    const chart = new Chart(holder, options);
    this.charts.push(chart);
    return chart;
  }

  /** A day may have begun. */
  goOn() {
    if (this.lead.textContent === longToday()) return;
    say(this.lead, longToday());
    if (this.range.days !== null) this.rangeForm.set(lastDays(this.range.days));
  }

  async figures(counter, query, signal) {
    this.goOn();
    const figures = await get(...this.askOf(counter, query), signal);
    this.onFigures(figures);
    return figures;
  }

  askOf(counter, query) {
    return [path`stores/${this.store}/counters/${counter.name}`, { ...query, count: counter.count }];
  }

  /** By the time, with as many days before them. */
  async ofRange(counter, which, signal) {
    const unit = unitOf(counter);
    const days = daysOf(this.range, counter.time === "hour");
    const earlier = counter.time === "month" ? null : daysBefore(days); // months differ
    const [figures, before] = await Promise.all([
      this.figures(counter, { ...unit.asked(days), ...which }, signal),
      earlier && this.figures(counter, { ...unit.asked(earlier), ...which }, signal),
    ]);
    return { ...figures, before: before?.rows.map(countOf) };
  }

  /* Today */

  todays() {
    const days = this.counters.filter(({ time }) => time === "date").map((counter) => this.todayOf(counter));
    const hours = this.counters.filter(({ time }) => time === "hour").map((counter) => this.todayOf(counter));
    const series = this.counters.filter(({ feeds }) => feeds.series).map((counter) => this.sinceMidnight(counter));
    return el("div", { class: "today" }, ...days, ...hours, ...series);
  }

  todayOf(counter) {
    const { section, body } = this.figureCard(counter, "today");
    this.part(counter, body, {
      load: (signal) =>
        this.figures(counter, unitOf(counter).asked({ from: format.today(-7 - format.daysOfWeek()), to: format.today() }), signal),
      draw: (figures) => drawToday(body, figures),
    });
    return section;
  }

  figureCard(counter, of) {
    const body = el("div");
    const section = el(
      "section",
      { class: "card figure", ...marksOf(counter, of) },
      el("h2", {}, `${titleOf(counter)} ${of}`),
      body,
    );
    return { section, body };
  }

  sinceMidnight(counter) {
    const { section, body } = this.figureCard(counter, "since midnight");
    const name = named(counter.feeds.series, this.store);
    this.part(counter, body, {
      load: async (signal) => {
        const midnight = this.zone
          ? (await get(path`stores/${this.store}`, {}, signal)).since
          : Math.floor(new Date().setHours(0, 0, 0, 0) / 1000);
        const samples = async (precision, from) =>
          from > nowSeconds() ? [] : (await get(path`series/${name}/${precision}`, { from }, signal)).samples;
        // Where midnight is within an hour, samples of five minutes fill the rest of that hour, as long as they are kept.
        const first = Math.ceil(midnight / HOUR_S) * HOUR_S;
        const [hours, rest, hour] = await Promise.all([
          samples(HOUR_S, first),
          first > midnight ? samples(FIVE_MINUTES_S, midnight) : [],
          samples(60, nowSeconds() - HOUR_S),
        ]);
        return { day: [...rest.filter(([at]) => at < first), ...hours], hour };
      },
      draw: ({ day, hour }) => {
        const total = (samples) => samples.reduce((all, [, hits]) => all + hits, 0);
        body.replaceChildren(
          el("p", { class: "big" }, format.number(total(day))),
          el("dl", { class: "facts" }, el("dt", {}, "In the last hour"), el("dd", {}, format.number(total(hour)))),
        );
      },
    });
    return section;
  }

  /* The range */

  ranged() {
    this.rangeHeading = el("h2", { id: "range-title" });
    this.rangeForm = rangeForm((range) => this.onRange(range));
    const timed = this.counters.filter(({ time }) => time !== null);
    const visitors = this.counters.filter(({ uniques }) => uniques);
    return el(
      "section",
      { class: "range", "aria-labelledby": "range-title", hidden: timed.length + visitors.length === 0 },
      el("div", { class: "heading" }, this.rangeHeading, this.rangeForm.form),
      el(
        "div",
        { class: "histories" },
        timed.map((counter) => [this.history(counter), counter.columns.length > 0 && this.top(counter, "h3")]),
        visitors.map((counter) => this.visitors(counter)),
      ),
    );
  }

  history(counter) {
    const { section, body } = this.card(
      titleOf(counter),
      { class: "card wider", ...marksOf(counter, "range") },
      "h3",
    );
    const sums = el("p", { class: "sums" });
    const holder = el("div");
    const unit = unitOf(counter);
    const chart = this.chart(holder, {
      label: `${titleOf(counter)} by the ${unit.name}`,
      series: counter.time === "month" ? [LIVE, STORED] : [LIVE, STORED, BEFORE],
      kind: "bars",
      csv: () => this.askOf(counter, unit.asked(daysOf(this.range, counter.time === "hour"))),
      heading: format.title(unit.name),
      when: unit.when,
      axis: unit.axis,
      edge: unit.edge,
    });
    this.part(counter, body, {
      ranged: true,
      every: 2000,
      load: (signal) => this.ofRange(counter, {}, signal),
      empty: ({ rows }) =>
        rows.every(({ live, stored }) => live === 0 && stored === 0) ? "No hits in these days." : "",
      draw: (figures) => {
        if (!holder.isConnected) body.append(sums, holder);
        const of = `the sum of all ${unit.name}s`;
        drawSums(sums, figures, counter.uniques ? `${of}: who comes on several counts in each` : of);
        chart.draw(
          figures.rows.map((row, at) => [
            format.fieldTime(row.field),
            countOf(row),
            row.stored,
            ...(counter.time === "month" ? [] : [figures.before?.[at] ?? null]),
          ]),
          toldOf(figures.rows),
        );
      },
    });
    return section;
  }

  visitors(counter) {
    const name = named(counter.uniques, this.store);
    const { section, body } = this.card("Different visitors", { "data-uniques": name }, "h3");
    const sums = el("p", { class: "sums" });
    const holder = el("div");
    const chart = this.chart(holder, {
      label: "Different visitors by the day",
      series: [{ name: "Visitors", colour: "--bar" }, BEFORE],
      kind: "bars",
      csv: () => [path`uniques/${name}`, daysOf(this.range)],
      heading: "Day",
      when: (x) => format.dayOrHour(x, false),
      axis: format.axisDay,
    });
    this.part(counter, body, {
      ranged: true,
      every: 3000,
      load: async (signal) => {
        const days = daysOf(this.range);
        const earlier = daysBefore(days);
        const [visitors, before] = await Promise.all([
          get(path`uniques/${name}`, days, signal),
          earlier && get(path`uniques/${name}`, earlier, signal),
        ]);
        return { ...visitors, before };
      },
      empty: ({ days }) =>
        days.every(({ count }) => count === 0) ? "No ids of visitors came in these days (UNIQ.ADD), so who came on several is not known." : "",
      draw: ({ count, exact, days, before }) => {
        if (!holder.isConnected) body.append(sums, holder);
        fill(
          sums,
          el("strong", { "data-value": count }, format.number(count)),
          el("span", {}, exact ? "exact" : "estimated, within about 1 %"),
          before && comparison(before.count, count, before.days.length),
        );
        chart.draw(
          days.map(({ day, count: visitors }, at) => [
            format.fieldTime(day),
            visitors,
            before?.days[at]?.count ?? null,
          ]),
          "Each counts once, on however many days",
        );
      },
    });
    return section;
  }

  /* The highest of a counter by what is no time; of one that has a time too, of the range */

  tops() {
    const lists = this.counters.filter(({ time, columns }) => time === null && columns.length > 0);
    const boxes = this.counters.filter(({ feeds }) => feeds.box);
    const cards = [...lists.map((counter) => this.top(counter)), ...boxes.map((counter) => this.busiest(counter))];
    return cards.length > 0 ? [el("div", { class: "columns narrow" }, ...cards)] : [];
  }

  /** For who set this up, where nothing has names yet. */
  nameless() {
    const lists = this.counters.filter(({ columns }) => columns.length > 0);
    if (lists.length === 0 || lists.some(({ label_column }) => label_column !== null)) return [];
    const how = "with counters.*.labels in tallyd's configuration they have names.";
    return [el("p", { class: "note" }, `Items are shown as they were counted; ${how}`)];
  }

  top(counter, level = "h2") {
    const timed = counter.time !== null;
    const title = `${titleOf(counter)}: the top ${TOP}${timed ? "" : " since counting began"}`;
    const { section, body, side } = this.card(title, marksOf(counter, "top"), level);
    const query = () => ({ top: TOP, ...(timed ? unitOf(counter).asked(daysOf(this.range, counter.time === "hour")) : {}) });
    const none = timed ? "No hits in these days." : "The table has no counts of it yet. They come with the first merge.";
    this.part(counter, body, {
      ranged: timed,
      every: 2000,
      load: (signal) => this.figures(counter, query(), signal),
      empty: ({ rows, mysql }) =>
        rows.length > 0 ? "" : mysql === "down" ? "MySQL is away, and tallyd did not ask it for this before." : none,
      draw: (figures) => {
        say(side, freshness(figures));
        side.title = MEANS;
        body.replaceChildren(
          scrolling(
            `${titleOf(counter)}, the highest`,
            table(`${titleOf(counter)}, the highest`, headsOf(counter), rankingOf(counter, figures.rows), {
              class: "ranking",
            }),
          ),
          saver(`${titleOf(counter)}, the highest`, () => this.askOf(counter, query())),
        );
      },
    });
    section.append(this.total(counter));
    return section;
  }

  /** Of one item, whether it is among the highest or not. */
  total(counter) {
    const timed = counter.time !== null;
    const column = counter.label_column ?? counter.columns.at(-1);
    const word = isPlain(counter) ? "item" : format.title(column).toLowerCase();
    const input = el("input", { autocomplete: "off", spellcheck: "false", required: true, size: "14" });
    const sums = el("div", { class: "sums" });
    let chosen = "";
    const part = this.part(counter, sums, {
      ranged: timed,
      every: 2000,
      load: (signal) => {
        const which = { [`key[${column}]`]: chosen };
        if (chosen === "") return null;
        const asked = timed ? this.ofRange(counter, which, signal) : this.figures(counter, { top: MOST, ...which }, signal);
        return asked.catch((problem) => {
          throw problem.status === 400 ? Object.assign(problem, { message: `"${chosen}" is no ${word} of this counter`, next: "" }) : problem;
        });
      },
      draw: (figures) =>
        figures
          ? drawSums(sums, figures, `${chosen}, ${timed ? "the sum of these days" : "since counting began"}`)
          : fill(sums),
    });
    const onsubmit = (event) => {
      event.preventDefault();
      chosen = input.value.trim();
      part.fresh();
    };
    return el(
      "div",
      { class: "total" },
      el(
        "form",
        { class: "fields", onsubmit },
        el("label", {}, `Total of one ${word} `, input),
        el("button", { type: "submit" }, "Show"),
      ),
      sums,
      part.note,
    );
  }

  busiest(counter) {
    const name = named(counter.feeds.box, this.store);
    const { section, body, side } = this.card("Busiest minutes", { "data-box": name });
    this.part(counter, body, {
      every: 3000,
      load: (signal) => get(path`boxes/${name}`, { top: TOP }, signal),
      empty: ({ buckets }) => (buckets.length > 0 ? "" : "No hits yet."),
      draw: ({ buckets, width }) => {
        say(side, titleOf(counter));
        const most = Math.max(1, ...buckets.map(([, hits]) => hits));
        const rows = buckets.map(([time, hits]) => [measured(format.moment(time), hits / most), format.number(hits)]);
        body.replaceChildren(
          table(
            "The busiest minutes",
            [
              { title: width === 60 ? "Minute" : `The ${format.duration(width)} from` },
              { title: "Hits", number: true },
            ],
            rows,
            { class: "ranking" },
          ),
          saver("The busiest minutes", () => [path`boxes/${name}`, { top: TOP }]),
        );
      },
    });
    return section;
  }

  /* Series: the last hour and the last day */

  fed() {
    return this.counters
      .filter(({ feeds }) => feeds.series)
      .map((counter) =>
        el(
          "div",
          { class: "columns" },
          this.recent(counter, "last hour", HOUR_S, 60),
          this.recent(counter, "last day", DAY_S, HOUR_S),
        ),
      );
  }

  recent(counter, of, span, precision) {
    const name = named(counter.feeds.series, this.store);
    const label = `${titleOf(counter)}, ${of}`;
    const { section, body } = this.card(label, { "data-series": name, "data-precision": precision });
    const holder = el("div");
    const chart = this.chart(holder, {
      label,
      series: [{ name: "Hits", colour: "--bar" }],
      csv: () => [path`series/${name}/${precision}`, { from: slotsFrom(span, precision) }],
      kind: precision === 60 ? "lines" : "bars",
      heading: precision === 60 ? "Minute" : "Hour",
      when: (x) => format.minute(x / 1000),
      axis: (x) => format.minute(x / 1000),
    });
    this.part(counter, body, {
      every: precision === 60 ? 2000 : 5000,
      load: (signal) => get(path`series/${name}/${precision}`, { from: slotsFrom(span, precision) }, signal),
      empty: ({ samples }) => (samples.length > 0 ? "" : `No hits in the ${of}.`),
      draw: ({ samples }) => {
        if (!holder.isConnected) body.append(holder);
        const rows = filled(samples, slotsFrom(span, precision), precision);
        const total = samples.reduce((all, [, hits]) => all + hits, 0);
        chart.draw(rows, `${format.number(total)} hits in all`);
      },
    });
    return section;
  }
}

/** A counter whose field names the count is shown as one for each count; what it feeds is shown once. */
function countsOf(counter) {
  if (counter.counts.length === 0) return [counter];
  const feeds = { series: null, box: null, event: null };
  return counter.counts.map((count, at) => ({ ...counter, count, feeds: at === 0 ? counter.feeds : feeds }));
}

const titleOf = ({ name, count }) => (count ? `${format.title(name)}: ${count}` : format.title(name));

const marksOf = ({ name, count }, figure) => ({
  "data-counter": name,
  "data-figure": figure,
  ...(count && { "data-count": count }),
});

const monthBegun = (at) => (at.getDate() === 1 ? format.month(at) : "");

/** How the times of a counter are asked for and shown. */
const UNITS = {
  date: { name: "day", asked: (days) => days, when: (x) => format.dayOrHour(x, false), axis: format.axisDay },
  hour: { name: "hour", asked: hoursOf, when: (x) => format.dayOrHour(x, true), axis: format.axisDay },
  month: { name: "month", asked: monthsOf, when: format.month, axis: monthBegun, edge: format.month },
};
const unitOf = ({ time }) => UNITS[time];

const isPlain = ({ field, columns }) => columns.length === 1 && (field === "integer" || field === "text");

function headsOf(counter) {
  const items = isPlain(counter) ? ["Item"] : counter.columns.map(format.title);
  return [...items.map((title) => ({ title })), { title: "Live", number: true }, { title: "Stored", number: true }];
}

function rankingOf({ columns, label_column }, rows) {
  const most = Math.max(1, ...rows.map((row) => countOf(row) ?? 0));
  return rows.map((row) => {
    const items = columns.map((column) =>
      itemOf(row.key ? row.key[column] : row.field, column === label_column ? row.label : null),
    );
    items[0] = measured(items[0], (countOf(row) ?? 0) / most);
    return [...items, format.number(row.live), format.number(row.stored)];
  });
}

/** Where a store is chosen. */
export function storeForm(value, onStore) {
  const input = el("input", {
    id: "store",
    name: "store",
    list: "stores",
    value,
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    size: "14",
  });
  const list = el("datalist", { id: "stores" });
  offer(input, list);
  const form = el(
    "form",
    { class: "fields", role: "search", "aria-label": "Choose a store" },
    el("label", { for: "store" }, called.word),
    input,
    list,
    el("button", { type: "submit" }, "Show"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    onStore(input.value.trim());
  });
  input.addEventListener("focus", () => input.select());
  return form;
}

/** The names of stores that begin as what is typed. The list is a help: any name can be entered. */
function offer(input, list) {
  let asked = null;
  const ask = async () => {
    const prefix = input.value.trim();
    if (prefix === asked) return;
    asked = prefix;
    const { stores, names } = await get("api/stores", { prefix, limit: 50 }).catch(() => ({ stores: [] }));
    if (asked === prefix)
      list.replaceChildren(...stores.map((value, at) => el("option", { value, label: names[at] && `${value} ${names[at]}` })));
  };
  input.addEventListener("input", ask);
  input.addEventListener("focus", ask, { once: true });
}

/** Of several rows; null where one of them is not known. */
function sumOf(rows) {
  const of = (which) => (rows.some((row) => row[which] === null) ? null : sum(rows, which));
  return { live: of("live"), stored: of("stored") };
}

function drawToday(body, figures) {
  const within = (from, to) => {
    const [first, last] = [format.today(from), format.today(to)];
    return sumOf(figures.rows.filter(({ field }) => field.slice(0, 8) >= first && field.slice(0, 8) <= last));
  };
  const begun = format.daysOfWeek();
  const up = figures.mysql === "up" && figures.redis === "up";
  const soFar = ({ live, stored }) => live ?? (up ? stored : null); // live is null in a sum over many hashes
  const now = within(0, 0);
  const week = soFar(within(-begun, 0));
  const last = countOf(within(-7 - begun, -7));
  const change = format.change(last, week);
  const least = figures.mysql === "down" && now.live !== null;
  const shown = soFar(now);
  body.replaceChildren(
    el(
      "p",
      { class: "big", "data-value": shown },
      least && el("span", { class: "least" }, "at least "),
      format.number(shown),
    ),
    el(
      "dl",
      { class: "facts" },
      el("dt", { title: MEANS }, `Stored, ${freshness(figures)}`),
      el("dd", { "data-stored": now.stored }, format.number(now.stored)),
      el("dt", {}, "Yesterday"),
      el("dd", {}, format.number(countOf(within(-1, -1)))),
      el("dt", { title: "From its first day up to today, with the hits that today has so far." }, "This week"),
      el("dd", { "data-week": week }, format.number(week), change && ` (${change})`),
      el("dt", { title: "As many days of the week before, the last of them whole." }, "Last week, to the same day"),
      el("dd", { "data-week": last }, format.number(last)),
    ),
  );
}

/** The figure of a row: live, where that is known. */
function countOf({ live, stored }) {
  return live ?? stored;
}

/** "+12 % against 1,234 in the 30 days before" */
function comparison(before, now, days) {
  const change = format.change(before, now);
  const figure = days === 1 ? "the day before" : `the ${format.number(days)} days before`;
  return el(
    "span",
    { "data-before": before, "data-change": change },
    change && el("b", {}, change),
    before ? `${change ? " against " : ""}${format.number(before)} in ${figure}` : `none in ${figure}`,
  );
}

function comparedWith({ rows, before }, now) {
  if (!before || before.includes(null)) return null;
  const total = before.reduce((sum_, count) => sum_ + count, 0);
  return comparison(total, now, rows[0].field.length > 8 ? rows.length / 24 : rows.length);
}

function drawSums(node, figures, of) {
  const { rows } = figures;
  const { live, stored } = sumOf(rows);
  fill(
    node,
    el("strong", { "data-live": live, "data-stored": stored }, format.number(live ?? stored)),
    el("span", {}, of),
    comparedWith(figures, live ?? stored),
    el("span", { title: MEANS }, `${format.number(stored)} stored, ${freshness(figures)}`),
  );
}

function toldOf(rows) {
  const highest = rows.reduce(
    (best, row) => ((row.live ?? row.stored ?? 0) > (best?.live ?? best?.stored ?? 0) ? row : best),
    null,
  );
  return highest
    ? `Most on ${format.field(highest.field)}: ${format.number(highest.live ?? highest.stored)}`
    : rows.some((row) => countOf(row) === null)
      ? "Not known"
      : "No hits";
}

/** An item by its name, and by its field, which is unique. */
function itemOf(field, label) {
  return label ? [el("bdi", {}, label), " ", el("span", { class: "quiet" }, field)] : el("bdi", {}, field);
}

function measured(text, part) {
  return el("span", { class: "measure" }, text, el("i", { style: `width: ${Math.max(1, Math.round(part * 100))}%` }));
}

/** The start of the first slot of the last `span` seconds, the open slot with them. */
function slotsFrom(span, precision) {
  const now = nowSeconds();
  return now - (now % precision) - span + precision;
}

/** Samples with the slots that had no hits, as rows of a chart. */
function filled(samples, from, precision) {
  const hits = new Map(samples);
  const rows = [];
  const last = Math.max(nowSeconds(), samples.at(-1)?.[0] ?? 0);
  for (let slot = from; slot <= last; slot += precision) rows.push([new Date(slot * 1000), hits.get(slot) ?? 0]);
  return rows;
}
