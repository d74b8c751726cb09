/* part.js - one part of a view: loads, and shows that it loads, that there is nothing, that it failed, or the figures.
 *
 *  loading --load()--> ready | empty | failed        changed() asks again, at most once in `every` ms
 * While it loads again, and when that fails, the old content remains, with a line that says so. One load at a time:
 * what changes during a load is loaded after it, so that the last change is always seen. */
import { told } from "./api.js";
import { el } from "./dom.js";

const AGAIN_MS = 5000; // a load that failed is repeated automatically

export class Part {
  /** body: where it draws. load(signal) -> data; draw(data, body); empty(data) -> text where there is nothing to draw;
   *  missing(): nothing is known yet, and asking for it failed. */
  constructor(body, { load, draw, empty = () => "", missing = () => {}, every = 1000 }) {
    Object.assign(this, { body, load, draw, empty, missing, every });
    this.note = el("p", { class: "note trouble", role: "status" });
    this.ended = new AbortController();
    this.timer = null;
    this.running = this.again = this.drawn = false;
    this.began = -Infinity;
    this.wait();
    body.after(this.note);
  }

  wait() {
    this.body.setAttribute("aria-busy", "true");
    this.body.replaceChildren(el("p", { class: "waiting" }, "Loading"));
  }

  /** Something that it shows has changed. */
  changed() {
    if (this.running) this.again = true;
    else if (this.timer === null) {
      const rest = this.began + this.every - performance.now();
      this.timer = setTimeout(() => this.now(), Math.max(0, rest));
    }
  }

  /** The reader chose something else: load at once, and mark the old content as not for this choice (panel.css). */
  async fresh() {
    this.body.setAttribute("aria-busy", "true");
    this.ended.abort();
    this.ended = new AbortController();
    this.running = false;
    await this.now();
  }

  async now() {
    clearTimeout(this.timer);
    this.timer = null;
    const { signal } = this.ended;
    if (signal.aborted) return;
    this.running = true;
    this.again = false;
    this.began = performance.now();
    try {
      const data = await this.load(signal);
      if (!signal.aborted) this.show(data);
    } catch (problem) {
      if (!signal.aborted) this.fail(problem);
    }
    if (signal.aborted) return;
    this.running = false;
    if (this.again && this.timer === null) this.changed();
  }

  show(data) {
    this.body.setAttribute("aria-busy", "false");
    this.note.replaceChildren();
    const nothing = this.empty(data);
    if (nothing) return this.sayNothing(nothing);
    if (!this.drawn) this.body.replaceChildren();
    this.drawn = true;
    this.draw(data, this.body);
  }

  sayNothing(text) {
    this.drawn = false;
    this.body.replaceChildren(el("p", { class: "nothing" }, text));
  }

  fail(problem) {
    this.body.setAttribute("aria-busy", "false");
    if (problem.status === 404) return this.sayNothing(`${told({ message: problem.message })}.`); // no such store, not yet at least
    if (!(problem.status >= 0)) console.error(problem); // ours, not tallyd's
    const text = told(problem);
    if (!this.drawn) {
      this.body.replaceChildren();
      this.missing();
    }
    if (!problem.status || problem.status >= 500) this.timer ??= setTimeout(() => this.now(), AGAIN_MS);
    if (this.note.firstChild?.textContent === text) return;
    this.note.replaceChildren(
      el("span", {}, text),
      " ",
      el("button", { type: "button", class: "plain", onclick: () => this.now() }, "Try again"),
    );
  }

  close() {
    this.ended.abort();
    clearTimeout(this.timer);
    this.note.remove();
  }
}
