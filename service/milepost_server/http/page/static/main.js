// Show the view that the address names, keep it fresh, and say so when it is not.

import { actNamed, subjectOf } from "./acts.js";
import { cellsOf, isRelayed } from "./cells.js";
import { openDialog } from "./dialog.js";
import { link, linkToReplica, make, morphChildren, notice } from "./dom.js";
import { Follower } from "./follow.js";
import { ago, clock, span } from "./format.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import { Poller } from "./poll.js";
import * as replicas from "./replicas.js";
import { hashOf, hashOfStore, isSameView, routeOf } from "./router.js";
import { NotLeader, Refused, json, serverTime, token } from "./service.js";
import * as sessions from "./sessions.js";
import * as store from "./store.js";
import * as stores from "./stores.js";
import { startTheme } from "./theme.js";

const VIEWS = { jobs, job, stores, store, sessions, replicas };
const OF_CELLS = ["jobs", "job", "sessions"]; // what a replica that does not lead asks of the leaders of all cells
const ABOVE = { job: ["jobs", "Jobs", "#/"], store: ["stores", "Stores", "#/stores"] };

const main = document.getElementById("view");
const freshness = document.getElementById("freshness");
const ageText = document.getElementById("age");
const forget = document.getElementById("forget");

let route = routeOf(location.hash);
let lastStatus = null;

/** Ask for all that is shown. On a replica that does not lead, that is only what it knows of itself. */
async function load(signal) {
  const status = (lastStatus = await json("v1/status", signal));
  const view = VIEWS[route.view];
  const asks = route.view === "replicas" || (OF_CELLS.includes(route.view) && cellsOf(status).length > 0);
  if (status.role !== "leader" && !asks) return { status, view, body: null };
  try {
    return { status, view, body: await view.load(route, status, signal) };
  } catch (error) {
    if (error instanceof NotLeader) return { status, view, body: null };
    if (error instanceof Refused && error.status !== 401) return { status, view, refused: error };
    throw error;
  }
}

const poller = new Poller(load, show);
const follower = new Follower(() => poller.soon());

function show() {
  const { data, error } = poller.state;
  const view = VIEWS[route.view];
  forget.hidden = token.get() === null;
  document.title = `${view.title(route)} – Milepost`;
  for (const each of document.querySelectorAll("nav [data-view]")) {
    if (each.dataset.view === (ABOVE[route.view]?.[0] ?? route.view)) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  const shown = error instanceof Refused ? refusedAltogether(error) : [...others(error), ...content(data)];
  morphChildren(main, [heading(view, data, error), ...shown]);
  const own = data !== null && !isRelayed(data.status, route.cell); // the events of others are not sent on
  const live = route.view === "job" && own && data.body && !(error instanceof Refused) && !document.hidden;
  follower.follow(live ? route.store : null);
  poller.slow = follower.open;
  tick();
}

/** The title of the view, with the way back to the list that it belongs to, and what the view puts beside it. */
function heading(view, data, error) {
  const [, text, hash] = ABOVE[route.view] ?? [];
  const beside = data?.body && !(error instanceof Refused) && view.beside ? view.beside(data.body, data.status, route) : [];
  return make(
    "div",
    { class: "head", "data-key": "heading" },
    text ? make("nav", { class: "crumbs", "aria-label": "Above" }, link(hash, text)) : null,
    make("h1", { tabindex: "-1" }, view.title(route)),
    beside,
  );
}

function content(data) {
  if (data === null) return [];
  const { status, view, body, refused } = data;
  if (refused !== undefined) return [notice(refused.message), ...(view.instead ? view.instead(refused, status, route) : [])];
  return [...notLeading(status), ...(body === null ? [] : view.render(body, status, route))];
}

/** The page of a follower leads to the leader's: what the leader knows cannot be read from here. */
function notLeading(status) {
  if (status.role === "leader") return [];
  if (status.leader === null) return [notice("No replica leads at the moment, as far as this one knows.")];
  return [notice("This replica does not lead. The page of the one that does: ", linkToReplica(status.leader))];
}

function refusedAltogether(error) {
  if (error.status !== 401) return [notice(error.message)];
  const wrong = token.get() === null ? "This service wants a token." : "The service does not know this token.";
  const input = make("input", { name: "token", type: "password", required: true, autocomplete: "off" });
  return [
    make("p", { "data-key": "why" }, wrong, " It is kept in this tab alone, until it is closed, and sent to this replica only."),
    make("form", { "data-key": "token", "data-does": "token" }, make("label", {}, "Token", input), make("button", {}, "Use it")),
  ];
}

/** Say how old the view is. What is announced changes only when its meaning does; the seconds beside it are not. */
function tick() {
  const { data, at, error, since, next } = poller.state;
  const now = Date.now();
  const stale = error !== null ? !(error instanceof Refused) : at !== null && now - at > 3 * poller.interval;
  for (const each of document.querySelectorAll("time[data-ago]")) say(each, ago(each.dateTime, serverTime()));
  const phase = stale ? "stale" : data === null && error === null ? "loading" : "live";
  freshness.parentElement.dataset.phase = main.dataset.phase = phase;
  say(freshness, { loading: "Loading", live: error ? "Refused" : "Live", stale: error ? "The service cannot be reached" : "Stale" }[phase]);
  const parts = at === null ? [] : [`shown as of ${clock(at)}, ${span((now - at) / 1000)} ago`];
  if (stale && error !== null) {
    parts.unshift(`since ${clock(since)}: ${error.message}`);
    parts.push(`asking again in ${span(Math.max(0, next - now) / 1000)}`);
  }
  say(ageText, parts.join("; "));
}

/** Where this replica does not answer, another one may: these are those that it knew of. */
function others(error) {
  const known = lastStatus?.replicas ?? [lastStatus?.leader];
  const elsewhere = known.filter((url) => URL.canParse(url) && new URL(url).origin !== location.origin);
  if (error === null || elsewhere.length === 0) return [];
  const links = elsewhere.map((url, index) => [index ? ", " : null, linkToReplica(url)]);
  return [make("p", { class: "notice", "data-key": "others" }, "Other replicas: ", links.flat())];
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

window.addEventListener("hashchange", () => {
  if (location.hash === "#view") return;
  const before = route;
  route = routeOf(location.hash);
  if (isSameView(before, route)) {
    show();
    poller.now();
    return;
  }
  main.replaceChildren();
  poller.restart();
  show();
  main.querySelector("h1").focus();
});

main.addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  const fields = new FormData(form);
  if (form.dataset.does === "open-store") location.hash = hashOfStore(fields.get("store"));
  if (form.dataset.does === "token") useToken(form, String(fields.get("token")).trim());
});

