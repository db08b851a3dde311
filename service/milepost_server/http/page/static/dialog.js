// The dialog before an act: what it does, a dry run, the name to type if it is dangerous, and how it ended. An act has three ends:
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
  const plans = act.plan !== undefined && subject.mayAct !== false;
  let plan = null;
  const commands = plans ? [] : (act.commands?.(subject) ?? []);
  const told = make("div", { class: "told", "aria-live": "polite" });
  const ending = make("p", { class: "ending", "aria-live": "polite" });
  const cancel = make("button", { type: "button", "data-key": "cancel" }, commands.length > 0 ? "Close" : "Cancel");
  const send = commands.length > 0 ? null : make("button", { type: "submit" });
  const typed = act.typed?.(subject) ?? null;
  const fields = commands.length > 0 ? [] : (act.fields?.(subject) ?? []).map(({ name, label, pattern, optional }) =>
    make("label", {}, label, make("input", { name, required: !optional, pattern, autocomplete: "off", spellcheck: "false" })),
  );
  const confirm =
    typed === null ? null : make("label", {}, make("span", {}, "Type ", make("code", {}, typed), " to confirm"), make("input", { name: "confirm", required: true, autocomplete: "off", spellcheck: "false" }));
  const place = make("div", { class: "confirm" });
  const form = make(
    "form",
    { class: "act" },
    make("h2", { id: "dialog-title" }, act.title(subject)),
    act.says(subject).filter(Boolean).map((text) => make("p", {}, text)),
    commands.map(([label, command]) => commandLine(label, command)),
    fields,
    told,
    place,
    ending,
    make("div", { class: "buttons" }, cancel, send),
  );
  const confirmed = () => !place.contains(confirm) || form.elements.namedItem("confirm").value === typed;
  const given = () => Object.fromEntries(new FormData(form));
  if (send !== null) nextIs(!plans);
  form.addEventListener("input", () => {
    if (send !== null && !ending.dataset.end) send.disabled = !confirmed();
  });
  cancel.addEventListener("click", () => dialog.close());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (send === null || send.disabled || !confirmed()) return;
    void (plans && plan === null ? look() : perform());
  });

  /** Let the button do the act, after the name is typed, or the dry run before it. */
  function nextIs(performing) {
    place.replaceChildren(...(performing && confirm !== null ? [confirm] : []));
    send.textContent = performing ? act.label.replace("…", "") : "Dry run";
    send.className = performing && act.danger ? "danger" : "primary";
    send.disabled = !confirmed();
  }

  function lock(locked) {
    for (const input of form.querySelectorAll("input")) input.readOnly = locked;
  }

  /** Ask for what the act would do, and show it. */
  async function look() {
    lock(true);
    send.disabled = true;
    show("pending", "Asking the service what it would do…");
    const end = await change(act.plan(subject, given()));
    if (closed.signal.aborted) return;
    hide();
    if (end.kind !== "done") {
      show("refused", `It cannot be done, and nothing was changed: ${end.detail}`);
      delete ending.dataset.end;
      lock(false);
      return nextIs(false);
    }
    const led = end.body.holder !== null && !act.besideDriver;
    const instead = act.request === undefined ? act.commands(subject, given()) : [];
    told.replaceChildren(
      make("h3", {}, "What it would do"),
      make("dl", { class: "pairs" }, act.planned(end.body).map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
      ...(led ? [make("p", { class: "led" }, `${end.body.holder} leads, so it would be refused. Press Stop… first, and Start… in the end.`)] : []),
      ...instead.map(([label, command]) => commandLine(label, command)),
    );
    if (led || act.request === undefined) {
      send.remove();
      cancel.textContent = "Close";
      return cancel.focus();
    }
    plan = end.body;
    nextIs(true);
    (form.elements.namedItem("confirm") ?? send).focus();
  }

  async function perform() {
    const asked = given();
    lock(true);
    send.disabled = true;
    show("pending", "Asking the service…");
    const end = await attempted(act.request(subject, asked, plan), attempt);
    if (end.kind !== "refused") changed();
    if (end.kind === "done") {
      show("done", act.done(subject, asked, end.body));
      send.remove();
      cancel.textContent = "Close";
      cancel.focus();
      if (act.later) void followed(act, subject, (text) => show("done", text), closed.signal);
    } else if (end.kind === "refused") {
      show("refused", attempt.number > 1 ? `Refused this time: ${end.detail}. An earlier try may have been done: look at the page.` : `Refused, and nothing was changed: ${end.detail}`);
      attempt.key = keyOfRequest();
      attempt.number = 0;
      plan = null; // what was refused is looked at anew
      told.replaceChildren();
      lock(false);
      delete ending.dataset.end;
      nextIs(!plans);
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

  function hide() {
    delete ending.dataset.end;
    delete ending.dataset.shown;
    ending.textContent = "";
  }

  dialog.replaceChildren(form);
  dialog.onclose = () => {
    closed.abort();
    dialog.replaceChildren();
    if (attempt.session !== null) void closeSession(attempt.session);
  };
  dialog.showModal();
  (form.querySelector("input") ?? cancel).focus();
  if (plans && fields.length === 0) void look();
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
