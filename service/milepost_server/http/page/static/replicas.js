// Who leads, which replicas there are, and whether the parts of this one are well.

import { principal } from "./access.js";
import { actsOn, button } from "./acts.js";
import { leaders, leadersOf } from "./cells.js";
import { facts, linkToReplica, make, notice, table } from "./dom.js";
import { clock, span } from "./format.js";
import { serverTime, text } from "./service.js";

const PARTS_EVERY = 30000; // a probe asks the storage itself

let parts = { at: 0, lines: [] };

export const title = () => "Replicas";

export async function load(route, status, signal) {
  if (Date.now() - parts.at > PARTS_EVERY) {
    const told = await text("readyz?verbose", signal);
    parts = { at: Date.now(), lines: told.trim().split("\n") };
  }
  const [who, cells] = await Promise.all([principal(signal), leaders(status, signal)]);
  return { lines: parts.lines, probed: parts.at, mayAct: who.admin, cells };
}

export function beside({ mayAct }, status) {
  const acts = mayAct ? actsOn("service").filter((act) => act.offered(status)) : [];
  return [make("div", { class: "acts", "data-key": "acts" }, acts.map((act) => button(act, status)))];
}

export function render({ lines, probed, cells }, status) {
  const led = status.leading_for ?? null;
  return [
    facts("This replica", [
      ["Replica", status.replica],
      ...(status.cell ? [["Cell", status.cell]] : []),
      ["Role", status.role],
      ["Leader", status.leader === null ? "nobody, as far as this replica knows" : leader(status)],
      ["Term", status.term],
      ["Leads since", led === null ? "–" : `${new Date(serverTime() - led * 1000).toLocaleString()} (${span(led)})`],
      ["Lease", lease(status)],
      ["Version", status.version],
      ["Pointers", make("code", {}, status.pointers)],
      ["Blobs", make("code", {}, status.blobs)],
    ]),
    make("h2", {}, "Replicas"),
    ...replicas(status),
    ...leadersOf(cells),
    make("h2", {}, "Parts of this replica"),
    table(
      `As probed at ${clock(probed)}; every ${PARTS_EVERY / 1000} seconds`,
      [
        ["Part", (line) => line.part],
        ["State", (line) => make("span", { class: line.ok ? "good" : "bad" }, line.ok ? "well" : "not well")],
        ["What was found", (line) => line.found],
      ],
      lines.map(partOf),
      (line) => line.part,
    ),
    ...damage(lines),
  ];
}

function leader(status) {
  return status.role === "leader" ? `${status.leader} (this one)` : linkToReplica(status.leader);
}

function lease(status) {
  if (status.role !== "leader") return "–";
  return status.lease_remaining === null ? "as long as this process runs" : `holds for ${status.lease_remaining.toFixed(1)} s`;
}

function replicas(status) {
  if (!Array.isArray(status.replicas)) return [make("p", { class: "quiet" }, "Only the leader knows of the others.")];
  return [
    table(
      "The leader, and the replicas that told it in the last seconds that they are there",
      [
        ["Address", (url) => (url === status.replicas[0] ? url : linkToReplica(url))],
        ["Role", (url) => (url === status.replicas[0] ? "leader" : "follower")],
      ],
      status.replicas,
      (url) => url,
    ),
  ];
}

function partOf(line) {
  const [, sign, part, found] = /^\[(.)\] ([^:]*): (.*)$/.exec(line) ?? ["", "-", "?", line];
  return { part, ok: sign === "+", found };
}

function damage(lines) {
  const records = lines.map(partOf).find((line) => line.part === "records");
  return records && /\bare damaged\b/.test(records.found) ? [notice(`Records: ${records.found}`)] : [];
}
