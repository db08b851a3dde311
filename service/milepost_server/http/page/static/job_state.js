// The state of a job in a word, a colour and a sentence: what is known of it, and no more.

import { make } from "./dom.js";
import { spacing, span } from "./format.js";

const QUIET_AFTER = 60; // seconds
const QUIET_BATCHES = 10; // how many usual intervals

const CAN_BE_GRANTED = ["lost", "resigned", "new"];

/** The states in the order in which they want attention: the key names the colour. */
export const STATES = {
  damaged: { word: "Damaged", says: "A record of the store cannot be read." },
  lost: { word: "Lost", says: "The driver's session ended before it resigned, and no driver leads." },
  standing: { word: "Standing by", says: "No driver leads, and one waits to be granted the epoch." },
  quiet: { word: "Quiet", says: "A driver leads, and no batch came for much longer than usual." },
  stopping: { word: "Stopping", says: "A person asked the driver to stop, and it still leads." },
  led: { word: "Led", says: "A driver holds the epoch." },
  stopped: { word: "Stopped", says: "A person stopped the job: no driver may lead until it is started." },
  resigned: { word: "Resigned", says: "The driver stopped in order, and no driver leads." },
  dropped: { word: "Dropped", says: "The job was deleted; its history and the number of its epoch stay." },
  new: { word: "New", says: "No driver ever led." },
};

/** Return the key of a job's state: one of STATES, or what the service called it. */
export function stateOf(job, now) {
  if (job.state === "led") return isQuiet(job, now) ? "quiet" : "led";
  if (job.standbyCount > 0 && CAN_BE_GRANTED.includes(job.state)) return "standing";
  return job.state;
}

export function wordOf(key) {
  return STATES[key]?.word ?? key;
}

/** The seconds between two batches of late, null if that is not known. */
export function usualInterval({ batch, oldest }) {
  if (!batch?.taken || !oldest?.taken || batch.batch <= oldest.batch) return null;
  return (Date.parse(batch.taken) - Date.parse(oldest.taken)) / 1000 / (batch.batch - oldest.batch);
}

export function batchesAnHour(job) {
  const interval = usualInterval(job);
  return interval === null || interval <= 0 ? null : 3600 / interval;
}

/** A batch, or else the epoch, is so old that batches should have come since, if there is input. */
function isQuiet(job, now) {
  const interval = usualInterval(job);
  if (interval === null) return false;
  const silent = (now - Math.max(Date.parse(job.batch.taken), Date.parse(job.since) || 0)) / 1000;
  return silent > Math.max(QUIET_AFTER, QUIET_BATCHES * interval);
}

/** Say of a quiet job what is known: nothing in the service tells a stuck job from one without input. */
export function quietSentence(job, now) {
  const silent = span((now - Date.parse(job.batch.taken)) / 1000);
  return (
    `The last batch is ${silent} old, where one came every ${spacing(usualInterval(job))}. The driver keeps its session ` +
    "alive. Either there is no input, or the query is stuck or slow: Spark's own interface shows which."
  );
}

/** Make the mark of a state: its colour and its word. */
export function pill(key) {
  return make("span", { class: `pill state-${key in STATES ? key : "other"}`, title: STATES[key]?.says ?? null }, wordOf(key));
}
