/* theme.js - before the first paint: the theme that the reader chose, else none, and then the system's holds.
 * A classic script in <head>, since a module would run only after the page was shown in the wrong colours. */
(() => {
  try {
    const chosen = localStorage.getItem("tallyd.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    /* storage is forbidden: the system's theme */
  }
})();
