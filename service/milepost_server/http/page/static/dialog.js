// The dialog before an act: what it does, the name to type if it is dangerous, and how it ended. An act has three ends:
// done, refused, and unknown, in which case the same request can be asked again without being done twice.

import { make } from "./dom.js";
import { change, closeSession, openSession } from "./changes.js";
import { NotLeader, Refused, Unavailable, json } from "./service.js";

const FOLLOW_EVERY = 1000; // milliseconds
const FOLLOWED = 120; // requests

const dialog = document.getElementById("dialog");

/** Open the dialog of an act on a subject. `changed()` is called once something was done, or may have been. */
export function openDialog(act, subject, changed) {
  const attempt = { key: keyOfRequest(), number: 0, session: null };
  const closed = new AbortController();
  const ending = make("p", { class: "ending", "aria-live": "polite" });
  const cancel = make("button", { type: "button", "data-key": "cancel" }, act.commands ? "Close" : "Cancel");
  const send = act.commands ? null : make("button", { type: "submit", class: act.danger ? "danger" : "primary" }, act.label.replace("…", ""));
  const typed = act.typed?.(subject) ?? null;
  const fields = (act.fields?.(subject) ?? []).map(({ name, label, pattern, optional }) =>
    make("label", {}, label, make("input", { name, required: !optional, pattern, autocomplete: "off", spellcheck: "false" })),
  );
  const confirm =
    typed === null ? null : make("label", {}, make("span", {}, "Type ", make("code", {}, typed), " to confirm"), make("input", { name: "confirm", required: true, autocomplete: "off", spellcheck: "false" }));
  const form = make(
    "form",
    { class: "act" },
    make("h2", { id: "dialog-title" }, act.title(subject)),
    act.says(subject).map((text) => make("p", {}, text)),
    (act.commands?.(subject) ?? []).map(([label, command]) => commandLine(label, command)),
    fields,
    confirm,
    ending,
    make("div", { class: "buttons" }, cancel, send),
  );
  const confirmed = () => typed === null || form.elements.namedItem("confirm").value === typed;
  if (send !== null) send.disabled = !confirmed();
  form.addEventListener("input", () => {
    if (send !== null && !ending.dataset.end) send.disabled = !confirmed();
  });
  cancel.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (send === null || send.disabled || !confirmed()) return;
    void perform();
  });

  async function perform() {
    const given = Object.fromEntries(new FormData(form));
    for (const input of form.querySelectorAll("input")) input.readOnly = true;
    send.disabled = true;
    show("pending", "Asking the service…");
    const end = await attempted(act.request(subject, given), attempt);
    if (end.kind !== "refused") changed();
    if (end.kind === "done") {
      show("done", act.done(subject, given));
      send.remove();
      cancel.textContent = "Close";
      cancel.focus();
      if (act.later) void followed(act, subject, (text) => show("done", text), closed.signal);
    } else if (end.kind === "refused") {
      show("refused", attempt.number > 1 ? `Refused this time: ${end.detail}. An earlier try may have been done: look at the page.` : `Refused, and nothing was changed: ${end.detail}`);
      attempt.key = keyOfRequest();
      attempt.number = 0;
      for (const input of form.querySelectorAll("input")) input.readOnly = false;
      delete ending.dataset.end;
      ending.dataset.shown = "refused";
      send.disabled = !confirmed();
    } else {
      show("unknown", `It is not known whether it was done: ${end.detail}. It is safe to ask again: it is not done twice.`);
      send.textContent = "Ask again";
      send.disabled = false;
    }
  }

  function show(end, text) {
    ending.dataset.end = ending.dataset.shown = end;
    ending.textContent = text;
  }

  dialog.replaceChildren(form);
  dialog.onclose = () => {
    closed.abort();
    dialog.replaceChildren();
    if (attempt.session !== null) void closeSession(attempt.session);
  };
  dialog.showModal();
  (form.querySelector("input") ?? cancel).focus();
}

/** Send the request of an act, under a session of its own if it needs one. */
async function attempted(request, attempt) {
  if (request.session && attempt.session === null) {
    const opened = await openSession();
    if (opened.kind !== "done") return { kind: "refused", detail: opened.detail }; // the act itself was not sent
    attempt.session = opened.body.session;
  }
  attempt.number += 1;
  return change({ ...request, as: request.as ?? attempt.session, key: attempt.key, number: attempt.number });
}

/** Look at the job while the dialog is open, two minutes at most, and say when what was asked for has come about. */
async function followed(act, job, say, closed) {
  for (let asked = 0; asked < FOLLOWED && !closed.aborted; asked += 1) {
    try {
      const text = act.later(job, await json(`v1/jobs/${encodeURIComponent(job.job)}`, closed));
      if (text !== null) return say(text);
    } catch (error) {
      if (closed.aborted || error instanceof Refused || error instanceof NotLeader) return;
      if (!(error instanceof Unavailable)) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, FOLLOW_EVERY));
  }
}

function commandLine(label, command) {
  const code = make("code", { tabindex: "0" }, command);
  const copy = make("button", { type: "button", "aria-label": `Copy: ${command}` }, "Copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // a page over plain HTTP may not write to the clipboard
      copy.textContent = "Selected";
    }
  });
  return make("div", { class: "command" }, make("span", {}, label), code, copy);
}

/** A key by which the service knows the same request again; `randomUUID` is not there over plain HTTP. */
function keyOfRequest() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
