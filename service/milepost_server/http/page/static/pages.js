// The way from page to page. The address of the view says which page it is, so the browser's own "back" works too.

import { link, make } from "./dom.js";
import { count } from "./format.js";

export function pages(hash, route, next, shown) {
  const first = route.after ? link(hash, "First page") : null;
  const following = next === null ? null : link(`${hash}?after=${encodeURIComponent(next)}`, "Next page");
  const said = make("span", { class: "quiet" }, `${count(shown, "entry", "entries")} on this page. `);
  if (first === null && following === null) return [make("p", { class: "pages", "data-key": "shown" }, said)];
  return [
    make("p", { class: "pages", "data-key": "shown" }, said),
    make("nav", { class: "pages", "aria-label": "Pages", "data-key": "pages" }, first, first && following ? " " : null, following),
  ];
}
