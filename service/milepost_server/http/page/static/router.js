// What the address says: which view is shown, of what, and how it is filtered.

const PARAMETERS = ["after", "q", "state", "sort", "range", "show", "cell"];

/** Return the route that a hash names: `view`, the name of its `store` or job, and its parameters. */
export function routeOf(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [first, second] = path.split("/").map(decoded);
  const given = new URLSearchParams(query);
  const parameters = Object.fromEntries(PARAMETERS.map((name) => [name, given.get(name)]));
  if (first === "stores") return second ? { view: "store", store: second, ...parameters } : { view: "stores", ...parameters };
  if (first === "sessions" || first === "replicas") return { view: first, ...parameters };
  return first === "jobs" && second ? { view: "job", store: second, ...parameters } : { view: "jobs", ...parameters };
}

/** Return the hash of a view, with those parameters that have a value. */
export function hashOf(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(given).toString();
  return `#/${path}${query ? `?${query}` : ""}`;
}

export function hashOfJob(job, parameters = {}) {
  return hashOf(`jobs/${encodeURIComponent(job)}`, parameters);
}

export function hashOfStore(store, parameters = {}) {
  return hashOf(`stores/${encodeURIComponent(store)}`, parameters);
}

/** Whether two routes show the same thing, filtered otherwise at most. */
export function isSameView(one, other) {
  const ofOneJob = one.view === "job" || other.view === "job";
  return one.view === other.view && one.store === other.store && one.after === other.after && !(ofOneJob && one.cell !== other.cell);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // as it was typed: no name has a percent sign, so the service says what is wrong
  }
}
