// Show the view that the address names, keep it fresh, and say so when it is not.

import { linkToReplica, make, morphChildren, notice } from "./dom.js";
import { clock, span } from "./format.js";
import * as overview from "./overview.js";
import { INTERVAL, Poller } from "./poll.js";
import { NotLeader, Refused, json, token } from "./service.js";
import * as sessions from "./sessions.js";
import * as store from "./store.js";
import * as stores from "./stores.js";
import { startTheme } from "./theme.js";

const VIEWS = { overview, stores, store, sessions };
const TOO_OLD = 3 * INTERVAL;

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
  if (status.role !== "leader" && route.view !== "overview") return { status, view, body: null };
  try {
    return { status, view, body: await view.load(route, status, signal) };
  } catch (error) {
    if (error instanceof NotLeader) return { status, view, body: null };
    if (error instanceof Refused && error.status !== 401) return { status, view, refused: error };
    throw error;
  }
}

const poller = new Poller(load, show);

function show() {
  const { data, error } = poller.state;
  forget.hidden = token.get() === null;
  document.title = `${VIEWS[route.view].title(route)} – Milepost`;
  for (const each of document.querySelectorAll("nav [data-view]")) {
    const here = each.dataset.view === route.view || (each.dataset.view === "stores" && route.view === "store");
    if (here) each.setAttribute("aria-current", "page");
    else each.removeAttribute("aria-current");
  }
  const heading = make("h1", { tabindex: "-1", "data-key": "heading" }, VIEWS[route.view].title(route));
  const shown = error instanceof Refused ? refusedAltogether(error) : [...others(error), ...content(data)];
  morphChildren(main, [heading, ...shown]);
  tick();
}

function content(data) {
  if (data === null) return [];
  const { status, view, body, refused } = data;
  if (refused !== undefined) return [notice(refused.message), ...(route.view === "stores" ? [stores.openByName()] : [])];
  return [...follower(status), ...(body === null ? [] : view.render(body, status, route))];
}

/** The page of a follower leads to the leader's: what the leader knows cannot be read from here. */
function follower(status) {
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
  const stale = error !== null ? !(error instanceof Refused) : at !== null && now - at > TOO_OLD;
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

function routeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [first, second] = path.split("/").map(decoded);
  const after = new URLSearchParams(query).get("after");
  if (first === "stores") return second ? { view: "store", store: second, after } : { view: "stores", after };
  return first === "sessions" ? { view: "sessions", after } : { view: "overview", after: null };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // as it was typed: no name has a percent sign, so the service says what is wrong
  }
}

window.addEventListener("hashchange", () => {
  if (location.hash === "#view") return;
  route = routeOf(location.hash);
  main.replaceChildren();
  poller.restart();
  show();
  main.querySelector("h1").focus();
});

main.addEventListener("submit", (event) => {
  event.preventDefault();
  const form = event.target;
  const fields = new FormData(form);
  if (form.dataset.does === "open-store") location.hash = `#/stores/${encodeURIComponent(fields.get("store"))}`;
  if (form.dataset.does === "token") useToken(form, String(fields.get("token")).trim());
});

// What was wrong with an input is forgotten once something else is typed.
main.addEventListener("input", (event) => event.target.setCustomValidity?.(""));

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
  poller.restart();
  show();
});

startTheme(document.getElementById("theme"));
setInterval(tick, 1000);
show();
poller.now();
