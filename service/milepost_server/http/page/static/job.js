// One job: who leads it, why its standbys wait, how its batches come, where a restore leads, and what became of it.

import { mayWrite, principal } from "./access.js";
import { baseOf, cellsOf, isRelayed } from "./cells.js";
import { card, link, linkOut, linkToReplica, make, notice } from "./dom.js";
import { age, count, lasting, spacing, span } from "./format.js";
import { IN_ORDER, lastOfDriver, queriesOf } from "./batches.js";
import { intervals, rowsOf } from "./charts.js";
import { actsOn, button } from "./acts.js";
import { historyOf } from "./history.js";
import { batchesAnHour, pill, quietSentence, stateOf } from "./job_state.js";
import { hashOfJob, hashOfStore } from "./router.js";
import { Refused, json, serverTime } from "./service.js";
import { restorePoints } from "./restore_points.js";

const ENTRIES = 300;

export const title = (route) => route.store;

export async function load(route, status, signal) {
  const relayed = isRelayed(status, route.cell);
  const cell = baseOf(status, route.cell);
  const base = `${cell}jobs/${encodeURIComponent(route.store)}`;
  const [job, history, who, there] = await Promise.all([
    json(base, signal),
    json(`${base}/history?limit=${ENTRIES}`, signal).catch(refusal),
    relayed ? null : principal(signal),
    relayed ? json(`${cell}status`, signal) : null,
  ]);
  return { job: withBatches(job), history, mayAct: !relayed && mayWrite(who, route.store), there };
}

/** Where a job that was moved is shown. */
export function instead({ cell }, status, route) {
  if (!cellsOf(status).includes(cell)) return [];
  return [make("p", { "data-key": "instead" }, link(hashOfJob(route.store, { cell }), `${route.store} in the cell ${cell}`))];
}

function refusal(error) {
  if (error instanceof Refused && error.status !== 401) return { error };
  throw error;
}

/** Give a job the members by which the list tells how far it is: its last batch, and the oldest kept of that query. */
function withBatches(job) {
  const newest = job.snapshots.reduce((best, each) => (best === null || each.revision > best.revision ? each : best), null);
  const oldest = newest && job.snapshots.find(({ directory }) => directory === newest.directory);
  return { ...job, batch: newest, oldest };
}

/** What is shown beside the heading: the state, and what this token may do. */
export function beside({ job, mayAct }) {
  const acts = mayAct && job.state !== "dropped" ? actsOn("job").filter((act) => act.offered(job)).map((act) => button(act, job)) : [];
  return [
    pill(stateOf(job, serverTime())),
    acts.length === 0 ? null : make("div", { class: "acts", "data-key": "acts", role: "group", "aria-label": "What you can do" }, acts),
  ];
}

export function render({ job, history, mayAct, there }, status, route) {
  const now = serverTime();
  const entries = history.entries ?? [];
  const damage = job.damaged ? [notice(`${count(job.damaged, "record", "records")} of this job cannot be read: `, there ? "milepost fsck says which" : link(hashOfStore(job.job), "which"))] : [];
  return [
    there ? elsewhere(there) : null,
    make("p", { class: "lead", "data-key": "lead" }, sentence(job, history, now)),
    ...damage,
    job.wish ? make("p", { class: "notice quiet-job", "data-key": "wish" }, wishSentence(job, now)) : null,
    stateOf(job, now) === "quiet" ? make("p", { class: "notice quiet-job", "data-key": "quiet" }, quietSentence(job, now)) : null,
    make(
      "div",
      { class: "cards", "data-key": "cards" },
      leader(job, now),
      standbys(job, now),
      batches(job, queriesOf(entries), now),
      card("history", "What became of it", null, ...(history.error ? [notice(history.error.message)] : told(history)), ...(history.error ? [] : historyOf(history, route, now))),
      card("restore", "Where a restore leads", null, ...restorePoints(job, entries, mayAct, now)),
    ),
    make("p", { class: "pages", "data-key": "store" }, there ? null : link(hashOfStore(job.job), "The store behind it"), make("span", { class: "quiet" }, count(job.handles, "handle", "handles"))),
  ].filter((part) => part !== null);
}

