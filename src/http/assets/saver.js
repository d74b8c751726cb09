/* saver.js - a button that saves the figures beside it as CSV. */
import { save } from "./api.js";
import { el, say } from "./dom.js";

/** csv(): [where, query] of what is shown. */
export function saver(label, csv) {
  const problem = el("span", { class: "trouble quiet", role: "status" });
  const button = el("button", { type: "button", class: "plain save", "aria-label": `${label}: save as CSV` }, "CSV");
  button.addEventListener("click", async () => {
    say(problem, "");
    button.disabled = true;
    await save(...csv()).catch(({ message }) => say(problem, `${message} `));
    button.disabled = false;
  });
  return el("span", { class: "saver" }, problem, button);
}
