// Ask this replica. Redirects are not followed: the leader has another origin, where this page may read nothing.

const TOKEN = "milepost-token";
const ANSWER_WITHIN = 8000;

/** The service does not do this now, or did not answer; it may later. `after` is in seconds. */
export class Unavailable extends Error {
  constructor(message, after = 0) {
    super(message);
    this.after = after;
  }
}

/** The service refused; asking again would not change that. `code` is the problem's, and `cell` where a job is instead. */
export class Refused extends Error {
  constructor(status, code, detail, cell = null) {
    super(detail);
    this.status = status;
    this.code = code;
    this.cell = cell;
  }
}

/** The request was sent elsewhere: as a rule because another replica leads. */
export class NotLeader extends Error {
  constructor() {
    super("the request was sent elsewhere, where this page does not follow");
  }
}

/** The token lives as long as the tab does, and goes nowhere but into the header of requests. */
export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  forget: () => sessionStorage.removeItem(TOKEN),
};

const SAME_ORIGIN = { redirect: "manual", cache: "no-store", credentials: "same-origin" };

function authorization() {
  const kept = token.get();
  return kept === null ? {} : { Authorization: `Bearer ${kept}` };
}

let skew = 0;

/** The time by the server's clock, in milliseconds, as well as it is known: ages must not depend on this machine's. */
export function serverTime() {
  return Date.now() + skew;
}

/** Return the JSON of an answer. `signal` ends the request when nobody waits for it any more. */
export async function json(path, signal) {
  const answer = await ask(path, signal);
  const body = await read(answer, (it) => it.json());
  if (answer.ok) return body;
  const code = String(body.type ?? "").replace("urn:milepost:", "");
  const detail = String(body.detail || body.title || `status ${answer.status}`);
  if (answer.status === 429 || answer.status === 503) {
    throw new Unavailable(detail, Number(answer.headers.get("retry-after")) || 0);
  }
  throw new Refused(answer.status, code, detail, code === "elsewhere" ? body.cell : null);
}

/** Return the text of an answer with status 200 or 503, as the probes give it. */
export async function text(path, signal) {
  const answer = await ask(path, signal);
  if (answer.status !== 200 && answer.status !== 503) throw new Refused(answer.status, "", `status ${answer.status}`);
  return read(answer, (it) => it.text());
}

/** Return the reader of a stream of server-sent events. It has no deadline: `signal` ends it. */
export async function stream(path, signal) {
  const answer = await ask(path, signal, { Accept: "text/event-stream" }, null);
  if (!answer.ok) throw new Refused(answer.status, "", `status ${answer.status}`);
  return answer.body.getReader();
}

/** Send a request, and return what this replica answered. `within` is in milliseconds; null sets no limit. */
export async function ask(path, signal, more = {}, within = ANSWER_WITHIN, sent = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      ...sent,
      headers: { ...authorization(), ...more },
      ...SAME_ORIGIN,
      signal: within === null ? signal : AbortSignal.any([signal, AbortSignal.timeout(within)]),
    });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new Unavailable(error.name === "TimeoutError" ? "no answer in time" : "no connection");
  }
  if (answer.type === "opaqueredirect") throw new NotLeader();
  if (!answer.headers.has("milepost-term")) throw new Unavailable(`something that is not Milepost answered ${answer.status}`);
  const date = Date.parse(answer.headers.get("date") ?? "");
  if (!Number.isNaN(date)) skew = Math.abs(date - Date.now()) < 2000 ? 0 : date - Date.now(); // it has whole seconds
  return answer;
}

async function read(answer, reader) {
  try {
    return await reader(answer);
  } catch {
    throw new Unavailable("an answer came that was cut short");
  }
}
