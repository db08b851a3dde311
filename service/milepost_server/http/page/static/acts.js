// What a person can do here, in one table. Each act says what it does before it is done, if it is a larger one by a dry
// run, and asks for a name if it is dangerous. The service decides; which acts are offered only follows what the token
// may do.

import { make, onMorph } from "./dom.js";
import { ago, count } from "./format.js";
import { serverTime } from "./service.js";

const ACT_WITHIN = 250000; // milliseconds: the service ends an act after four minutes
const NAME = "[A-Za-z0-9_\\-][A-Za-z0-9._\\-]{0,199}";
const store = (job, rest) => `v1/stores/${encodeURIComponent(job.job)}/${rest}`;
const savepoint = (job, name) => store(job, `tree/savepoints/${encodeURIComponent(name)}`);
const jobPath = (job, rest) => `v1/jobs/${encodeURIComponent(job.job)}/${rest}`;
const knowsWishes = (job) => job.wish !== undefined; // a leader of an older release does not
const isStopped = (job) => job.state === "stopping" || job.state === "stopped";
const SAVEPOINT = { name: "savepoint", label: "Name of the savepoint", pattern: NAME };
const REASON = { name: "reason", label: "Reason, for others to read (may stay empty)", pattern: ".{0,200}", optional: true };
const PARTS = { query: "Query", source: "Source", input: "Source", state: "State", output: "Output", sink: "Sink" };
const pointOf = ({ point }) => point.name ?? `@${point.revision}`;
const acted = (path, body) => ({ method: "POST", path, body: { ...body, who: "console" }, within: ACT_WITHIN });
const becomes = (plan) => Object.entries(PARTS).flatMap(([part, title]) => (plan.becomes[part] === undefined ? [] : [[title, plan.becomes[part]]]));
const whoLeads = (job) => job.holder || job.session;
const nextOf = (job, the = "the") => (job.standbyCount > 1 ? `${the} first of ${job.standbyCount} standbys that asks` : job.standbys[0]?.holder || `${the} standby`);
const newLeader = (job, now) => (now.session && now.epoch > job.epoch ? `${whoLeads(now)} leads under epoch ${now.epoch}.` : null);

function whoLeadsOnceStarted(job) {
  if (job.session) return `${whoLeads(job)} still leads. If it has begun to stop, it stops all the same.`;
  return job.standbyCount > 0 ? `${nextOf(job, "The")} leads at once.` : "No driver waits: start one. The service starts no process.";
}

function whoLeadsOnceEnded(job) {
  if (isStopped(job)) return "Nobody leads until the job is started: a person asked it to stop.";
  if (job.standbyCount === 0) return "No standby waits: the job stands still until a driver is started.";
  return `${nextOf(job, "The")} is granted the next epoch, and runs that batch again.`;
}

/**
 * The command for a shell, with the address of this page. Names have no character that a shell takes otherwise, but may
 * look like an option.
 */
function command(verb, words, options = "") {
  const address = location.origin + location.pathname.replace(/\/[^/]*$/, "");
  const named = words.join(" ");
  const rest = words.some((word) => word.startsWith("-")) ? `${options} -- ${named}` : ` ${named}${options}`;
  return `milepost -u ${address} jobs ${verb}${rest}`;
}

/**
 * `of`: what it acts on. `label` of the button, `title` of the dialog, `says` what it does, sentence by sentence.
 * `offered`: whether it makes sense now. `typed`: what a person types to confirm a dangerous act. `fields` are asked for.
 * `request`: what is sent; with `session` under a session that is opened for it. `done`: what is said afterwards, and
 * `later`: what is said once the job shows what came of it, null until then.
 * `plan`: the request for a dry run, which comes first; `planned` are the lines that show its answer. The request gets
 * that answer too. `commands`: what to run instead, for an act that the page or the token cannot do.
 */