// What was wrong with an input is forgotten once something else is typed.
main.addEventListener("input", (event) => {
  event.target.setCustomValidity?.("");
  if (event.target.dataset.does === "search") refilter({ q: event.target.value });
});
main.addEventListener("change", (event) => {
  if (event.target.dataset.does === "sort") refilter({ sort: event.target.value });
});

/** Filter the list of jobs otherwise, without a step in the browser's history. */
function refilter(changed) {
  history.replaceState(null, "", jobs.filter(route, changed));
  route = routeOf(location.hash);
  show();
  if (poller.state.data?.body?.next) poller.soon();
}

main.addEventListener("click", (event) => {
  const pressed = event.target.closest("[data-act]");
  if (pressed !== null) openDialog(actNamed(pressed.dataset.act), subjectOf(pressed), () => poller.now());
});

// "/" searches, and the arrows go through the list of jobs.
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches?.("input, select, textarea");
  if (event.key === "/" && !typing) {
    event.preventDefault();
    const search = main.querySelector("[data-does=search]");
    if (search === null) location.hash = hashOf("");
    else search.focus();
  }
  const by = { ArrowDown: 1, ArrowUp: -1, j: typing ? 0 : 1, k: typing ? 0 : -1 }[event.key];
  const inList = event.target.matches?.(".job-link, [data-does=search], h1, body, main");
  if (route.view === "jobs" && by && inList) {
    event.preventDefault();
    jobs.step(by);
  }
});

function useToken(form, given) {
  const input = form.elements.namedItem("token");
  input.setCustomValidity(/^[\x21-\x7e]+$/.test(given) ? "" : "A token has visible ASCII characters only.");
  if (!input.reportValidity()) return;
  token.set(given);
  form.reset();
  poller.restart();
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address says which view is shown
  main.focus();
});
forget.addEventListener("click", () => {
  token.forget();
  main.replaceChildren();
  lastStatus = null;
  follower.stop();
  poller.restart();
  show();
});

document.addEventListener("visibilitychange", () => {
  if (document.hidden) follower.stop();
});

startTheme(document.getElementById("theme"));
setInterval(tick, 1000);
show();
poller.now();
