// Where a restore of a job leads: its savepoints and snapshots, each with what going back to it would undo.

import { actNamed, button } from "./acts.js";
import { make, table } from "./dom.js";
import { age, count } from "./format.js";

export function restorePoints(job, entries, mayAct, now) {
  const points = pointsOf(job);
  if (points.length === 0) return [make("p", { class: "quiet" }, "Nothing is kept yet: the service takes a snapshot after each batch.")];
  const buttons = (point) => {
    const acts = [actNamed("restore"), ...(mayAct ? [point.name === null ? actNamed("keep-snapshot") : actNamed("drop-savepoint")] : [])];
    return make("span", { class: "acts" }, acts.map((act) => button(act, { ...job, point, mayAct })));
  };
  return [
    table(
      "Savepoints and snapshots, the newest first",
      [
        ["Point", (point) => [make("strong", {}, point.name ?? `@${point.revision}`), " ", make("span", { class: "quiet" }, point.kind)]],
        ["Batch", (point) => (point.directory === job.batch?.directory ? point.batch : `${point.batch} in ${point.directory || "/"}`), true],
        ["Committed", (point) => age(point.taken, now)],
        ["Epoch", (point) => point.epoch ?? "–", true],
        ["Undoes", (point) => undoes(point, job, entries)],
        ["Acts", buttons],
      ],
      points,
      (point) => `${point.kind} ${point.name} ${point.directory} ${point.revision}`,
    ),
  ];
}

function pointsOf(job) {
  const named = (kind) => (each) => ({ name: null, ...each, kind });
  return [
    ...job.savepoints.map(named("savepoint")),
    ...job.snapshots.map(named("snapshot")),
    ...job.passedOver.map(named("from before a restore")),
  ].sort((one, other) => other.revision - one.revision || (one.name === null ? 1 : -1));
}

/** What a restore to a point takes back. A restore may have passed the point over: going there undoes that one first. */
function undoes(point, job, entries) {
  const passing = passingOf(point, entries);
  if (passing !== null) return (job.batch?.revision ?? 0) > passing.revision ? "a restore, and the batches since" : "the restore";
  // the history may not reach back to the restore that passed it over
  const known = entries.some(({ kind, revision }) => kind !== "batch-committed" && revision < point.revision);
  if (point.kind === "from before a restore" && !known) return "a restore, and the batches since";
  if (point.directory !== job.batch?.directory) return "–";
  const behind = job.batch.batch - point.batch;
  return behind <= 0 ? "nothing" : count(behind, "batch", "batches");
}

/** The entry of the restore that passed a point over, null if none did. A restore that was undone counts no more. */
function passingOf(point, entries) {
  let until = Infinity; // the files of now came by the state at this revision, from which the restores seen so far went on
  for (const entry of entries) {
    if (entry.kind !== "rolled-back" || entry.revision === undefined || entry.revision > until) continue;
    if (entry.snapshot < point.revision && point.revision < entry.revision) return entry;
    until = entry.snapshot;
  }
  return null;
}
