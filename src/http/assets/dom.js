/* dom.js - elements from data. Text is only ever set as text, so no name of a store or reason of a reject is markup. */

/** el("p", {class: "note", hidden: false}, "text", child, [more]) - undefined, null and false attributes are left out. */
export function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

/** Instead of what it has; undefined, null and false children are left out, as in el(): replaceChildren() writes them as words. */
export function fill(node, ...children) {
  node.replaceChildren();
  return filled(node, {}, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "style")
      node.style.cssText = value; // as an attribute, the page's Content-Security-Policy refuses it
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** Text with `commands` in it, as elements. */
export function coded(text) {
  return text.split("`").map((piece, at) => (at % 2 === 1 ? el("code", {}, piece) : piece));
}

/** Sets the text only when it differs: a screen reader is not told the same twice, and nothing is laid out again. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A table with a caption for readers who do not see its place on the page. columns: [{title, number, means}], rows: arrays of
 * cells. With class "stack" each row becomes a block of its own where the page is narrow (panel.css). A screen reader
 * would then not see a table, so every element states its role. */
export function table(caption, columns, rows, attributes = {}) {
  const cell = (name, role, at, content) =>
    el(
      name,
      {
        role,
        scope: name === "th" && (role === "rowheader" ? "row" : "col"),
        class: columns[at].number && "number",
        "data-title": columns[at].title,
        title: role === "columnheader" && columns[at].means,
      },
      content,
    );
  const head = columns.map(({ title }, at) => cell("th", "columnheader", at, title));
  const body = rows.map((row) =>
    el(
      "tr",
      { role: "row" },
      row.map((content, at) => (at === 0 ? cell("th", "rowheader", at, content) : cell("td", "cell", at, content))),
    ),
  );
  return el(
    "table",
    { role: "table", ...attributes },
    el("caption", { class: "unseen" }, caption),
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, head)),
    el("tbody", { role: "rowgroup" }, body),
  );
}

/** A region that scrolls sideways where the page is too narrow. The keyboard can reach it; otherwise its right side
 * could not be read. */
export function scrolling(label, child) {
  return el("div", { class: "scrolling", role: "region", "aria-label": label, tabindex: "0" }, child);
}