/** Where a job of another cell is. This page only shows it: what can be done with it is offered by the one of its leader. */
function elsewhere({ cell, leader }) {
  const said = notice(cell ? `This job is in the cell ${cell}, and is shown through this replica. ` : "", "Act on it on the page of its leader: ", leader ? linkToReplica(leader) : "nobody leads there at the moment", ".");
  said.dataset.key = "elsewhere";
  return said;
}

function told({ corrupt }) {
  return corrupt.map(({ name, reason }) => notice(`The page ${name} of the history is damaged: ${reason}`));
}

/** The job in one sentence. */
function sentence(job, history, now) {
  const last = job.batch === null ? ["No batch is kept here."] : ["The last checkpoint is batch ", make("strong", {}, job.batch.batch.toLocaleString("en")), ", ", age(job.batch.taken, now), "."];
  const who = {
    led: ["Led by ", make("strong", {}, job.holder || job.session), " for ", lasting(job.since, now), ". "],
    lost: [lastDriver(job, history)],
    stopping: [make("strong", {}, job.holder || job.session), " leads, and is asked to stop. "],
    stopped: ["A person stopped the job: no driver may lead until it is started. "],
    resigned: [lastDriver(job, history)],
    dropped: ["The job was dropped: its history is what is left. "],
    new: ["No driver ever led. "],
  }[job.state] ?? [`State: ${job.state}. `];
  return [...who, ...last];
}

/** What became of the last driver of a job that none leads. Commands take epochs as well, and are no drivers. */
function lastDriver(job, { entries = [], next = null, error }) {
  const last = lastOfDriver(entries);
  if (last === null && next === null && !error) return "No driver ever led. ";
  const inOrder = last?.how === undefined ? job.state === "resigned" : IN_ORDER.includes(last.how);
  const became = inOrder ? "stopped in order" : "is gone: its session ended before it resigned";
  return `The driver of epoch ${last?.epoch ?? job.epoch} ${became}, and no driver leads. `;
}

/** What a person asked of the job, who it was, when and why, and what became of the savepoint that was asked for. */
function wishSentence(job, now) {
  const { wish } = job;
  const what = wish.kind === "stop" ? "stop the job" : `hand over epoch ${wish.epoch}`;
  const who = wish.who || wish.by || "A client";
  return [make("strong", {}, who), ` asked to ${what}, `, age(wish.at, now), wish.reason ? `: ${wish.reason}.` : ".", wish.savepoint ? savepointSentence(job) : null];
}

function savepointSentence(job) {
  const { savepoint } = job.wish;
  if (job.savepoints.some(({ name }) => name === savepoint)) return ` The savepoint ${savepoint} is made.`;
  if (job.session) return ` The savepoint ${savepoint} is made once the driver resigns.`;
  return ` There is no savepoint ${savepoint}: the driver did not resign in order, or it was dropped. Make one.`;
}

function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return make("dl", { class: "pairs" }, shown.map(([name, value]) => make("div", { "data-key": name }, make("dt", {}, name), make("dd", {}, value))));
}

