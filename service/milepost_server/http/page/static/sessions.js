// The living sessions, a page at a time: what each holds, and when it would end.

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
  const [page, who] = await Promise.all([
    json(`v1/sessions?limit=${LIMIT}${route.after ? `&token=${encodeURIComponent(route.after)}` : ""}`, signal),
    principal(signal),
  ]);
  return { ...page, mayEnd: who.admin || who.writer.length > 0 };
}

export function render(page, status, route) {
  return [
    table(
      "Living sessions by id",
      [
        ["Session", (row) => make("code", {}, row.session)],
        ["Holder", (row) => row.holder || "–"],
        ["Ends in, unless renewed", (row) => span(row.expires_in), true],
        ["TTL", (row) => span(row.ttl), true],
        ["Locks", locks, true],
        ["Epochs", epochs],
        ...(page.mayEnd ? [["Acts", (row) => button(actNamed("end-session"), row)]] : []),
      ],
      page.sessions,
      (row) => row.session,
    ),
    ...page.corrupt.map(({ name, reason }) => notice(`The record of session ${name} is damaged: ${reason}`)),
    ...pages("#/sessions", route, page.next, page.sessions.length + page.corrupt.length),
  ];
}

function locks(row) {
  return row.locked_stores === 0 ? row.locks : `${row.locks}, and ${row.locked_stores} whole`;
}

function epochs(row) {
  if (row.epochs.length === 0) return "–";
  const held = row.epochs.map(({ store, epoch }, index) => [
    index ? ", " : null,
    link(hashOfJob(store), `${store} (${epoch})`),
  ]);
  return make("span", {}, held.flat(), row.more_epochs ? " and more" : null);
}
