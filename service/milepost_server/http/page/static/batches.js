// What a history says of batches: the intervals between them, gaps, replays, and what a take-over or a restore meant.

/** How an epoch ends whose driver stopped in order. */
export const IN_ORDER = ["resigned", "stopped", "handed-over"];

/** How a command of `milepost` that takes an epoch ends the name of its holder. It drives no query. */
const COMMAND = /(^|\()milepost [a-z -]+\)?$/;

const GAP_TIMES = 5; // as often the usual interval
const GAP_SECONDS = 30;

/** Return the queries of a history, each with its batches and the intervals between them, the oldest first. */
export function queriesOf(entries) {
  const found = new Map();
  const known = stops();
  for (const entry of [...entries].reverse()) {
    known.see(entry);
    if (entry.kind !== "batch-committed") continue;
    const batches = found.get(entry.directory) ?? [];
    const at = Date.parse(entry.at);
    const took = entry.since ? (at - Date.parse(entry.since)) / 1000 : null;
    const stopped = known.since(batches.at(-1)?.at ?? Infinity);
    batches.push({ stopped, batch: entry.batch, at, took, epoch: entry.epoch ?? null, replay: entry.replay === true, rows: entry.input_rows ?? null });
    found.set(entry.directory, batches);
  }
  return [...found].map(([directory, batches]) => {
    const intervals = batches.slice(1).map((batch, index) => ({ ...batch, seconds: (batch.at - batches[index].at) / 1000 }));
    const usual = median(intervals.map(({ seconds }) => seconds));
    const longest = Math.max(0, ...intervals.map(({ seconds }) => seconds));
    const usualDuration = median(batches.filter(({ took }) => took !== null).map(({ took }) => took));
    const usualRows = median(batches.filter(({ rows }) => rows !== null).map(({ rows }) => rows));
    return { directory, batches, intervals, usual, longest, usualDuration, usualRows };
  });
}

function median(values) {
  if (values.length === 0) return null;
  const ordered = [...values].sort((one, other) => one - other);
  return ordered[Math.floor(ordered.length / 2)];
}

/** Whether so many seconds without a batch stand out. */
export function isGap(seconds, usual) {
  return usual !== null && seconds > Math.max(GAP_SECONDS, GAP_TIMES * usual);
}

/** Whether an epoch was that of a command or of this console, such as a restore, and not that of a driver. */
export function isOfCommand({ holder }) {
  return holder === "console" || COMMAND.test(holder ?? "");
}

/** Return the newest entry that grants an epoch to a driver or ends one; null if the history has none. */
export function lastOfDriver(entries) {
  return entries.find((entry) => (entry.kind === "epoch-granted" || entry.kind === "epoch-ended") && !isOfCommand(entry)) ?? null;
}

/** Follows, from the oldest entry on, when a person had stopped the job. */
function stops() {
  let stopped = false;
  let until = -Infinity;
  return {
    see({ kind, how, at }) {
      if (kind === "stop-requested" || how === "stopped") stopped = true;
      if (kind !== "started") return;
      if (stopped) until = Date.parse(at);
      stopped = false;
    },
    since: (at) => stopped || until > at,
  };
}

/**
 * Return the history as episodes, the newest first: `batches` that followed each other under one epoch, a `gap` between
 * two batches, or one other `entry`. An entry that grants an epoch to a driver knows for how long none led before it.
 */
export function episodesOf(entries) {
  const usual = new Map(queriesOf(entries).map((query) => [query.directory, query.usual]));
  const episodes = [];
  const last = new Map(); // the batch before, by query
  let open = new Map();
  const commands = new Set(entries.filter((entry) => entry.kind === "epoch-granted" && isOfCommand(entry)).map(({ epoch }) => epoch));
  const known = stops();
  let ended = null;
  for (const entry of [...entries].reverse()) {
    known.see(entry);
    const at = Date.parse(entry.at);
    if (entry.kind !== "batch-committed") {
      const ofDriver = !commands.has(entry.epoch) && !isOfCommand(entry);
      const leaderless = entry.kind === "epoch-granted" && ofDriver && ended !== null ? { seconds: (at - ended.at) / 1000, how: ended.how } : null;
      if (entry.kind === "epoch-ended" && ofDriver) ended = { at, how: entry.how };
      if (entry.kind === "epoch-granted" && ofDriver) ended = null;
      episodes.push({ kind: "entry", at, entry, leaderless });
      open = new Map();
      continue;
    }
    const before = last.get(entry.directory);
    last.set(entry.directory, at);
    const seconds = before === undefined ? 0 : (at - before) / 1000;
    let episode = open.get(entry.directory);
    if (before !== undefined && isGap(seconds, usual.get(entry.directory))) {
      episodes.push({ kind: "gap", at, seconds, stopped: known.since(before), directory: entry.directory, usual: usual.get(entry.directory) });
      episode = undefined;
    }
    const begunUnder = entry.begun_under ?? null;
    if (episode === undefined || episode.begunUnder !== begunUnder || episode.epoch !== (entry.epoch ?? null) || episode.replay !== (entry.replay === true)) {
      episode = { kind: "batches", at, from: at, first: entry.batch, count: 0, directory: entry.directory, epoch: entry.epoch ?? null, replay: entry.replay === true, begunUnder };
      episodes.push(episode);
      open.set(entry.directory, episode);
    }
    Object.assign(episode, { at, last: entry.batch, count: episode.count + 1 });
  }
  return episodes.reverse();
}

/** Return for how many seconds no driver has led until `now`; 0 while one leads, and before the first. */
function leaderlessNow(episodes, now) {
  const last = lastOfDriver(episodes.flatMap(({ entry }) => entry ?? []));
  return last?.kind === "epoch-ended" ? Math.max(0, (now - Date.parse(last.at)) / 1000) : 0;
}

/** Return the figures of a history: take-overs, the longest time without a driver, batches committed again, restores. */
export function figuresOf(episodes, now) {
  const since = leaderlessNow(episodes, now);
  const granted = episodes.filter(({ leaderless }) => leaderless);
  const undone = episodes.filter(({ entry }) => entry?.kind === "rolled-back");
  return {
    takeovers: granted.length,
    unplanned: granted.filter(({ leaderless }) => !IN_ORDER.includes(leaderless.how)).length,
    longestWithout: Math.max(since, ...granted.map(({ leaderless }) => leaderless.seconds)),
    lasts: since > 0 && granted.every(({ leaderless }) => leaderless.seconds <= since),
    replayed: episodes.filter(({ replay }) => replay).reduce((sum, { count }) => sum + count, 0),
    restores: undone.length,
    undone: undone.reduce((sum, { entry }) => sum + undoneBy(entry), 0),
  };
}

/** How many batches a restore took back; 0 if it went forward, as one that undoes another does. */
export function undoneBy(entry) {
  return Math.max(0, (entry.previous_batch ?? entry.batch ?? 0) - (entry.batch ?? 0));
}
