/* flow.js - the way of a hit, drawn: six steps, each with what moves through it and what waits in it. It is drawn
 * across where there is room, else downwards. Dots say where hits go. They run when the pace changes, not all the time,
 * since that would cost a processor. The same is written beside it, for readers who cannot see the drawing. */
import { el, say, svg, table } from "./dom.js";
import * as format from "./format.js";

const WIDE = { box: [152, 112], gap: 38, size: [1102, 158] };
const TALL = { box: [340, 66], gap: 26, size: [340, 530] };
const ROOM = 900; // pixels from which it is drawn across

export const STEPS = [
  { id: "socket", name: "Socket", of: "hits a second", means: "Clients send hits here." },
  {
    id: "frame",
    name: "Frame",
    of: "frames a second",
    means: "The hits of many clients go to Redis together, as one transaction. A cell is one field of it, with the sum of its hits.",
  },
  {
    id: "pending",
    name: "Redis: pending",
    of: "hashes wait",
    means: "Hits in Redis that no batch has taken yet. They wait until their counter is due (sync.hits, sync.every).",
  },
  {
    id: "claimed",
    name: "Claimed",
    of: "batches in flight",
    means: "Due hashes are taken away together, as a batch, whose rows go to MySQL.",
  },
  {
    id: "fence",
    name: "Fence",
    of: "held",
    means: "A batch waits here until Redis cannot lose it any more: then it can be merged exactly once.",
  },
  { id: "mysql", name: "MySQL", of: "rows a second", means: "The rows are in the shop's own table." },
];

export class Flow {
  constructor(holder) {
    this.holder = holder;
    this.drawing = el("div", { class: "flow" });
    this.words = el("details", { class: "figures" }, el("summary", {}, "As a table"), el("div"));
    holder.replaceChildren(this.drawing, this.words);
    this.observer = new ResizeObserver(() => this.lay());
    this.observer.observe(this.drawing);
  }

  close() {
    this.observer.disconnect();
  }

  lay() {
    const wide = this.drawing.clientWidth >= ROOM;
    if (this.wide === wide || this.drawing.clientWidth === 0) return;
    this.wide = wide;
    const { size } = wide ? WIDE : TALL;
    this.steps = STEPS.map((step, at) => (wide ? across(step, at) : downwards(step, at)));
    this.drawing.replaceChildren(
      svg(
        "svg",
        {
          viewBox: `0 0 ${size[0]} ${size[1]}`,
          role: "img",
          "aria-label": "The way of a hit, from the socket over Redis to MySQL. A table below has the figures.",
          style: wide ? null : "max-width: 26rem",
        },
        this.pipes(wide),
        this.steps.map(({ group }) => group),
      ),
    );
    if (this.shown) this.draw(this.shown);
  }

  pipes(wide) {
    this.runs = [];
    const lines = [];
    for (let at = 1; at < STEPS.length; at++) {
      const from = wide ? at * (WIDE.box[0] + WIDE.gap) - WIDE.gap : at * (TALL.box[1] + TALL.gap) - TALL.gap;
      const d = wide ? `M${from} ${WIDE.box[1] / 2} h${WIDE.gap}` : `M${TALL.box[0] / 2} ${from} v${TALL.gap}`;
      const run = svg("path", { class: "run", d, "data-pace": "0" });
      this.runs.push(run);
      lines.push(svg("path", { class: "pipe", d }), run);
    }
    return [...lines, wide && answered()];
  }

  /** figures: step id -> {value, small, state: "" | "busy" | "stuck", pace: what leaves it a second} */
  draw(figures) {
    this.shown = figures;
    if (!this.steps) return;
    STEPS.forEach(({ id }, at) => {
      const { group, value, small } = this.steps[at];
      const { state, value: now, small: note, pace } = figures[id];
      group.dataset.state = state;
      say(value, now);
      say(small, note);
      if (at < this.runs.length) run(this.runs[at], pace);
    });
    const rows = STEPS.map(({ id, name, of, means }) => [
      el("span", { title: means }, name),
      `${figures[id].value} ${of}`,
      figures[id].small,
    ]);
    this.words.lastChild.replaceChildren(
      table("The way of a hit", [{ title: "Step" }, { title: "Now" }, { title: "Besides" }], rows),
    );
  }
}

/* Where it is ten times as much, the dots go on by five. */
function run(path, pace) {
  const speed = pace > 0 ? Math.max(1, Math.floor(Math.log10(pace) + 1)) : 0;
  if (path.dataset.pace === String(speed)) return;
  path.dataset.pace = speed;
  path.style.strokeDashoffset = -80 * speed;
}

function across({ name, of, means }, at) {
  const [width, height] = WIDE.box;
  const value = svg("text", { class: "value", x: 14, y: 58 }, format.MISSING);
  const small = svg("text", { class: "small", x: 14, y: 98 });
  const group = svg(
    "g",
    { transform: `translate(${at * (width + WIDE.gap)} 0)` },
    svg("title", {}, means),
    svg("rect", { class: "box", width, height, rx: 10 }),
    svg("text", { class: "name", x: 14, y: 27 }, name),
    value,
    svg("text", { class: "small", x: 14, y: 79 }, of),
    small,
  );
  return { group, value, small };
}

function downwards({ name, of, means }, at) {
  const [width, height] = TALL.box;
  const value = svg("text", { class: "value", x: width - 14, y: 30, "text-anchor": "end" }, format.MISSING);
  const small = svg("text", { class: "small", x: 14, y: 51 });
  const group = svg(
    "g",
    { transform: `translate(0 ${at * (height + TALL.gap)})` },
    svg("title", {}, means),
    svg("rect", { class: "box", width, height, rx: 10 }),
    svg("text", { class: "name", x: 14, y: 28 }, name),
    value,
    svg("text", { class: "small", x: width - 14, y: 51, "text-anchor": "end" }, of),
    small,
  );
  return { group, value, small };
}

/** The way back: a client is answered once Redis has its hit. */
function answered() {
  const from = 2 * (WIDE.box[0] + WIDE.gap) + WIDE.box[0] / 2;
  const to = WIDE.box[0] / 2;
  const [top, low] = [WIDE.box[1], WIDE.box[1] + 24];
  return [
    svg("path", { class: "answer", d: `M${from} ${top} V${low} H${to} V${top + 5}` }),
    svg("path", {
      class: "answer",
      style: "stroke-dasharray: none",
      d: `M${to - 4} ${top + 9} L${to} ${top + 2} L${to + 4} ${top + 9}`,
    }),
    svg(
      "text",
      { class: "small", x: (from + to) / 2, y: low + 17, "text-anchor": "middle" },
      "answered once Redis has it",
    ),
  ];
}
