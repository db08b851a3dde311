// The cells side by side: which there are, how each is asked, and what is said of one that does not answer.

import { linkOut, make, notice, table } from "./dom.js";
import { json } from "./service.js";

/** The names of all cells; none where the page is about one deployment alone. */
export function cellsOf({ cell, cells }) {
  const all = [...new Set([...(cells ?? []), ...(cell ? [cell] : [])])].sort();
  return all.length > 1 ? all : [];
}

/** Whether what is asked of a cell goes through this replica: it does not for this replica's own, where it leads. */
export function isRelayed(status, cell) {
  if (cellsOf(status).length === 0) return false;
  return status.role !== "leader" || Boolean(cell && cell !== status.cell);
}

/** What the paths of requests to a cell begin with; no cell is this replica's own. */
export function baseOf(status, cell) {
  return isRelayed(status, cell) ? `v1/cells/${encodeURIComponent(cell || status.cell)}/` : "v1/";
}

/**
 * Ask each cell at once by `ask(base)`. The result is a list of `{ cell, found }`, or `{ cell, error }` for a cell that
 * does not answer. What is wrong with this replica itself is thrown.
 */
export function ofEach(status, signal, ask) {
  return Promise.all(
    cellsOf(status).map(async (cell) => {
      try {
        return { cell, found: await ask(baseOf(status, cell)) };
      } catch (error) {
        if (signal.aborted || !isRelayed(status, cell)) throw error;
        return { cell, error };
      }
    }),
  );
}

/**
 * A page of what all cells have, `list(found)` of each, up to the name where the first of those cells that have more was
 * cut off: there, the next page begins in each cell. The token of a page is that of its last name, whichever cell made it.
 */
export function together(answers, list, name) {
  const cut = answers
    .filter(({ found }) => found?.next && list(found).length > 0)
    .map(({ found }) => ({ last: name(list(found).at(-1)), next: found.next }))
    .reduce((best, each) => (best === null || each.last < best.last ? each : best), null);
  const rows = answers.flatMap(({ cell, found }) => (found ? list(found) : []).map((row) => ({ ...row, cell })));
  return { rows: cut === null ? rows : rows.filter((row) => name(row) <= cut.last), next: cut?.next ?? null };
}

/** One sentence for each cell that did not answer. */
export function away(answers, what) {
  return answers
    .filter(({ error }) => error)
    .map(({ cell, error }) => {
      const said = notice(`Cell ${cell} does not answer, so ${what} are not shown: ${error.message}`);
      said.dataset.key = `away-${cell}`;
      return said;
    });
}

/** The leaders of all cells; null without cells. */
export async function leaders(status, signal) {
  if (cellsOf(status).length === 0) return null;
  return ofEach(status, signal, (base) => json(`${base}status`, signal));
}

export function leadersOf(answers) {
  if (answers === null) return [];
  return [
    make("h2", { "data-key": "cells-title" }, "Cells"),
    table(
      "As each answers this replica",
      [
        ["Cell", ({ cell }) => cell],
        ["State", ({ error, found }) => (error ? make("span", { class: "bad" }, "away") : found.leader ? make("span", { class: "good" }, "led") : make("span", { class: "bad" }, "nobody leads"))],
        ["Leader", ({ found }) => (found?.leader ? linkOut(found.leader, found.leader) : "–")],
        ["Term", ({ found }) => found?.term ?? "–", true],
        ["Version", ({ found }) => found?.version ?? "–"],
        ["What was said", ({ error }) => error?.message ?? "–"],
      ],
      answers,
      ({ cell }) => cell,
    ),
  ];
}
