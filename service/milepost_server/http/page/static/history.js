// A job's history: a drawing, its figures, and the episodes in words, the newest first.

import { link, make } from "./dom.js";
import { age, count, moment, spacing, span } from "./format.js";
import { IN_ORDER, episodesOf, figuresOf, isOfCommand, undoneBy } from "./batches.js";
import { colourOf, timeline } from "./charts.js";
import { hashOfJob } from "./router.js";

export const RANGES = { "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800, all: Infinity };
const ENOUGH = 20; // entries that the drawing should show

const FEW = 12; // episodes in the list, until all are wanted

const HOW = {
  resigned: "resigned in order",
  stopped: "resigned in order, since a person asked it to stop",
  "handed-over": "resigned in order, since a person asked it to hand over",
  "session-expired": "was lost: no keepalive came in time, so it was killed, froze or was cut off",
  "session-ended": "ended: its session was ended by a request",
  superseded: "ended, and the history does not know how",
};

const ASKED = { "stop-requested": "Asked to stop", "hand-over-requested": "Asked to hand over", started: "Started" };

/** The part of a job's page that says what became of it. `shown` is the newest page of its history. */
export function historyOf(shown, route, now) {
  const { entries } = shown;
  if (entries.length === 0) return [make("p", { class: "quiet" }, "Nothing is recorded yet.")];
  const episodes = episodesOf(entries);
  const listed = route.show === "all" ? episodes : episodes.slice(0, FEW);
  const [range, from] = rangeOf(entries, route.range, now);
  return [
    figures(figuresOf(episodes, now), entries, now),
    ranges(route, range),
    timeline(entries, from, now, now),
    legend(),
    make("ol", { class: "episodes", "aria-label": "What happened, the newest first" }, listed.map((episode) => line(episode, now))),
    listed.length < episodes.length ? make("p", {}, link(hashOfJob(route.store, { range: route.range, show: "all", cell: route.cell }), `Show all ${episodes.length}`)) : null,
    shown.next === null ? null : make("p", { class: "quiet" }, `These are the last ${entries.length} entries. Older ones: `, make("code", {}, `milepost jobs history ${route.store}`)),
  ];
}

/** The range that was chosen, or the shortest that has enough to show. */
function rangeOf(entries, chosen, now) {
  const oldest = Date.parse(entries.at(-1).at);
  const from = (seconds) => (seconds === Infinity ? oldest : now - seconds * 1000);
  if (chosen in RANGES) return [chosen, from(RANGES[chosen])];
  const fitting = Object.entries(RANGES).find(([, seconds]) => entries.filter((entry) => Date.parse(entry.at) >= from(seconds)).length >= Math.min(ENOUGH, entries.length));
  return [fitting[0], Math.max(from(fitting[1]), oldest - 1000)];
}

function ranges(route, range) {
  return make(
    "nav",
    { class: "chips", "aria-label": "Range of the drawing" },
    make("span", { class: "quiet" }, "Draw the last "),
    Object.keys(RANGES).map((key) => link(hashOfJob(route.store, { range: key, show: route.show, cell: route.cell }), key, { class: "chip", "aria-current": key === range ? "true" : null, "data-key": key })),
  );
}

function figures(found, entries, now) {
  const figure = (value, text, bad = false) => make("div", { class: `figure${bad ? " bad" : ""}`, "data-key": text }, make("dt", {}, text), make("dd", {}, value));
  const lost = found.unplanned === 0 ? "" : ` (${found.unplanned} unplanned)`;
  return make(
    "dl",
    { class: "figures", "aria-label": `Since ${moment(Date.parse(entries.at(-1).at), now)}` },
    figure(`${found.takeovers}${lost}`, found.takeovers === 1 ? "take-over" : "take-overs"),
    figure(found.longestWithout === 0 ? "–" : `${spacing(found.longestWithout)}${found.lasts ? " until now" : ""}`, "longest without a driver"),
    figure(String(found.replayed), "batches committed again"),
    figure(found.restores === 0 ? "0" : `${found.restores} (${count(found.undone, "batch", "batches")} undone)`, found.restores === 1 ? "restore" : "restores"),
  );
}

function legend() {
  const item = (className, text) => make("span", {}, make("i", { class: className, "aria-hidden": "true" }), text);
  return make("p", { class: "legend quiet" }, item("epoch-0", "a colour for each epoch"), item("replay-key", "committed again"), item("savepoint-key", "savepoint"), item("restored-key", "restore"), item("ended-key", "driver lost or ended"));
}

/** One episode as a line: when, what, and in smaller letters what it means. */
function line(episode, now) {
  const [mark, what, detail] = { batches: batchesLine, gap: gapLine, entry: entryLine }[episode.kind](episode, now);
  const at = new Date(episode.at).toISOString();
  return make(
    "li",
    { class: `episode is-${mark}`, "data-key": `${episode.kind} ${at} ${episode.entry?.revision ?? episode.first ?? ""} ${episode.directory ?? ""}` },
    make("time", { datetime: at, title: new Date(at).toLocaleString() }, moment(episode.at, now)),
    make("div", {}, make("p", {}, what), detail === null ? null : make("p", { class: "quiet" }, detail)),
  );
}

function batchesLine(episode) {
  const { first, last, replay, epoch, directory, from, at, begunUnder } = episode;
  const which = episode.count === 1 ? `Batch ${last}` : `Batches ${first} to ${last}`;
  const every = episode.count < 2 ? "" : `, one every ${spacing((at - from) / 1000 / (episode.count - 1))}`;
  const mark = make("i", { class: `swatch ${colourOf(epoch)}`, "aria-hidden": "true" });
  return [
    replay ? "replay" : "batches",
    [mark, make("strong", {}, which), ` committed${replay ? " again" : ""}${every}`],
    `${epoch === null ? "" : `epoch ${epoch}, `}in ${directory || "/"}${begunUnder === null ? "" : `. Epoch ${begunUnder} began it and left it uncommitted; it was run again with the same input, so nothing was lost.`}`,
  ];
}

function gapLine({ seconds, usual, stopped }) {
  if (stopped) return ["other", `No batch for ${span(seconds)}: the job was stopped`, null];
  return ["gap", `No batch for ${span(seconds)}`, `usually one comes every ${spacing(usual)}`];
}

function entryLine({ entry, leaderless }, now) {
  const who = entry.holder || entry.session || "a client";
  const by = entry.by ? ` by ${entry.by}` : entry.holder ? ` by ${entry.holder}` : "";
  switch (entry.kind) {
    case "epoch-granted": {
      if (isOfCommand(entry)) return ["other", [make("strong", {}, who), ` takes epoch ${entry.epoch}, and drives no query`], null];
      const place = entry.process?.host ? ` on ${entry.process.host}` : "";
      const after = leaderless === null ? null : `No driver led for ${spacing(leaderless.seconds)} before.`;
      return ["granted", [make("i", { class: `swatch ${colourOf(entry.epoch)}`, "aria-hidden": "true" }), make("strong", {}, who), `${place} leads under epoch ${entry.epoch}`], after];
    }
    case "epoch-ended":
      return [
        IN_ORDER.includes(entry.how) ? "resigned" : "lost",
        [make("strong", {}, who), ` ${HOW[entry.how] ?? `ended: ${entry.how}`}${entry.by ? `, by ${entry.by}` : ""}`],
        `epoch ${entry.epoch}${entry.since ? `, held for ${span((Date.parse(entry.at) - Date.parse(entry.since)) / 1000)}` : ""}`,
      ];
    case "stop-requested":
    case "hand-over-requested":
    case "started":
      return ["asked", [make("strong", {}, ASKED[entry.kind]), by], [entry.reason, entry.savepoint ? `with the savepoint ${entry.savepoint}` : ""].filter(Boolean).join(", ") || null];
    case "savepoint-made":
      return ["savepoint", ["Savepoint ", make("strong", {}, entry.savepoint), ` made of batch ${entry.batch}${by}`], null];
    case "savepoint-dropped":
      return ["savepoint", ["Savepoint ", make("strong", {}, entry.savepoint), ` dropped${by}`], null];
    case "rolled-back": {
      const undone = undoneBy(entry);
      const lost = undone > 0 ? `The ${count(undone, "batch", "batches")} from ${entry.batch + 1} to ${entry.previous_batch} count no more; Spark runs their input again.` : null;
      return ["restored", [make("strong", {}, `Restored to batch ${entry.batch}`), by], lost];
    }
    case "cloned":
      return ["savepoint", `Cloned from ${typeof entry.source === "string" ? entry.source : (entry.source?.job ?? "another job")}`, null];
    case "expired": {
      const first = entry.previous_batch === undefined ? 0 : entry.previous_batch + 1;
      return ["other", ["Output of batches ", make("strong", {}, `${first} to ${entry.batch}`), ` expired${by}`], "Readers find it no more; the driver deletes its files."];
    }
    case "rescaled": {
      const among = entry.partitions === undefined ? "among another number of partitions" : `from ${entry.previous_partitions} to ${entry.partitions} partitions`;
      return ["savepoint", [make("strong", {}, "Rescaled"), ` ${among}${by}`], `Spark committed it as batch ${entry.batch}, without input.`];
    }
    case "moved":
      return ["other", [make("strong", {}, `Moved from the cell ${entry.source}`), by], `under epoch ${entry.epoch}`];
    case "history-restored":
      if (entry.entries === undefined) return ["other", ["The restore went on", by], null];
      return ["restored", [make("strong", {}, "History restored"), by], `The ${count(entry.entries, "entry", "entries")} before, from a backup of ${entry.source} made ${moment(Date.parse(entry.since), now)}.`];
    case "dropped":
      return ["lost", [make("strong", {}, "Dropped"), by], null];
    default:
      return ["other", [entry.kind, " ", age(entry.at, now)], null];
  }
}
