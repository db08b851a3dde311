// All jobs in one list: the state of each, how far it is, who leads it and who waits. The address keeps the filters.

import { away, baseOf, cellsOf, ofEach, together } from "./cells.js";
import { link, make } from "./dom.js";
import { age, count, lasting, spacing } from "./format.js";
import { STATES, batchesAnHour, pill, stateOf, usualInterval, wordOf } from "./job_state.js";
import { hashOf, hashOfJob } from "./router.js";
import { json, serverTime } from "./service.js";

const LIMIT = 200; // jobs in a request
const MOST = 2000; // jobs that a search looks through

const SORTS = { attention: "what wants attention", name: "name", age: "oldest batch" };

export const title = () => "Jobs";

/** Load the first jobs by name of each cell or, where something is searched for, many more. */
export async function load(route, status, signal) {
  const most = route.q || route.state ? MOST : LIMIT;
  if (cellsOf(status).length === 0) return { ...(await first(baseOf(status), route.after, most, signal)), answers: [] };
  const answers = await ofEach(status, signal, (base) => first(base, route.after, most, signal));
  const { rows, next } = together(answers, ({ jobs }) => jobs, ({ job }) => job);
  return { jobs: rows, next, answers };
}

async function first(base, begin, most, signal) {
  const jobs = [];
  let next = begin;
  do {
    const after = next === null ? "" : `&token=${encodeURIComponent(next)}`;
    const page = await json(`${base}jobs?limit=${LIMIT}${after}`, signal);
    jobs.push(...page.jobs);
    next = page.next;
  } while (next !== null && jobs.length < most);
  return { jobs, next };
}

export function render({ jobs, next, answers }, status, route) {
  const now = serverTime();
  const all = jobs.map((job) => ({ ...job, key: stateOf(job, now) }));
  const missing = away(answers, "its jobs");
  if (all.length === 0 && !route.after) return [...missing, nothingYet()];
  const named = all.filter((job) => matches(job, route.q));
  const inCell = named.filter(({ cell }) => !route.cell || cell === route.cell);
  const shown = sorted(inCell.filter((job) => !route.state || job.key === route.state), route.sort, now);
  return [
    ...missing,
    tools(route, inCell, cellChips(route, named, answers)),
    shown.length > 0 ? list(shown, now, status, answers.length > 0) : make("p", { class: "empty", "data-key": "none" }, "No job matches. ", link("#/", "Show all")),
    footer(shown.length, all.length, next, route),
  ];
}

function matches(job, query) {
  if (!query) return true;
  return [job.job, job.holder ?? ""].some((text) => text.toLowerCase().includes(query.toLowerCase()));
}

function sorted(jobs, sort, now) {
  const order = Object.keys(STATES);
  const rank = (job) => (job.damaged ? -1 : order.includes(job.key) ? order.indexOf(job.key) : order.length);
  const silence = (job) => (job.batch?.taken ? now - Date.parse(job.batch.taken) : -1);
  const byName = (one, other) => (one.job === other.job ? (one.cell < other.cell ? -1 : 1) : one.job < other.job ? -1 : 1);
  if (sort === "name") return jobs.sort(byName);
  if (sort === "age") return jobs.sort((one, other) => silence(other) - silence(one) || byName(one, other));
  return jobs.sort((one, other) => rank(one) - rank(other) || byName(one, other));
}

/** The cells with the number of jobs in each, which filter the list; nothing without cells. */
function cellChips(route, jobs, answers) {
  if (answers.length === 0) return null;
  const chip = (cell, text, number) =>
    make(
      "a",
      { class: "chip", href: kept(route, { cell }), "aria-current": (route.cell || null) === cell ? "true" : null, "data-key": cell ?? "all" },
      text,
      " ",
      make("strong", {}, number),
    );
  return make(
    "nav",
    { class: "chips", "aria-label": "Cells", "data-key": "cells" },
    chip(null, "All cells", jobs.length.toLocaleString("en")),
    answers.map(({ cell, error }) => chip(cell, cell, error ? "away" : jobs.filter((job) => job.cell === cell).length.toLocaleString("en"))),
  );
}

/** The search, the order, and the states with the number of jobs in each, which filter the list. */
function tools(route, jobs, cells) {
  const numbers = new Map();
  for (const { key } of jobs) numbers.set(key, (numbers.get(key) ?? 0) + 1);
  const keys = [...new Set([...Object.keys(STATES), ...numbers.keys()])].filter((key) => numbers.has(key) || route.state === key);
  const chip = (key, word, number) =>
    make(
      "a",
      {
        class: `chip ${key === null ? "" : `state-${key in STATES ? key : "other"}`}`,
        href: kept(route, { state: key }),
        "aria-current": (route.state ?? null) === key ? "true" : null,
        "data-key": key ?? "all",
      },
      make("span", { class: "chip-word" }, word),
      " ",
      make("strong", {}, number.toLocaleString("en")),
    );
  const search = make("input", {
    type: "search",
    name: "q",
    "aria-label": "Search for a job or a driver",
    placeholder: "Search jobs and drivers   /",
    value: route.q ?? "",
    autocomplete: "off",
    spellcheck: "false",
    "data-does": "search",
  });
  const order = make(
    "select",
    { name: "sort", "aria-label": "Order", "data-does": "sort" },
    Object.entries(SORTS).map(([key, text]) => make("option", { value: key, selected: (route.sort ?? "attention") === key }, `By ${text}`)),
  );
  return make(
    "div",
    { class: "filters", "data-key": "filters" },
    make("form", { role: "search", "data-does": "open-job" }, search, order),
    cells,
    make("nav", { class: "chips", "aria-label": "States" }, chip(null, "All", jobs.length), keys.map((key) => chip(key, wordOf(key), numbers.get(key) ?? 0))),
  );
}

