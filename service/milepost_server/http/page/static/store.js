// One store: who leads it, its job, the snapshots of its files, and its handles a page at a time.

import { mayWrite, principal } from "./access.js";
import { actNamed, button } from "./acts.js";
import { facts, link, make, notice, table } from "./dom.js";
import { age, size } from "./format.js";
import { pages } from "./pages.js";
import { hashOfJob, hashOfStore } from "./router.js";
import { Refused, json, serverTime } from "./service.js";

const LIMIT = 50;
const JOB = "job"; // the handle in which milepost.spark keeps how far a job has come

export const title = (route) => `Store ${route.store}`;

export async function load(route, status, signal) {
  const base = `v1/stores/${encodeURIComponent(route.store)}`;
  const after = route.after ? `&token=${encodeURIComponent(route.after)}` : "";
  const [epoch, tree, job, handles, who] = await Promise.all([
    part(json(`${base}/epoch`, signal)),
    part(json(`${base}/tree`, signal)),
    part(json(`${base}/handles/${JOB}`, signal)),
    part(json(`${base}/handles?limit=${LIMIT}${after}`, signal)),
    principal(signal),
  ]);
  return { parts: { epoch, tree, job, handles }, who };
}

/** A part that is refused, as a damaged record is, hides no other part. */
async function part(answer) {
  try {
    return { value: await answer };
  } catch (error) {
    if (error instanceof Refused && error.status !== 401) return { error };
    throw error;
  }
}

export const beside = (found, status, route) => [link(hashOfJob(route.store), "As a job")];

export function render({ parts: found, who }, status, route) {
  const refusals = new Set(Object.values(found).map(({ error }) => error?.message));
  if (refusals.size === 1 && !refusals.has(undefined)) return [notice(...refusals)];
  return [
    ...told(found.epoch, (epoch) => [led(epoch)]),
    ...told(found.job, (job) => (job.labels.published === undefined ? [] : [progress(job)]), "not-exist"),
    make("h2", {}, "Handles"),
    ...told(found.handles, (page) => [
      ...page.corrupt.map(({ name, reason }) => notice(`The record of handle ${name} is damaged: ${reason}`)),
      handlesOf(page, route.store, who),
      ...pages(hashOfStore(route.store), route, page.next, page.handles.length + page.corrupt.length),
    ]),
    make("h2", {}, "Snapshots of its files"),
    ...told(found.tree, snapshots),
  ];
}

function told(part, show, quiet = null) {
  if (part.error === undefined) return show(part.value);
  return part.error.code === quiet ? [] : [notice(part.error.message)];
}

function led(epoch) {
  return facts("Leadership", [
    ["Epoch", epoch.epoch || "none yet"],
    ["Led by", epoch.session === null ? "nobody" : `${epoch.holder || "–"} (session ${epoch.session})`],
    ["Since", age(epoch.since, serverTime())],
  ]);
}

function progress(job) {
  return facts("Job", [
    ["Last batch published", job.labels.published === "-1" ? "none yet" : job.labels.published],
    ["Under epoch", job.labels.epoch ?? "–"],
    ["Recorded", age(job.updated, serverTime())],
  ]);
}

function handlesOf(page, store, who) {
  const now = serverTime();
  return table(
    "Handles by name",
    [
      ["Name", (row) => row.name],
      ["Version", (row) => make("code", {}, row.version)],
      ["Size", (row) => size(row.size), true],
      ["Written", (row) => age(row.updated, now)],
      ["Epoch", (row) => row.epoch ?? "–", true],
      ["Labels", (row) => Object.entries(row.labels).map(([key, value]) => `${key}=${value}`).join(", ") || "–"],
      ["Locked by", (row) => (row.locks.length === 0 ? "–" : row.locks.map((session) => lock(session, row, store, who)))],
      ["State", (row) => (row.removing ? "being removed" : "–")],
    ],
    page.handles,
    (row) => row.name,
  );
}

function lock(session, row, store, who) {
  const release = mayWrite(who, store) ? [" ", button(actNamed("release-lock"), { job: store, name: row.name, session })] : [];
  return make("div", { class: "acts", "data-key": session }, make("code", {}, session), release);
}

function snapshots(tree) {
  if (tree.snapshots.length === 0 && tree.savepoints.length === 0) return [make("p", { class: "quiet" }, "There are none.")];
  const rows = [
    ...tree.savepoints.map((savepoint) => ({ ...savepoint, kind: `savepoint ${savepoint.name}` })),
    ...tree.snapshots.map((snapshot) => ({ ...snapshot, kind: "snapshot" })),
  ];
  return [
    table(
      "Snapshots that are kept, the newest first",
      [
        ["Directory", (row) => row.directory || "/"],
        ["Batch", (row) => row.batch, true],
        ["Revision", (row) => row.revision, true],
        ["Kept as", (row) => row.kind],
      ],
      rows.sort((one, other) => other.revision - one.revision),
      (row) => `${row.kind} ${row.directory} ${row.revision}`,
    ),
  ];
}
