/* chart.js - one chart: dygraphs (global, a classic script) on a canvas, a line that says what is under the pointer,
 * and the same figures as a table for readers who cannot see or hover. Colours are the theme's, looked up when it
 * draws. */
import { el, say, scrolling, table } from "./dom.js";
import * as format from "./format.js";
import { saver } from "./saver.js";

const LABEL_PIXELS = 84; // below a chart
const living = new Set();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);

// Its legend writes style attributes, which the page's Content-Security-Policy refuses; the line above a chart is ours.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

/** The theme changed. */
export function recolour() {
  for (const chart of living) chart.recolour();
}

/** The value of a custom property such as --accent under the current theme, as a colour that a canvas understands. */
function colourOf(name) {
  const probe = el("span", { style: `color: var(${name})`, hidden: true });
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function barWidth(points) {
  let least = Infinity;
  for (let at = 1; at < points.length; at++) least = Math.min(least, points[at].canvasx - points[at - 1].canvasx);
  return Math.max(1, Math.min(44, Number.isFinite(least) ? least * 0.72 : 44));
}

function bar(context, x, y, width, bottom, colour) {
  context.fillStyle = colour;
  context.beginPath();
  context.roundRect(x - width / 2, y, width, Math.max(0, bottom - y), [
    Math.min(3, width / 3),
    Math.min(3, width / 3),
    0,
    0,
  ]);
  context.fill();
}

export class Chart {
  /** series: [{name, colour: "--accent", thin}], drawn in this order, later ones over earlier, thin ones as a line;
   * when(x): a row's time in words; axis(x): the same, short; edge(x): of the first and the last, where axis leaves some out. csv(): [where, query] of the same figures, to be saved, where tallyd has them.
   * steps: what is between two labels beside it, the first with which five are enough.
   * kind: "bars" or "lines". value(v): a figure in words. */
  constructor(
    holder,
    { label, series, kind, when, axis, edge = axis, csv, steps, value = format.number, unit = format.compact, heading = "Time" },
  ) {
    Object.assign(this, { holder, label, series, kind, when, axis, edge, steps, value, unit, heading, rows: [], graph: null });
    this.readout = el("p", { class: "readout" });
    this.canvas = el("div", { class: "canvas", role: "img", "aria-label": label });
    this.summary = el("summary", {}, "As a table");
    this.details = el("details", { class: "figures", ontoggle: () => this.tabulate() }, this.summary);
    holder.replaceChildren(
      this.readout,
      this.canvas,
      el("div", { class: "below" }, this.details, csv && saver(label, csv)),
    );
    this.told = "No figures yet";
    this.point(-1);
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(this.canvas);
    living.add(this);
  }

  /** rows: [[Date, value of each series, ...], ...] ascending; told: the sentence that replaces the picture. */
  draw(rows, told = "") {
    this.rows = rows;
    this.told = told;
    this.canvas.setAttribute("aria-label", `${this.label}. ${told}. A table below has the figures.`);
    this.render();
    this.point(-1);
    this.tabulate();
  }

  tabulate() {
    if (!this.details.open) return;
    const columns = [{ title: this.heading }, ...this.series.map(({ name }) => ({ title: name, number: true }))];
    const rows = this.rows.map(([x, ...values]) => [this.when(x), ...values.map(this.value)]).reverse();
    const shown = scrolling(this.label, table(this.label, columns, rows));
    this.details.replaceChildren(this.summary, shown);
  }

  /** What the line above says: of the row under the pointer, or what the colours mean. */
  point(row) {
    if (row >= 0 && row < this.rows.length) {
      const [x, ...values] = this.rows[row];
      const figures = this.series.map(({ name }, at) =>
        this.series.length > 1 ? `${this.value(values[at])} ${name.toLowerCase()}` : this.value(values[at]),
      );
      this.readout.replaceChildren(el("strong", {}, this.when(x)), ` ${figures.join(" · ")}`);
      return;
    }
    const keys =
      this.series.length < 2
        ? []
        : this.series.map(({ name, colour }) =>
            el("span", { class: "key" }, el("span", { class: "swatch", style: `background: var(${colour})` }), name),
          );
    this.readout.replaceChildren(...keys, this.told || "\u00a0");
  }

  options() {
    const most = Math.max(4, ...this.rows.flatMap(([, ...values]) => values.map((v) => v ?? 0)));
    const small = this.canvas.clientWidth < 480;
    const ink = colourOf("--line");
    return {
      file: this.rows,
      labels: [this.heading, ...this.series.map(({ name }) => name)],
      colors: this.series.map(({ colour }) => colourOf(colour)),
      valueRange: [0, most * 1.08],
      // one row alone has no width: dygraphs would put it at the left edge, without a label
      dateWindow: this.rows.length === 1 ? [-1, 1].map((by) => this.rows[0][0].getTime() + by) : null,
      xRangePad: this.kind === "bars" ? Math.min(26, (0.4 * this.canvas.clientWidth) / this.rows.length) : 4, // half a bar, and more
      rightGap: LABEL_PIXELS / 2, // the last label is as much behind its place
      gridLineColor: ink,
      axisLineColor: ink,
      gridLineWidth: 1,
      drawAxesAtZero: true,
      axes: {
        x: {
          drawGrid: false,
          axisLabelFormatter: this.axis,
          pixelsPerLabel: LABEL_PIXELS + 12,
          axisTickSize: 6,
          axisLabelWidth: LABEL_PIXELS,
          ticker: (...given) => (small || this.rows.length === 1 ? this.ends() : this.spread(given)),
        },
        y: {
          axisLabelFormatter: (v) => this.whole(v),
          pixelsPerLabel: 38,
          axisLabelWidth: 58,
          ...(this.steps && { ticker: (from, to) => this.stepped(to) }),
        },
      },
      ...(this.kind === "bars"
        ? this.barOptions()
        : { fillGraph: this.series.length === 1, fillAlpha: 0.12, strokeWidth: 1.75, highlightCircleSize: 3.5 }),
    };
  }

  /** Where there is no room for more: a label at the first row, and at the last. */
  ends() {
    const ends = this.rows.length > 1 ? [this.rows[0], this.rows.at(-1)] : this.rows;
    return ends.map(([x]) => ({ v: x.getTime(), label: this.edge(x) }));
  }

  /** As dygraphs has them; one alone does not say how far it is to the next. */
  spread(given) {
    const labels = Dygraph.dateTicker(...given);
    return labels.filter(({ label }) => label).length > 1 ? labels : this.ends();
  }

  stepped(most) {
    const step = this.steps.find((each) => most < 5 * each) ?? this.steps.at(-1) * Math.ceil(most / 5 / this.steps.at(-1));
    return Array.from({ length: Math.floor(most / step) + 1 }, (_, at) => ({ v: at * step, label: this.unit(at * step) }));
  }

  barOptions() {
    return {
      plotter: ({ points, drawingContext, dygraph, color }) => {
        this.width = barWidth(points);
        for (const { canvasx, canvasy, yval } of points) {
          if (yval > 0) bar(drawingContext, canvasx, canvasy, this.width, dygraph.toDomYCoord(0), color);
        }
      },
      series: Object.fromEntries(
        this.series
          .filter(({ thin }) => thin)
          .map(({ name }) => [name, { plotter: Dygraph.Plotters.linePlotter, strokeWidth: 1.25 }]),
      ),
      highlightCircleSize: 0,
      drawHighlightPointCallback: (graph, name, context, x, y) => {
        if (name === this.series[0].name)
          bar(context, x, y, this.width, graph.toDomYCoord(0), colourOf("--accent-strong"));
      },
    };
  }

  whole(v) {
    return this.unit === format.compact && !Number.isInteger(v) ? "" : this.unit(v);
  }

  render() {
    if (this.canvas.clientWidth === 0 || this.rows.length === 0) return; // not seen: fit() draws it when it is
    const options = this.options();
    if (this.graph) return this.graph.updateOptions(options);
    const { file, ...rest } = options;
    this.graph = new Dygraph(this.canvas, file, {
      ...rest,
      showLabelsOnHighlight: false,
      axisLabelFontSize: 12,
      interactionModel: touches((x) => this.pick(x)),
      highlightCallback: (event, x, points, row) => this.point(row),
      unhighlightCallback: () => this.point(-1),
    });
  }

  pick(x) {
    const row = this.graph.findClosestRow(x);
    this.graph.setSelection(row);
    this.point(row);
  }

  fit() {
    if (this.graph) this.graph.resize();
    else this.render();
  }

  recolour() {
    if (this.graph) this.graph.updateOptions(this.options());
  }

  close() {
    living.delete(this);
    this.observer.disconnect();
    this.graph?.destroy();
    this.graph = null;
  }
}

/* A finger moves the pointer, and the page still scrolls; nothing zooms. */
function touches(pick) {
  const at = (event, graph) => pick(event.touches[0].clientX - graph.graphDiv.getBoundingClientRect().left);
  return { touchstart: at, touchmove: at };
}
