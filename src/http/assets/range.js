/* range.js - the days that the merchant looks at: {from, to, days}, YYYYMMDD inclusive. days: how many days up to
 * today, and the range moves on with today; or null for a range that was chosen by its dates. In the address: ?days=30
 * or ?from=..&to=.. */
import { el } from "./dom.js";
import * as format from "./format.js";

const PRESETS = [7, 30, 90];
const DAYS_MOST = 366; // as many as uniques are counted together
const HOURS_MOST = 1000;
const DAY_MS = 86400000;
const TYPED_MS = 600; // while a day is typed, each digit may make a valid one

export function lastDays(days) {
  return { from: format.today(1 - days), to: format.today(), days };
}

const lengthOf = (from, to) => Math.round((format.fieldTime(to) - format.fieldTime(from)) / DAY_MS) + 1;

function backFrom(day, days) {
  const at = format.fieldTime(day);
  return format.compactDay(new Date(at.getFullYear(), at.getMonth(), at.getDate() - days));
}

/** What is wrong with it, "" for nothing. */
function fault(from, to) {
  if (!from || !to) return "Both days are needed.";
  if (from > to) return "The first day is after the last one.";
  return lengthOf(from, to) > DAYS_MOST ? `At most ${DAYS_MOST} days at a time.` : "";
}

export function rangeOf(parameters) {
  const [from, to] = [parameters.get("from") ?? "", parameters.get("to") ?? ""];
  const isDay = (text) => /^\d{8}$/.test(text) && format.compactDay(format.fieldTime(text)) === text;
  if (isDay(from) && isDay(to) && !fault(from, to)) return { from, to, days: null };
  const days = Number(parameters.get("days"));
  return lastDays(PRESETS.includes(days) ? days : 30);
}

export function rangeText({ from, to, days }) {
  return days === null ? `from=${from}&to=${to}` : `days=${days}`;
}

export function rangeTitle({ from, to, days }) {
  return days === null ? format.days(format.fieldTime(from), format.fieldTime(to)) : `Last ${days} days`;
}

/** For a query by the day: a range that goes up to today goes on when a new day begins. hourly: the latest of them where
 *  there are more hours than tallyd answers at once. */
export function daysOf(range, hourly = false) {
  const { from, to } = range.days === null ? range : lastDays(range.days);
  const most = Math.floor(HOURS_MOST / 24);
  return !hourly || lengthOf(from, to) <= most ? { from, to } : { from: backFrom(to, most - 1), to };
}

/** The days before, as many as these; null where there are none (before 1970). */
export function daysBefore({ from, to }) {
  const before = { from: backFrom(from, lengthOf(from, to)), to: backFrom(from, 1) };
  return before.from < "19700101" ? null : before;
}

/** For a query by the hour. */
export const hoursOf = ({ from, to }) => ({ from: `${from}00`, to: `${to}23` });

/** For a query by the month. */
export const monthsOf = ({ from, to }) => ({ from: from.slice(0, 6), to: to.slice(0, 6) });

/** form, and set(range) that shows a range in it; chosen(range): the reader chose another. */
export function rangeForm(chosen) {
  const pair = (text, input) => el("span", { class: "pair" }, el("label", { for: input.id }, text), input);
  const day = (id) => el("input", { type: "date", id, required: true });
  const [from, to] = [day("range-from"), day("range-to")];
  const problem = el("p", { class: "trouble quiet", role: "alert" });
  const buttons = PRESETS.map((days) =>
    el("button", { type: "button", "data-days": days, onclick: () => chosen(lastDays(days)) }, `${days} days`),
  );
  let typing = null;
  const done = () => {
    const [first, last] = [format.undashed(from.value), format.undashed(to.value)];
    problem.textContent = fault(first, last);
    if (!problem.textContent) chosen({ from: first, to: last, days: null });
  };
  const changed = () => {
    clearTimeout(typing);
    typing = setTimeout(done, TYPED_MS);
  };
  from.addEventListener("change", changed);
  to.addEventListener("change", changed);
  const form = el(
    "form",
    { class: "fields range", "aria-label": "Range of days", onsubmit: (event) => event.preventDefault() },
    buttons,
    pair("From", from),
    pair("to", to),
    problem,
  );
  return { form, set: (range) => show(range, { from, to, buttons, problem }) };
}

function show(range, { from, to, buttons, problem }) {
  for (const [input, day] of [
    [from, range.from],
    [to, range.to],
  ]) {
    if (input.value !== format.dashed(day)) input.value = format.dashed(day);
  }
  problem.textContent = "";
  for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.days) === range.days));
}
