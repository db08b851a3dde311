// Drawings of a job: the intervals between its batches, and what happened to it over time. Each has a text of its own.

import { draw, hint, make } from "./dom.js";
import { count, moment, spacing } from "./format.js";
import { IN_ORDER, isGap, isOfCommand } from "./batches.js";

const EPOCH_COLOURS = 6;
const BARS = 60;
const WIDTH = 1000;
const TALLEST = 6; // usual intervals

/** The class that colours what an epoch did; neighbouring epochs differ. */
export function colourOf(epoch) {
  return epoch === null || epoch === undefined ? "epoch-none" : `epoch-${epoch % EPOCH_COLOURS}`;
}

/**
 * Draw the last intervals of a query as bars, with their scale at the side. A bar that is much
 * longer than usual is cut off, so that the others show.
 */
export function intervals(query) {
  const bars = query.intervals.slice(-BARS);
  const longest = Math.max(...bars.map(({ seconds }) => seconds), 0.001);
  const top = query.usual > 0 ? Math.min(longest, TALLEST * query.usual) : longest;
  const pitch = WIDTH / Math.max(bars.length, 20);
  const drawn = bars.map(({ seconds, batch, epoch, replay, took, stopped }, index) => {
    const height = Math.max(3, Math.min(1, seconds / top) * 96);
    const marks = `${colourOf(epoch)}${isGap(seconds, query.usual) && !stopped ? " gap" : ""}${replay ? " replay" : ""}`;
    return draw(
      "rect",
      { class: `bar ${marks}`, x: index * pitch + pitch * 0.12, y: 100 - height, width: pitch * 0.76, height },
      hint(`batch ${batch}: ${spacing(seconds)} after the one before${took === null ? "" : `, took ${spacing(took)}`}${replay ? ", committed again" : ""}${stopped ? ", the job was stopped meanwhile" : ""}`),
    );
  });
  const usual = query.usual === null ? null : 100 - Math.max(3, (query.usual / top) * 96);
  const drawing = draw(
    "svg",
    {
      class: "intervals",
      viewBox: `0 0 ${WIDTH} 100`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Intervals between the last ${count(bars.length + 1, "batch", "batches")} of ${query.directory || "/"}: usually ${spacing(query.usual ?? 0)}, at most ${spacing(longest)}`,
    },
    usual === null ? null : draw("line", { class: "usual", x1: 0, x2: WIDTH, y1: usual, y2: usual }),
    drawn,
  );
  const meant = [
    `Up to batch ${bars.at(-1).batch.toLocaleString("en")}. Dashed: the usual interval.`,
    bars.some(({ seconds, stopped }) => isGap(seconds, query.usual) && !stopped) ? " Red: much longer than usual." : "",
    bars.some(({ replay }) => replay) ? " Orange: committed again." : "",
  ];
  return plot("Time between two batches", top < longest ? `over ${spacing(top)}` : spacing(top), drawing, make("p", { class: "quiet" }, meant.join("")));
}

/** A drawing with its caption, and the most that it shows at its side. */
function plot(caption, most, drawing, ...below) {
  const side = [most, "0"].map((text) => make("span", {}, text));
  return make("figure", { class: "plot" }, make("figcaption", {}, caption), make("div", { class: "axis", "aria-hidden": "true" }, side), drawing, ...below);
}

/** Draw the rows of the last batches of a query as bars; a batch whose rows are not known has none. Null if none are. */
export function rowsOf(query) {
  const bars = query.batches.slice(-BARS);
  const most = Math.max(...bars.map(({ rows }) => rows ?? 0), 1);
  if (bars.every(({ rows }) => rows === null)) return null;
  const pitch = WIDTH / Math.max(bars.length, 20);
  const drawn = bars.map(({ batch, rows, epoch }, index) => {
    if (rows === null) return null;
    const height = Math.max(1, (rows / most) * 96);
    return draw("rect", { class: `bar ${colourOf(epoch)}`, x: index * pitch + pitch * 0.12, y: 100 - height, width: pitch * 0.76, height }, hint(`batch ${batch}: ${count(rows, "row", "rows")}`));
  });
  const known = bars.filter(({ rows }) => rows !== null).length;
  const drawing = draw(
    "svg",
    {
      class: "intervals",
      viewBox: `0 0 ${WIDTH} 100`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `Rows of the last ${count(known, "batch", "batches")} of ${query.directory || "/"}: usually ${query.usualRows.toLocaleString("en")}, at most ${most.toLocaleString("en")}`,
    },
    drawn,
  );
  return plot("Rows of each batch", most.toLocaleString("en"), drawing);
}

/**
 * Draw what happened between two times: the epochs as bars, the batches as ticks in the colour of their epoch, and a
 * mark for each other thing that was done.
 */
export function timeline(entries, from, to, now) {
  const x = (at) => ((Math.min(Math.max(at, from), to) - from) / Math.max(1, to - from)) * WIDTH;
  const within = entries.filter((entry) => Date.parse(entry.at) >= from);
  const drawing = draw(
    "svg",
    {
      class: "timeline",
      viewBox: `0 0 ${WIDTH} 100`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `What happened from ${moment(from, now)} to ${moment(to, now)}; the list below says the same`,
    },
    epochs(entries, from, to, x),
    within.filter(({ kind }) => kind === "batch-committed").map((entry) => tick(entry, x)),
    within.filter(({ kind }) => kind in MARKS).map((entry) => mark(entry, x)),
  );
  return make("div", { class: "drawing" }, drawing, scale(from, to, now));
}

/** The epochs, each from its grant to its end; the one without an end lasts until now. */
function epochs(entries, from, to, x) {
  const spans = new Map();
  for (const entry of entries) {
    const at = Date.parse(entry.at);
    const known = spans.get(entry.epoch) ?? { begin: null, end: null, who: null };
    if (entry.kind === "epoch-granted") spans.set(entry.epoch, { ...known, begin: at, who: entry.holder });
    if (entry.kind === "epoch-ended") {
      const since = entry.since ? Date.parse(entry.since) : null;
      spans.set(entry.epoch, { begin: known.begin ?? since, end: at, who: known.who ?? entry.holder, how: entry.how });
    }
  }
  return [...spans].flatMap(([epoch, { begin, end, who, how }]) => {
    const first = begin ?? from;
    const last = end ?? to;
    if (last < from || isOfCommand({ holder: who })) return [];
    const said = `epoch ${epoch}${who ? `, ${who}` : ""}${how ? `, ended: ${how}` : ""}`;
    return [draw("rect", { class: `span ${colourOf(epoch)}`, x: x(first), y: 62, width: Math.max(2, x(last) - x(first)), height: 22 }, hint(said))];
  });
}

function tick(entry, x) {
  const replay = entry.replay === true;
  return draw(
    "rect",
    { class: `tick ${colourOf(entry.epoch)}${replay ? " replay" : ""}`, x: x(Date.parse(entry.at)) - 1.5, y: replay ? 24 : 34, width: 3, height: replay ? 34 : 24 },
    hint(`batch ${entry.batch}${replay ? ", committed again" : ""}`),
  );
}

const MARKS = {
  "savepoint-made": "savepoint",
  "savepoint-dropped": "savepoint",
  "rolled-back": "restored",
  cloned: "savepoint",
  "epoch-ended": "ended",
};

function mark(entry, x) {
  if (entry.kind === "epoch-ended" && IN_ORDER.includes(entry.how)) return null;
  return draw("rect", { class: `mark-${MARKS[entry.kind]}`, x: x(Date.parse(entry.at)) - 2, y: 4, width: 4, height: 84 }, hint(entry.kind));
}

function scale(from, to, now) {
  const middle = (from + to) / 2;
  return make("div", { class: "scale", "aria-hidden": "true" }, [from, middle, to].map((at) => make("span", {}, at === to && now - to < 2000 ? "now" : moment(at, now))));
}
