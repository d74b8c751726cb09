/* part.js - one part of a view: loads, and shows that it loads, that there is nothing, that it failed, or the figures.
 *
 *   loading --load()--> ready | empty | failed        changed() asks again, at most once in `every` ms
 * What was shown stays while it loads again, and when that fails, with a line that says so. One load at a time: what
 * changes during a load is loaded after it, so that the last change is always seen. */
import { el } from "./dom.js";

export class Part {
  /** body: where it draws. load(signal) -> data; draw(data, body); empty(data) -> text where there is nothing to draw. */
  constructor(body, { load, draw, empty = () => "", every = 1000 }) {
    Object.assign(this, { body, load, draw, empty, every });
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

  /** Another choice of the reader's: at once, and what stood there is not shown as if it were the answer. */
  async fresh() {
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
    if (this.again) this.changed();
  }

  show(data) {
    this.body.setAttribute("aria-busy", "false");
    this.note.replaceChildren();
    const nothing = this.empty(data);
    if (nothing) {
      this.drawn = false;
      this.body.replaceChildren(el("p", { class: "nothing" }, nothing));
      return;
    }
    if (!this.drawn) this.body.replaceChildren();
    this.drawn = true;
    this.draw(data, this.body);
  }

  fail(problem) {
    this.body.setAttribute("aria-busy", "false");
    if (!(problem.status >= 0)) console.error(problem); // ours, not tallyd's
    const text = [problem.message, problem.next].filter(Boolean).join(". ");
    if (!this.drawn) this.body.replaceChildren();
    if (this.note.firstChild?.textContent === text) return;
    this.note.replaceChildren(el("span", {}, text), " ",
      el("button", { type: "button", class: "plain", onclick: () => this.now() }, "Try again"));
  }

  close() {
    this.ended.abort();
    clearTimeout(this.timer);
    this.note.remove();
  }
}
