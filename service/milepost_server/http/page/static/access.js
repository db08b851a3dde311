// What the token of this tab may do, so that the page offers only that. The service decides each request all the same.

import { json, token } from "./service.js";

const FOR = 60000;

let kept = { token: null, at: -Infinity, principal: null };

/** Return who the client is to the service, asked for once a minute at most. */
export async function principal(signal) {
  if (kept.token !== token.get() || Date.now() - kept.at > FOR) {
    const found = await json("v1/whoami", signal);
    kept = { token: token.get(), at: Date.now(), principal: found };
  }
  return kept.principal;
}

export function mayWrite(principal, store) {
  return principal.admin || principal.writer.some((pattern) => matches(pattern, store));
}

/** In a pattern, `*` stands for any characters, and every other one for itself. */
function matches(pattern, name) {
  const parts = pattern.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test(name);
}
