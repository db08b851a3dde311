// Make elements. Text only ever becomes a text node: names and labels come from strangers, and must stay text.

/** Make an element with attributes and children; children that are no nodes become text, and null is left out. */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/** Make an element of a drawing, with a title that a pointer shows. */
export function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.flat().filter((child) => child !== null));
  return element;
}

/** Make the title of a part of a drawing. */
export function hint(text) {
  return draw("title", {}, document.createTextNode(text));
}

/** Make a link within the page. */
export function link(hash, text, attributes = {}) {
  return make("a", { href: hash, ...attributes }, text);
}

/** Make a link to another replica's page; an address that is not http or https stays text. */
export function linkToReplica(address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return document.createTextNode(address);
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") return document.createTextNode(address);
  return make("a", { href: `${url.href.replace(/\/+$/, "")}/${location.hash}`, rel: "noreferrer" }, address);
}

/** Make a sentence that stands out. */
export function notice(...children) {
  return make("p", { class: "notice" }, ...children);
}

/** Make a link to an address elsewhere, such as Spark's user interface; one that is not http or https stays text. */
export function linkOut(address, text) {
  if (!URL.canParse(address) || !["http:", "https:"].includes(new URL(address).protocol)) return document.createTextNode(address);
  return make("a", { href: address, rel: "noreferrer noopener", target: "_blank" }, text);
}

/** Make a part of a view with a heading of its own. */
export function card(key, title, aside, ...children) {
  const id = `card-${key}`;
  const head = make("div", { class: "card-head" }, make("h2", { id }, title), aside === null ? null : make("div", { class: "card-aside" }, aside));
  return make("section", { class: `card card-${key}`, "data-key": `card-${key}`, "aria-labelledby": id }, head, ...children);
}

/**
 * Make a table. Each column is [title, cell of a row, is it a number?]; the first one names the row. `keyOf` tells rows
 * apart when they are shown anew. On a narrow screen each row is a block with the titles beside the cells: the roles are
 * written out, since elements that are laid out otherwise lose theirs.
 */
export function table(caption, columns, rows, keyOf) {
  const head = columns.map(([title, , number]) =>
    make("th", { scope: "col", role: "columnheader", class: number ? "number" : null }, title),
  );
  const body = rows.map((row) =>
    make(
      "tr",
      { "data-key": keyOf(row), role: "row" },
      columns.map(([title, cell, number], index) => {
        const content = make("div", { class: "cell" }, cell(row));
        const className = number ? "number" : null;
        return index === 0
          ? make("th", { scope: "row", role: "rowheader", class: className }, content)
          : make("td", { role: "cell", class: className, "data-label": title }, content);
      }),
    ),
  );
  const made = make(
    "table",
    { class: "rows", role: "table" },
    make("caption", {}, caption),
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, head)),
    make("tbody", { role: "rowgroup" }, body),
  );
  return make("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: "0" }, made);
}

/** Make a list of terms and what is said of them, as a table of two columns. */
export function facts(caption, pairs) {
  const rows = pairs.map(([name, value]) => make("tr", { "data-key": name }, make("th", { scope: "row" }, name), make("td", {}, value)));
  return make("table", { class: "facts" }, make("caption", {}, caption), make("tbody", {}, rows));
}

const adopters = [];

/** Let `adopt(old, fresh)` be called whenever an element takes over from another what it shows. */
export function onMorph(adopt) {
  adopters.push(adopt);
}

/**
 * Let `old` show what `fresh` shows, and keep those of its elements that are still there: so the keyboard's focus, a
 * selection and the place that was scrolled to survive a refresh.
 */
export function morph(old, fresh) {
  for (const adopt of adopters) adopt(old, fresh);
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  morphChildren(old, [...fresh.childNodes]);
}

/** Let the children of `parent` be these; one with a `data-key` takes the place of the one that has the same key. */
export function morphChildren(parent, fresh) {
  const kept = new Set(fresh.map(keyOf));
  for (const child of [...parent.childNodes]) if (keyOf(child) !== null && !kept.has(keyOf(child))) child.remove();
  let cursor = parent.firstChild;
  for (const child of fresh) {
    if (cursor !== null && cursor.nodeName === child.nodeName && keyOf(cursor) === keyOf(child)) {
      const next = cursor.nextSibling;
      if (cursor.nodeType === Node.ELEMENT_NODE) morph(cursor, child);
      else if (cursor.data !== child.data) cursor.data = child.data;
      cursor = next;
    } else {
      parent.insertBefore(child, cursor);
    }
  }
  while (cursor !== null) {
    const next = cursor.nextSibling;
    cursor.remove();
    cursor = next;
  }
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
}
