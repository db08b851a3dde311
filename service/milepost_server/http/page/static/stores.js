// The stores, a page at a time: who leads each, the last batch of its job, and damage.

import { link, make, table } from "./dom.js";
import { age } from "./format.js";
import { pages } from "./pages.js";
import { hashOfStore } from "./router.js";
import { json, serverTime } from "./service.js";

const LIMIT = 50;

export const title = () => "Stores";

export function load(route, status, signal) {
  return json(`v1/stores?limit=${LIMIT}${route.after ? `&token=${encodeURIComponent(route.after)}` : ""}`, signal);
}

export function render(page, status, route) {
  return [
    table(
      "Stores by name",
      [
        ["Store", (row) => link(hashOfStore(row.store), row.store)],
        ["Handles", (row) => row.handles.toLocaleString("en"), true],
        ["Epoch", (row) => (row.epoch === null ? make("span", { class: "bad" }, "unreadable") : row.epoch || "none yet"), true],
        ["Led by", (row) => row.holder || row.session || "nobody"],
        ["Since", (row) => age(row.since, serverTime())],
        ["Last batch", (row) => (row.snapshot ? `${row.snapshot.batch} in ${row.snapshot.directory || "/"}` : "–")],
        ["Damaged records", (row) => (row.damaged ? make("span", { class: "bad" }, row.damaged) : "0"), true],
      ],
      page.stores,
      (row) => row.store,
    ),
    ...pages("#/stores", route, page.next, page.stores.length),
    openByName(),
  ];
}

/** Who may see one store, and not the list, goes there by its name. */
export const instead = () => [openByName()];

function openByName() {
  const name = make("input", { name: "store", required: true, autocomplete: "off", spellcheck: "false" });
  const form = make("form", { "data-key": "open" }, make("label", {}, "Name of a store", name), make("button", {}, "Show it"));
  form.dataset.does = "open-store";
  return form;
}
