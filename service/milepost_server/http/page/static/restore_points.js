// Where a restore of a job leads: its savepoints and snapshots, each with what going back to it would undo.

import { actNamed, button } from "./acts.js";
import { make, table } from "./dom.js";
import { age, count, moment } from "./format.js";

const PASSED_OVER = "from before a restore";

export function restorePoints(job, entries, mayAct, now) {
  const points = pointsOf(job).map((point) => ({ ...point, ...placeOf(point, job, entries, now) }));
  if (points.length === 0) return [make("p", { class: "quiet" }, "Nothing is kept yet: the service takes a snapshot after each batch.")];
  const buttons = (point) => {
    const acts = [actNamed("restore"), ...(mayAct ? [point.name === null ? actNamed("keep-snapshot") : actNamed("drop-savepoint")] : [])];
    return make("span", { class: "acts" }, acts.map((act) => button(act, { ...job, point, mayAct })));
  };
  return [
    table(
      "Savepoints and snapshots, the newest first",
      [
        ["Point", (point) => [make("strong", {}, point.name ?? `@${point.revision}`), " ", make("span", { class: "quiet" }, point.what)]],
        ["Batch", (point) => (point.directory === job.batch?.directory ? point.batch : `${point.batch} in ${point.directory || "/"}`), true],
        ["Committed", (point) => age(point.taken, now)],
        ["Epoch", (point) => point.epoch ?? "–", true],
        ["Undoes", (point) => point.undoes],
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
    ...job.passedOver.map(named(PASSED_OVER)),
  ].sort((one, other) => other.revision - one.revision || (one.name === null ? 1 : -1));
}

/** `what` a point is, and what a restore to it `undoes`. If a restore passed the point over, going there undoes that one first. */
function placeOf(point, job, entries, now) {
  const passing = passingOf(point, entries);
  const named = (restore) => `the restore of ${moment(Date.parse(restore.at), now)}`;
  const before = entries.find(({ kind, revision }) => kind === "rolled-back" && revision === point.revision + 1);
  const here = point.revision === job.batch?.revision ? ", the job is here" : "";
  // the history may not reach back to the restore that passed it over
  const unknown = point.kind === PASSED_OVER && !entries.some(({ kind, revision }) => kind !== "batch-committed" && revision < point.revision);
  const what = (kind) => ({ what: `${point.kind === "savepoint" ? "savepoint" : kind}${here}` });
  if (passing !== null) {
    const since = (job.batch?.revision ?? 0) > passing.revision ? ", and the batches since" : "";
    if (before === passing) return { ...what(`right before ${named(passing)}`), undoes: `${named(passing)}${since}` };
    return { ...what(`passed over by ${named(passing)}`), undoes: `${named(passing)}, up to batch ${point.batch}${since}` };
  }
  if (unknown) return { ...what(PASSED_OVER), undoes: "a restore, and the batches since" };
  return { ...what(before ? `right before ${named(before)}` : "snapshot"), undoes: behind(point, job) };
}

/** The batches of a query that come after a point. */
function behind(point, job) {
  if (point.directory !== job.batch?.directory) return "–";
  const batches = job.batch.batch - point.batch;
  return batches <= 0 ? "nothing" : count(batches, "batch", "batches");
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
