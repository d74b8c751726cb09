/* format.js - numbers, days, times and sizes as the reader's own locale and time zone write them. */

const locales = navigator.languages?.length ? [...navigator.languages] : undefined;
const made = new Map();

function formatter(Kind, options) {
  const key = Kind.name + JSON.stringify(options);
  if (!made.has(key)) made.set(key, new Kind(locales, options));
  return made.get(key);
}
const numbers = (options) => formatter(Intl.NumberFormat, options);
const dates = (options) => formatter(Intl.DateTimeFormat, options);

let zone; // of the store that is shown; undefined: the reader's own
const zoned = (options) => dates({ ...options, timeZone: zone });

/* Moments are shown in this zone from now on; null, or one that the browser does not know: in the reader's own. */
export function useZone(name) {
  try {
    zone = name ? new Intl.DateTimeFormat(undefined, { timeZone: name }).resolvedOptions().timeZone && name : undefined;
  } catch {
    zone = undefined;
  }
  return zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
}

export const MISSING = "–";

export function number(value) {
  return value === null || value === undefined ? MISSING : numbers({ maximumFractionDigits: 0 }).format(value);
}

/** From one figure to another, in percent: +12 %, -3.4 %; empty where there is nothing to compare with. */
export function change(from, to) {
  if (!from || to === null || to === undefined) return "";
  const part = (to - from) / Math.abs(from);
  const digits = Math.abs(part) < 0.1 ? 1 : 0;
  return numbers({ style: "percent", signDisplay: "exceptZero", maximumFractionDigits: digits }).format(part);
}

/** For axes and drawings, where room is scarce: 12K, 3.4M. */
export function compact(value) {
  return numbers({ notation: "compact", maximumSignificantDigits: 3 }).format(value);
}

/** A rate of which small values matter: 0.4, 12, 3,400. */
export function rate(value) {
  return value === null || value === undefined
    ? MISSING
    : numbers({ maximumFractionDigits: value < 10 ? 1 : 0 }).format(value);
}

function inUnit(value, unit) {
  return numbers({ style: "unit", unit, unitDisplay: "short", maximumSignificantDigits: value >= 100 ? 4 : 3 }).format(
    value,
  );
}

/** Seconds as a reader says them: 350 μs, 4.2 ms, 12 sec, 3 min, 5 hr. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return MISSING;
  if (seconds === 0) return inUnit(0, "second");
  if (seconds < 0.001) return inUnit(Math.max(1, Math.round(seconds * 1e6)), "microsecond");
  if (seconds < 1) return inUnit(seconds * 1000, "millisecond");
  if (seconds < 120) return inUnit(seconds < 10 ? seconds : Math.round(seconds), "second");
  if (seconds < 7200) return inUnit(Math.round(seconds / 60), "minute");
  return seconds < 172800 ? inUnit(Math.round(seconds / 3600), "hour") : inUnit(Math.round(seconds / 86400), "day");
}

export function bytes(value) {
  if (value === null || value === undefined) return MISSING;
  const units = ["byte", "kilobyte", "megabyte", "gigabyte"];
  let at = 0;
  for (; value >= 1000 && at < units.length - 1; at++) value /= 1000;
  return inUnit(value, units[at]);
}

/** 14:03:07; with the day when that is not today. */
export function clock(seconds) {
  if (seconds === null || seconds === undefined) return MISSING;
  const at = new Date(seconds * 1000);
  const day = dayOf(at) === dayOf(new Date()) ? {} : { month: "short", day: "numeric" };
  return zoned({ hour: "2-digit", minute: "2-digit", second: "2-digit", ...day }).format(at);
}

/** 14:03 */
export function minute(seconds) {
  return zoned({ hour: "2-digit", minute: "2-digit" }).format(new Date(seconds * 1000));
}

/** Fri 21 Nov, 14:03 */
export function moment(seconds) {
  return zoned({ weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }).format(
    new Date(seconds * 1000),
  );
}

/* Days travel as YYYYMMDD, hours as YYYYMMDDHH, months as YYYYMM: what the shop wrote down, in no time zone. They are shown as that. */
export function fieldTime(field) {
  const text = String(field);
  return new Date(
    Number(text.slice(0, 4)),
    Number(text.slice(4, 6)) - 1,
    Number(text.slice(6, 8) || 1),
    Number(text.slice(8, 10) || 0),
  );
}

/** The same in words. */
export function field(value) {
  const { length } = String(value);
  return length < 8 ? month(fieldTime(value)) : dayOrHour(fieldTime(value), length > 8);
}

/** A row of a chart: Fri 21 Nov, or with its hour. */
export function dayOrHour(date, hourly) {
  const hour = hourly ? { hour: "2-digit", minute: "2-digit" } : {};
  return dates({ weekday: "short", day: "numeric", month: "short", ...hour }).format(date);
}

export function month(date) {
  return dates({ month: "short", year: "numeric" }).format(date);
}

export function axisDay(at) {
  return dates({ day: "numeric", month: "short" }).format(at);
}

/** Friday, 21 November 2026 */
export function longDay(date) {
  return dates({ weekday: "long", day: "numeric", month: "long", year: "numeric" }).format(date);
}

/** 1 – 20 Nov 2026 */
export function days(from, to) {
  return dates({ day: "numeric", month: "short", year: "numeric" }).formatRange(from, to);
}

/** The day of a moment as YYYYMMDD. */
function dayOf(at) {
  const options = { timeZone: zone, calendar: "gregory", numberingSystem: "latn" };
  const parts = new Intl.DateTimeFormat("en", { ...options, year: "numeric", month: "2-digit", day: "2-digit" });
  const part = Object.fromEntries(parts.formatToParts(at).map(({ type, value }) => [type, value]));
  return `${part.year.padStart(4, "0")}${part.month}${part.day}`;
}

/** Today as YYYYMMDD; offset in days. */
export function today(offset = 0) {
  const now = fieldTime(dayOf(new Date()));
  return compactDay(new Date(now.getFullYear(), now.getMonth(), now.getDate() + offset));
}

/** How many days of this week are before today. A week begins as the reader's locale has it, or on Monday. */
export function daysOfWeek() {
  const locale = new Intl.Locale(new Intl.DateTimeFormat(locales).resolvedOptions().locale);
  const { firstDay } = locale.getWeekInfo?.() ?? locale.weekInfo ?? { firstDay: 1 };
  return (fieldTime(today()).getDay() - firstDay + 7) % 7;
}

export function compactDay(date) {
  const two = (part) => String(part).padStart(2, "0");
  return `${String(date.getFullYear()).padStart(4, "0")}${two(date.getMonth() + 1)}${two(date.getDate())}`;
}

/** 20261121 <-> 2026-11-21, as <input type=date> has it */
export const dashed = (day) => `${day.slice(0, 4)}-${day.slice(4, 6)}-${day.slice(6, 8)}`;
export const undashed = (day) => day.replaceAll("-", "");

/** unique_visitors -> Unique visitors */
export function title(name) {
  const words = name.replaceAll("_", " ").trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
