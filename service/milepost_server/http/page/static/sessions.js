// The living sessions, a page at a time: what each holds, and when it would end.

import { away, baseOf, cellsOf, isRelayed, ofEach, together } from "./cells.js";
import { link, make, notice, table } from "./dom.js";
import { span } from "./format.js";
import { pages } from "./pages.js";
import { principal } from "./access.js";
import { actNamed, button } from "./acts.js";
import { hashOfJob } from "./router.js";
import { json } from "./service.js";

const LIMIT = 50;

export const title = () => "Sessions";

export async function load(route, status, signal) {
  const after = route.after ? `&token=${encodeURIComponent(route.after)}` : "";
  const ask = (base) => json(`${base}sessions?limit=${LIMIT}${after}`, signal);
  const [answers, alone, who] = await Promise.all([
    ofEach(status, signal, ask),
    cellsOf(status).length === 0 ? ask(baseOf(status)) : null,
    principal(signal),
  ]);
  const mayEnd = who.admin || who.writer.length > 0;
  if (alone !== null) return { ...alone, answers, mayEnd };
  const { rows, next } = together(answers, ({ sessions }) => sessions, ({ session }) => session);
  const sessions = rows.sort((one, other) => (one.session < other.session ? -1 : 1));
  return { sessions, next, corrupt: answers.flatMap(({ found }) => found?.corrupt ?? []), answers, mayEnd };
}

export function render(page, status, route) {
  const isOwn = (row) => !isRelayed(status, row.cell);
  return [
    ...away(page.answers, "its sessions"),
    table(
      "Living sessions by id",
      [
        ["Session", (row) => make("code", {}, row.session)],
        ...(page.answers.length > 0 ? [["Cell", (row) => row.cell]] : []),
        ["Holder", (row) => row.holder || "–"],
        ["Ends in, unless renewed", (row) => span(row.expires_in), true],
        ["TTL", (row) => span(row.ttl), true],
        ["Locks", locks, true],
        ["Epochs", (row) => epochs(row, isOwn(row) ? null : row.cell)],
        ...(page.mayEnd ? [["Acts", (row) => (isOwn(row) ? button(actNamed("end-session"), row) : "")]] : []),
      ],
      page.sessions,
      (row) => (row.cell ? `${row.cell}/${row.session}` : row.session),
    ),
    ...page.corrupt.map(({ name, reason }) => notice(`The record of session ${name} is damaged: ${reason}`)),
    ...pages("#/sessions", route, page.next, page.sessions.length + page.corrupt.length),
  ];
}

function locks(row) {
  return row.locked_stores === 0 ? row.locks : `${row.locks}, and ${row.locked_stores} whole`;
}

function epochs(row, cell) {
  if (row.epochs.length === 0) return "–";
  const held = row.epochs.map(({ store, epoch }, index) => [
    index ? ", " : null,
    link(hashOfJob(store, { cell }), `${store} (${epoch})`),
  ]);
  return make("span", {}, held.flat(), row.more_epochs ? " and more" : null);
}