function processFacts(process) {
  if (process === null || process === undefined) return [];
  return [
    ["Host", process.host],
    ["Process", process.pid],
    ["Application", process.application],
    ["Spark's interface", process.ui ? linkOut(process.ui, process.ui.replace(/^https?:\/\//, "")) : null],
  ];
}

function nextLeader(job) {
  if (job.state === "dropped") return "A driver that is started begins a new job, under the next epoch.";
  if (job.wish?.kind === "stop") return "A person stopped the job: no driver is granted the next epoch until the job is started.";
  return "A driver that is started is granted the next epoch at once.";
}

function leader(job, now) {
  if (job.session === null || job.session === undefined) {
    const last = job.epoch ? `Its last epoch is ${job.epoch}. ` : "";
    return card("leader", "Who leads", null, make("p", { class: "big" }, "No driver"), make("p", { class: "quiet" }, last, nextLeader(job)));
  }
  return card(
    "leader",
    "Who leads",
    make("span", { class: "epoch" }, `epoch ${job.epoch}`),
    make("p", { class: "big" }, job.holder || job.session),
    facts([
      ...processFacts(job.process),
      ["Leads since", age(job.since, now)],
      ["Session", make("code", {}, job.session)],
      ["Ends without a keepalive in", span(job.expires_in)],
    ]),
  );
}

function noStandby(job) {
  if (job.state === "dropped") return "No driver waits.";
  if (job.wish?.kind === "stop") return "No driver waits. Once the job is started, it needs a driver.";
  if (job.session) return "No driver waits. If the leading one is lost, the job stands still until another is started.";
  return "No driver waits: the job stands still until one is started.";
}

function whyTheyWait(job) {
  const who = job.holder || job.session;
  const first = job.standbyCount > 1 ? "The first of them that asks" : "It";
  const they = job.standbyCount > 1 ? "They wait" : "It waits";
  if (job.state === "stopping") return `${they} because ${who} still leads. It is asked to stop; then nobody leads until the job is started.`;
  if (job.state === "stopped") return `${they} because a person stopped the job: nobody leads until it is started. ${first} is granted the next epoch then.`;
  if (!job.session) return `${first} is being granted the epoch.`;
  return `${they} because ${who} holds epoch ${job.epoch} and keeps its session alive. ${first} is granted the next epoch at once if that driver stops in order, and after at most ${span(job.expires_in)} if it is killed.`;
}

function standbys(job, now) {
  const number = job.standbyCount;
  const aside = number === 0 ? null : make("span", { class: "epoch" }, String(number));
  if (number === 0) return card("standbys", "Standbys", aside, make("p", { class: "quiet" }, noStandby(job)));
  const shown = job.standbys.map((each) =>
    make("li", { "data-key": each.session }, make("p", { class: "who" }, each.holder || each.session), facts([...processFacts(each.process), ["Its session is open since", age(each.since, now)]])),
  );
  const more = number > job.standbys.length ? make("p", { class: "quiet" }, `And ${number - job.standbys.length} more.`) : null;
  return card("standbys", "Standbys", aside, make("p", { class: "why" }, whyTheyWait(job)), make("ol", { class: "standbys" }, shown), more);
}

/** The parts of a sentence that says what becomes of a batch that is begun and not committed. */
function begunSentence(job, { batch, epoch, since }, now) {
  const begun = [`Batch ${batch.toLocaleString("en")}`, job.session && epoch === job.epoch ? " runs, begun " : ", begun ", age(since, now)];
  if (job.session && epoch === job.epoch) return [...begun, "."];
  const who = job.session ? `epoch ${job.epoch} runs` : "the next driver runs";
  return [...begun, `${epoch ? ` under epoch ${epoch}` : ""}, was not committed: ${who} it again with the same input, so nothing is lost.`];
}

/** The rows of the batch at which a query is, which a restore may have put before the last one that was committed. */
function lastRows(job, { directory, batches }) {
  const last = job.snapshots.filter((each) => each.directory === directory).at(-1);
  return batches.findLast(({ batch }) => batch === last?.batch)?.rows ?? null;
}

/** The rows of a batch, beside what is usual; null if no batch has any, so that nothing is shown. */
function rowsText(rows, usual) {
  if (usual === null) return null;
  return `${rows === null ? "not known" : rows.toLocaleString("en")}, usually ${usual.toLocaleString("en")}`;
}

function batches(job, queries, now) {
  const rate = batchesAnHour(job);
  const aside = rate === null ? null : make("span", { class: "epoch" }, `${rate >= 10 ? Math.round(rate) : rate.toFixed(1)} an hour`);
  if (job.batch === null) return card("batches", "Batches", aside, make("p", { class: "quiet" }, "No checkpoint of this job is kept here."));
  return card(
    "batches",
    "Batches",
    aside,
    make("p", { class: "big" }, `Batch ${job.batch.batch.toLocaleString("en")}`, " ", make("span", { class: "quiet" }, age(job.batch.taken, now))),
    (job.begun ?? []).map((each) => make("p", { class: "quiet", "data-key": `begun ${each.directory}` }, begunSentence(job, each, now))),
    queries.filter((query) => query.intervals.length > 0).flatMap((query) => [
      queries.length > 1 ? make("h3", {}, query.directory || "/") : null,
      intervals(query),
      rowsOf(query),
      facts([
        ["Usual duration", query.usualDuration === null ? null : spacing(query.usualDuration)],
        ["Usual interval", spacing(query.usual)],
        ["Rows of the last batch", rowsText(lastRows(job, query), query.usualRows)],
        [`Longest interval of the last ${query.intervals.length}`, spacing(query.longest)],
        ["Committed again", String(query.batches.filter(({ replay }) => replay).length)],
      ]),
    ]),
  );
}
