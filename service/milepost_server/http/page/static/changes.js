// Send a change to this replica, and say how it ended: done, refused (nothing was changed), or unknown.

import { ask, NotLeader, Unavailable } from "./service.js";

const ANSWER_WITHIN = 30000;
const SESSION = { ttl: 60, holder: "console" };

/**
 * Send a change. `as` is the session that acts, `key` and `number` say which request this is and which try of it. The
 * result has a `kind`; `detail` is for people to read.
 */
export async function change({ method, path, body, as, key, number, within = ANSWER_WITHIN }) {
  const headers = {};
  if (as) headers["Milepost-Session"] = as;
  if (key) Object.assign(headers, { "Idempotency-Key": key, "Milepost-Attempt": String(number) });
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await ask(path, new AbortController().signal, headers, within, { method, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error instanceof NotLeader) return { kind: "refused", detail: "this replica does not lead any more; open the page of the leader" };
    if (error instanceof Unavailable) return { kind: "unknown", detail: error.message };
    throw error;
  }
  if (answer.status === 204) return { kind: "done", body: null };
  const read = await answer.json().catch(() => null);
  if (answer.ok) return read === null ? { kind: "unknown", detail: "an answer came that was cut short" } : { kind: "done", body: read };
  const detail = String(read?.detail || read?.title || `status ${answer.status}`);
  if (read?.outcome === "applied") return { kind: "done", body: null };
  // a later try that is refused for good stays so, and says nothing of an earlier one
  const refused = read?.outcome === "not_applied" || (number > 1 && read?.retryable === false);
  return { kind: refused ? "refused" : "unknown", detail };
}

/** Open a session for one act: the service wants to know who changes a store. */
export function openSession() {
  return change({ method: "POST", path: "v1/sessions", body: SESSION });
}

/** End that session again. If this fails, it ends by itself in a minute. */
export async function closeSession(session) {
  await change({ method: "DELETE", path: `v1/sessions/${encodeURIComponent(session)}` });
}