const ACTS = [
  {
    id: "hand-over",
    of: "job",
    label: "Hand over…",
    title: (job) => `Hand ${job.job} over to a standby`,
    offered: (job) => knowsWishes(job) && job.state === "led" && job.standbyCount > 0,
    says: (job) => [
      `Asks ${whoLeads(job)} to finish the batch that it publishes and to resign. Then ${nextOf(job)} leads at once, and runs no batch again.`,
      "The driver that resigned ends, as by SIGTERM.",
    ],
    fields: () => [REASON],
    request: (job, { reason }) => ({ method: "POST", path: jobPath(job, "hand-over"), body: { epoch: job.epoch, who: "console", reason } }),
    done: (job) => `${whoLeads(job)} is asked to hand over.`,
    later: newLeader,
  },
  {
    id: "stop",
    of: "job",
    label: "Stop…",
    danger: true,
    title: (job) => `Stop ${job.job}`,
    offered: (job) => knowsWishes(job) && !isStopped(job),
    typed: (job) => job.job,
    says: (job) => [
      job.session ? `Asks ${whoLeads(job)} to finish the batch that it publishes, to resign and to end.` : "No driver leads now.",
      "From then on no driver may lead until the job is started again: standbys wait.",
      "With the name of a savepoint, the state after the last batch is kept under it.",
    ],
    fields: () => [{ ...SAVEPOINT, label: "Savepoint (may stay empty)", optional: true }, REASON],
    request: (job, { savepoint: name, reason }) => ({ method: "POST", path: jobPath(job, "stop"), body: { who: "console", reason, ...(name ? { savepoint: name } : {}) } }),
    done: (job) => (job.session ? `${whoLeads(job)} is asked to stop.` : `${job.job} is stopped.`),
    later: (job, now) => (job.session && now.state === "stopped" ? `${job.job} is stopped, and its driver has resigned.` : null),
  },
  {
    id: "start",
    of: "job",
    label: "Start…",
    title: (job) => `Start ${job.job}`,
    offered: isStopped,
    says: (job) => [
      "Takes the stop back: the next epoch is granted again.",
      whoLeadsOnceStarted(job),
    ],
    request: (job) => ({ method: "POST", path: jobPath(job, "start"), body: { who: "console" } }),
    done: (job) => `${job.job} is started.`,
    later: newLeader,
  },
  {
    id: "make-savepoint",
    of: "job",
    label: "Make a savepoint…",
    title: (job) => `Make a savepoint of ${job.job}`,
    offered: (job) => job.batch !== null,
    says: (job) => [
      `Keeps the newest snapshot, batch ${job.batch.batch} or what came since, under a name, until the savepoint is dropped.`,
      "The driver goes on, and notices nothing. At most 64 savepoints of a job are kept.",
    ],
    fields: () => [SAVEPOINT],
    request: (job, { savepoint: name }) => ({ method: "PUT", path: savepoint(job, name), body: { revision: 0 }, session: true }),
    done: (job, { savepoint: name }) => `The savepoint ${name} is made.`,
  },
  {
    id: "end-leading-session",
    of: "job",
    label: "End its session…",
    danger: true,
    title: (job) => `End the session of the driver that leads ${job.job}`,
    offered: (job) => Boolean(job.session),
    typed: (job) => job.job,
    says: (job) => [
      `${whoLeads(job)} loses epoch ${job.epoch} at once: each of its later writes is refused, and the batch that it runs now is not committed.`,
      whoLeadsOnceEnded(job),
      "Use it for a driver that hangs and does not stop. To stop one in order, use Stop…, or send it SIGTERM.",
    ],
    request: (job) => ({ method: "DELETE", path: `v1/sessions/${encodeURIComponent(job.session)}` }),
    done: (job) => `The session of ${whoLeads(job)} is ended.`,
    later: newLeader,
  },
  {
    id: "restore",
    of: "point",
    label: "Restore…",
    title: ({ job, point }) => `Restore ${job} to ${pointOf({ point })} (batch ${point.batch}, ${ago(point.taken, serverTime())})`,
    offered: () => true,
    typed: (job) => job.job,
    says: ({ point }) => [point.undoes === "–" ? "" : `This undoes ${point.undoes}.`, "Takes files, job record, published output and managed state back together, in one commit. The present state is kept, so a restore can be undone."],
    plan: (job) => acted(jobPath(job, "restore"), { snapshot: pointOf(job), dry_run: true }),
    planned: becomes,
    request: (job, _, plan) => acted(jobPath(job, "restore"), { snapshot: plan.snapshot, epoch: plan.epoch }),
    done: (job, _, made) => `${job.job} is back at batch ${made.batch}. A restore to ${made.undo} undoes it.`,
    commands: (job) => {
      const words = [job.job, pointOf(job)];
      return [
        ["What it would do, without doing it", command("restore", words, " --dry-run")],
        ["Do it", command("restore", words)],
      ];
    },
  },
  {
    id: "keep-snapshot",
    of: "point",
    label: "Keep…",
    title: (job) => `Keep batch ${job.point.batch} of ${job.job} as a savepoint`,
    offered: () => true,
    says: (job) => [`Keeps the snapshot at revision ${job.point.revision} under a name, until the savepoint is dropped. The driver goes on.`],
    fields: () => [SAVEPOINT],
    request: (job, { savepoint: name }) => ({ method: "PUT", path: savepoint(job, name), body: { revision: job.point.revision }, session: true }),
    done: (job, { savepoint: name }) => `Batch ${job.point.batch} is kept as ${name}.`,
  },
  {
    id: "drop-savepoint",
    of: "point",
    label: "Drop…",
    danger: true,
    title: (job) => `Drop the savepoint ${job.point.name}`,
    offered: () => true,
    typed: (job) => job.point.name,
    says: (job) => [
      `The job cannot be restored to ${job.point.name} (batch ${job.point.batch}) any more, unless a snapshot or another savepoint keeps the same batch.`,
      "What only this savepoint kept is deleted. There is no way back.",
    ],
    request: (job) => ({ method: "DELETE", path: savepoint(job, job.point.name), session: true }),
    done: (job) => `The savepoint ${job.point.name} is dropped.`,
  },
  {
    id: "rescale",
    of: "job",
    label: "Rescale…",
    title: (job) => `Change the number of partitions of ${job.job}`,
    offered: (job) => job.batch !== null,
    says: () => ["Spark copies the state of the query into another number of partitions, and commits that as a batch without input. The service runs no Spark: it says what a rescale would do, and the command does it where Spark is installed."],
    fields: () => [{ name: "partitions", label: "Partitions", pattern: "[1-9][0-9]{0,5}" }],
    plan: (job, { partitions }) => acted(jobPath(job, "rescale"), { partitions: Number(partitions), dry_run: true }),
    planned: (plan) => [["Partitions", `${plan.partitions} in place of ${plan.partitions_before}`], ["As batch", plan.batch], ...becomes(plan)],
    commands: (job, { partitions }) => [["Do it", command("rescale", [job.job, partitions])]],
  },
  {
    id: "clone",
    of: "job",
    label: "Clone…",
    title: (job) => `Clone ${job.job}, to try a fix on a copy`,
    offered: (job) => job.batch !== null,
    besideDriver: true,
    says: () => ["Copies the files, the job record and managed state of the newest snapshot into a job of its own, in one commit. The original is only read, and its driver goes on."],
    fields: () => [{ name: "to", label: "Name of the clone", pattern: NAME }],
    plan: (job, { to }) => acted(jobPath({ job: to }, "clone"), { source: job.job, dry_run: true }),
    planned: (plan) => [["Snapshot", `${plan.snapshot}, batch ${plan.batch}`], ...becomes(plan)],
    request: (job, { to }, plan) => acted(jobPath({ job: to }, "clone"), { source: job.job, snapshot: plan.snapshot }),
    done: (job, { to }, made) => `${to} begins after batch ${made.batch}, with ${count(made.files, "file", "files")} of ${count(made.bytes, "byte", "bytes")}.`,
  },
  {
    id: "drop",
    of: "job",
    label: "Drop…",
    danger: true,
    title: (job) => `Drop ${job.job}`,
    offered: (job) => !job.session,
    typed: (job) => job.job,
    says: () => ["Deletes the files, the job record, managed state, the other handles, snapshots and savepoints in one commit. It cannot be undone: make a backup first."],
    plan: (job) => acted(jobPath(job, "drop"), { dry_run: true }),
    planned: (plan) => [
      ["Goes", `${count(plan.handles, "handle", "handles")}, ${count(plan.snapshots, "snapshot", "snapshots")}${plan.savepoints.length ? `, and the savepoints ${plan.savepoints.join(", ")}` : ""}`],
      ["Stays", `the history, the number of the epoch, and ${plan.outputs === null ? "output that is not known, since the job record cannot be read" : plan.outputs.length ? `the files in ${plan.outputs.join(", ")}` : "what a sink of the job's own got"}`],
    ],
    request: (job, _, plan) => acted(jobPath(job, "drop"), { epoch: plan.epoch }),
    done: (job) => `${job.job} is dropped.`,
  },
  {
    id: "end-session",
    of: "session",
    label: "End…",
    danger: true,
    title: () => "End a session",
    offered: () => true,
    typed: (session) => session.session,
    says: (session) => [
      `${session.holder || session.session} loses its locks and its epochs at once${session.epochs.length ? `: ${session.epochs.map(({ store: name }) => name).join(", ")}` : ""}. Each of its later writes is refused.`,
    ],
    request: (session) => ({ method: "DELETE", path: `v1/sessions/${encodeURIComponent(session.session)}` }),
    done: (session) => `The session ${session.session} is ended.`,
  },
  {
    id: "release-lock",
    of: "lock",
    label: "Release…",
    danger: true,
    title: (lock) => `Release the lock on ${lock.name}`,
    offered: () => true,
    typed: (lock) => lock.name,
    says: (lock) => [
      `Takes the lock on ${lock.name} in ${lock.job} from the session ${lock.session}, which is not told.`,
      "Another session may then replace or remove the handle. If its owner lives and relies on the lock, its next change is refused.",
    ],
    request: (lock) => ({ method: "DELETE", path: store(lock, `handles/${encodeURIComponent(lock.name)}/lock`), as: lock.session }),
    done: (lock) => `The lock on ${lock.name} is released.`,
  },
  {
    id: "step-down",
    of: "service",
    label: "Step down…",
    danger: true,
    title: () => "Let another replica lead",
    offered: (status) => status.role === "leader" && (status.replicas ?? []).length > 1,
    typed: () => "step-down",
    says: (status) => [
      `${status.replica} ends what it does, and resigns in order. Another replica leads within seconds; drivers keep their epochs and sessions.`,
      "This page then links to the new leader.",
    ],
    request: (status) => ({ method: "POST", path: "v1/step-down", body: { term: status.term } }),
    done: () => "The replica stepped down.",
  },
];

export function actsOn(what) {
  return ACTS.filter((act) => act.of === what);
}

export function actNamed(id) {
  return ACTS.find((act) => act.id === id);
}

const subjects = new WeakMap();

/** Make the button of an act on a subject: main.js opens the dialog. */
export function button(act, subject) {
  const named = subject.point ? ` ${pointOf(subject)}` : "";
  const made = make("button", { type: "button", class: act.danger ? "danger" : null, "data-act": act.id, "data-key": act.id }, act.label, named && make("span", { class: "aside" }, named));
  subjects.set(made, subject);
  return made;
}

// A button that stays in the page acts on what is shown now.
onMorph((kept, fresh) => {
  if (subjects.has(fresh)) subjects.set(kept, subjects.get(fresh));
});

export function subjectOf(element) {
  return subjects.get(element);
}