const COLUMNS = ["Job", "State", "Last batch", "Batches an hour", "Led by", "Standbys"];

function list(jobs, now, status, ofCells) {
  const columns = ofCells ? [...COLUMNS, "Cell"] : COLUMNS;
  return make(
    "table",
    { class: ofCells ? "jobs of-cells" : "jobs", role: "table", "aria-label": "Jobs", "data-key": "jobs" },
    make("thead", { role: "rowgroup" }, make("tr", { role: "row" }, columns.map((text) => make("th", { scope: "col", role: "columnheader" }, text)))),
    make("tbody", { role: "rowgroup" }, jobs.map((job) => row(job, now, status))),
  );
}

function row(job, now, status) {
  const cell = (name, ...children) => make("td", { role: "cell", class: `job-${name}` }, ...children);
  const label = (text) => make("span", { class: "label", "aria-hidden": "true" }, text);
  const rate = batchesAnHour(job);
  const name = make("th", { scope: "row", role: "rowheader", class: "job-name" }, link(hashOfJob(job.job, { cell: job.cell === status.cell ? null : job.cell }), job.job, { class: "job-link" }));
  const damage = job.damaged ? make("span", { class: "pill state-damaged" }, `${job.damaged} damaged`) : null;
  return make(
    "tr",
    { role: "row", "data-key": job.cell ? `${job.cell}/${job.job}` : job.job, class: `job state-${job.key in STATES ? job.key : "other"}` },
    name,
    cell("state", pill(job.key), damage),
    cell("batch", ...lastBatch(job, now)),
    cell("rate", rate === null ? make("span", { class: "quiet" }, "–") : make("span", { title: `one every ${spacing(usualInterval(job))}` }, rounded(rate)), label(" an hour")),
    cell("holder", ...leadership(job, now)),
    cell("standbys", job.standbyCount === null || job.standbyCount === undefined ? "–" : String(job.standbyCount), label(job.standbyCount === 1 ? " standby" : " standbys")),
    job.cell ? cell("cell", label("cell "), job.cell) : null,
  );
}

function lastBatch({ batch }, now) {
  if (!batch) return [make("span", { class: "quiet" }, "none here")];
  return [make("span", { class: "label", "aria-hidden": "true" }, "batch "), make("strong", {}, batch.batch.toLocaleString("en")), " ", make("span", { class: "quiet" }, age(batch.taken, now))];
}

function leadership(job, now) {
  if (job.epoch === null) return [make("span", { class: "quiet" }, "unreadable")];
  if (!job.epoch) return [make("span", { class: "quiet" }, "no driver yet")];
  const epoch = make("span", { class: "epoch" }, `epoch ${job.epoch}`);
  const who = job.session === null ? make("span", { class: "quiet" }, "no driver") : make("code", { title: job.holder || job.session }, job.holder || job.session);
  return [who, " ", epoch, job.since ? make("span", { class: "quiet since" }, " for ", lasting(job.since, now)) : null];
}

function rounded(rate) {
  return rate >= 10 ? Math.round(rate).toLocaleString("en") : rate.toFixed(1);
}

function footer(shown, loaded, next, route) {
  const said = shown === loaded ? count(shown, "job", "jobs") : `${shown} of ${count(loaded, "job", "jobs")}`;
  const more = next === null ? null : link(kept(route, { after: next }), "Next jobs by name");
  const begin = route.after ? link(kept(route), "First jobs") : null;
  return make("p", { class: "pages", "data-key": "footer" }, make("span", { class: "quiet" }, said), begin, more);
}

function nothingYet() {
  return make(
    "div",
    { class: "empty", "data-key": "empty" },
    make("p", { class: "big" }, "No job yet"),
    make("p", {}, "A job that this token may read appears here as soon as its first driver leads: ", make("code", {}, 'milepost.spark.lead(spark, "flights")'), " in PySpark, or ", make("code", {}, "milepost run flights -- …"), " for any other driver."),
  );
}

/** The address of the list with the filters of a route, but for what is changed. */
function kept({ q, state, sort, cell }, changed = {}) {
  return hashOf("", { q, state, sort, cell, ...changed });
}

/** Keep the search and the order in the address, without a step in the browser's history for each letter. */
export function filter(route, changed) {
  const { sort, ...others } = { ...route, ...changed };
  return kept({ ...others, sort: sort === "attention" ? null : sort });
}

/** Move the keyboard's focus to the next or the previous job; where none has it, to the first. */
export function step(by) {
  const links = [...document.querySelectorAll(".job-link")];
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? 0 : Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
}
