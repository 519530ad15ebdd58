// What makes pages of the dashboard live. They can be read without it.

export const trusted = window.trustedTypes?.createPolicy("daycare", { createHTML: (text) => text }) ?? { createHTML: (text) => text };
export const main = document.getElementById("main");
const state = document.getElementById("state");
const GATHER_MS = 50; // several events at once are one look
const REST = 5; // a page is at rest for so many times as long as a look took: a busy house costs a share of a core ...
const BURST_MS = 2000; // ... and this much of rest is owed first, so that single changes are seen at once
const AGAIN_MS = 2000;

// -- how things are shown ---------------------------------------------------------------------------------------------

export function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.valueOf())) continue; // a line of a log may say anything
    time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    time.title = at.toISOString();
  }
}

const atEnd = () => window.innerHeight + window.scrollY >= document.body.scrollHeight - 80;

/** Change what is shown; who was at the end of a conversation is there afterwards, who reads above stays there. */
export function keepingPlace(change) {
  const followed = atEnd();
  change();
  if (followed) toEnd();
}

function toEnd() {
  if (main.querySelector("[data-end]")) window.scrollTo(0, document.body.scrollHeight);
}

export function say(text) {
  state.textContent = text;
  state.hidden = !text;
}

// -- what has changed -------------------------------------------------------------------------------------------------

/** Make an element like another, touching only what differs: what somebody fills in or has opened stays. */
function morph(old, now) {
  if (old.isEqualNode(now) || old.dataset?.keep !== undefined) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = now.data;
    return;
  }
  for (const { name } of [...old.attributes]) if (!now.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of now.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  const named = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
  let at = old.firstChild;
  for (const child of [...now.childNodes]) {
    const known = child.id ? named.get(child.id) : fits(at, child) ? at : null;
    if (!known) {
      old.insertBefore(child, at);
      continue;
    }
    if (known === at) at = at.nextSibling;
    else old.insertBefore(known, at);
    morph(known, child);
  }
  while (at) {
    const next = at.nextSibling;
    if (!at.classList?.contains("refusal")) at.remove(); // why something was refused stays until it is tried again
    at = next;
  }
}

const fits = (old, now) => old && !old.id && old.nodeType === now.nodeType && old.nodeName === now.nodeName;

let asking = null;
let again = false;
let restUntil = 0;
let leaving = false; // what the page shows is about to go, and another page is led to
let ended = false; // this browser was logged out: to ask again would only count as guessing

export async function refresh() {
  if (ended || leaving) return;
  if (asking) return void (again = true);
  const began = performance.now();
  asking = fetch(location.href, { headers: { accept: "text/html" } });
  try {
    const answer = await asking;
    if (answer.status === 401) {
      ended = true;
      events?.close();
      return say("This browser is not logged in any more: `daycare web` prints a link that does it.");
    }
    const page = new DOMParser().parseFromString(trusted.createHTML(await answer.text()), "text/html");
    const now = page.getElementById("main");
    if (now) {
      localTimes(now);
      keepingPlace(() => {
        morph(main, now);
        filter();
        document.dispatchEvent(new CustomEvent("daycare:shown"));
      });
    }
    if (events?.readyState === EventSource.OPEN) say("");
  } catch {
    say("No connection to daycare. It is tried again.");
    setTimeout(soon, AGAIN_MS);
  } finally {
    asking = null;
    const now = performance.now();
    restUntil = Math.max(restUntil, now) + REST * (now - began);
    if (again) {
      again = false;
      soon();
    }
  }
}

let timer = 0;
export function soon() {
  timer ||= setTimeout(() => {
    timer = 0;
    refresh();
  }, Math.max(GATHER_MS, restUntil - BURST_MS - performance.now()));
}

export const here = document.body.dataset.watch; // the agent of the page
let events = null;
let missed = true; // what happened while nobody listened, also between the page and the stream
let cursor = main.querySelector("[data-running]") ? "0" : ""; // what a running turn has said is heard from its start

function listen() {
  const { live } = document.body.dataset;
  events?.close();
  if (!live || document.hidden || ended) return;
  const asked = { types: live, ...(here && { path: here }), ...(cursor && { after: cursor }) };
  events = new EventSource(`/v1/events?${new URLSearchParams(asked)}`);
  events.onopen = () => {
    say("");
    if (missed) refresh();
    missed = false;
  };
  events.onerror = ({ target }) => {
    missed = true;
    if (target.readyState !== EventSource.CLOSED) return say("No connection to daycare. It is tried again.");
    refresh(); // it says why it was refused
    setTimeout(listen, AGAIN_MS);
  };
  for (const kind of ["gap", ...live.split(",")]) {
    events.addEventListener(kind, (event) => {
      cursor = event.lastEventId;
      heard(kind, JSON.parse(event.data));
    });
  }
}

// A page that nobody looks at needs no connection, of which a browser has but six for an address.
document.addEventListener("visibilitychange", () => {
  missed = true;
  listen();
});

/** Tell modules of a page what has happened, then show what changed: `daycare:event` carries `{kind, event}`.

    One that shows it by itself prevents that. `gap` is a kind, too: `event.missed` others were not told. */
function heard(kind, event) {
  if (!document.dispatchEvent(new CustomEvent("daycare:event", { detail: { kind, event }, cancelable: true }))) return;
  if (kind !== "turn.delta") soon();
}

// -- what somebody does -----------------------------------------------------------------------------------------------

// What a field is if no text, by its data-type.
const KINDS = {
  list: (value) => value.split(","),
  numbers: (value) => value.split(",").map(Number),
  number: Number,
  flag: (value) => value !== "false",
};

/**
 * Return the fields of a form as JSON: `a.b` is a field of an object, what is empty is left out unless it stood there.
 * `data-at` is its way where a name has dots of its own.
 * `data-type` is what one is if no text; boxes of one name, with a hidden field before them, are a list of those ticked.
 */
export function fields(form, button) {
  const found = form.dataset.body ? JSON.parse(form.dataset.body) : {};
  for (const [name, value] of new FormData(form, button)) {
    const input = form.elements[name];
    const several = input instanceof RadioNodeList && input[0].type === "hidden";
    const stood = input?.defaultValue ?? input?.dataset?.was ?? [...(input?.options ?? [])].find((one) => one.defaultSelected)?.value;
    if (value === "" && !several && !stood && name !== "text") continue;
    const at = input?.dataset?.at;
    const [last, ...way] = (at ? at.split("/") : name.split(".")).reverse();
    let place = found;
    for (const step of way.reverse()) place = place[step] ??= {};
    if (several) (place[last] ??= []).push(...(value ? [value] : []));
    else place[last] = value === "" && name !== "text" ? null : (KINDS[input?.dataset?.type]?.(value) ?? value);
  }
  return found;
}

/** Fill `{a.b}` with what was answered, `{a.b|else}` with the rest where that is empty. */
const filled = (template, said) =>
  template.replace(/\{([\w.]+)(?:\|([^}]*))?\}/g, (_, way, other) => String(way.split(".").reduce((at, step) => at?.[step], said) ?? "") || other || "");

/** Call a route with a document, or with the bytes of a file. */
export async function call(what, body) {
  const [method, path] = what.split(" ");
  const raw = body instanceof Blob;
  const headers = { "content-type": raw ? "application/octet-stream" : "application/json", "x-daycare-csrf": document.body.dataset.csrf };
  const sent = method === "DELETE" ? undefined : raw ? body : JSON.stringify(body);
  const answer = await fetch(path, { method, headers, body: sent });
  const said = answer.status === 204 ? {} : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error?.message ?? answer.statusText), { hint: said.error?.hint });
  return said;
}

export function refused(form, error) {
  let note = form.querySelector(".refusal");
  if (!error) return note?.remove();
  if (!note) form.append((note = Object.assign(document.createElement("p"), { className: "refusal", role: "alert" })));
  note.textContent = `${error.message}${error.hint ? ` (${error.hint})` : ""}`;
}

const typed = (form) => [...form.elements].map((field) => (field.type === "hidden" ? "" : field.value)).join();

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.dataset.filter) return event.preventDefault();
  if (!form.dataset.call) return;
  event.preventDefault();
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return;
  const button = event.submitter;
  const given = fields(form, button); // before it is disabled: such a button has no value
  if (button) button.disabled = true;
  try {
    const sent = { body: given, after: [] }; // a page's module may change it, and go on behind it
    form.dispatchEvent(new CustomEvent("daycare:send", { bubbles: true, detail: sent }));
    const what = form.dataset.call.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(form.querySelector(`[data-name="${name}"]`).value));
    const before = typed(form);
    leaving = form.dataset.then !== undefined;
    const said = await call(what, sent.body);
    for (const each of sent.after) await each(said);
    refused(form, null);
    if (form.dataset.clear !== undefined) form.reset();
    for (const told of form.querySelectorAll("[data-said]")) told[told.matches("input") ? "value" : "textContent"] = filled(told.dataset.said, said);
    if (form.dataset.then) location.href = filled(form.dataset.then, said);
    else await refresh();
    if (form.dataset.fresh !== undefined && typed(form) === before) form.reset(); // from now on it shows what the page says
  } catch (error) {
    leaving = false;
    refused(form, error);
  } finally {
    if (button) button.disabled = false;
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const from = document.getElementById(button.dataset.copy);
  navigator.clipboard?.writeText(from.textContent).then(() => (button.textContent = "Copied"));
  getSelection().selectAllChildren(from); // where a page may not write there, Ctrl+C does
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-press]");
  if (!button) return;
  try {
    await call(button.dataset.press, JSON.parse(button.dataset.body ?? "{}"));
    await refresh();
  } catch (error) {
    refused(button.form ?? button.parentElement, error);
  }
});

document.addEventListener("keydown", (event) => {
  const inText = event.target.matches("input, textarea, select");
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target.matches(".say textarea")) {
    event.preventDefault();
    event.target.form.requestSubmit();
  } else if (!inText && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const wanted = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (wanted) {
      event.preventDefault();
      wanted.focus();
    }
  }
});

function filter() {
  const wanted = (document.getElementById("filter")?.value ?? "").toLowerCase();
  for (const item of main.querySelectorAll("[data-list] > li")) item.hidden = !item.textContent.toLowerCase().includes(wanted);
}

document.addEventListener("input", (event) => event.target.id === "filter" && filter());

const current = document.querySelector("header [aria-current]"); // to be seen in a small window; `scrollIntoView` would let Tab begin there
if (current) current.parentElement.scrollLeft = current.offsetLeft - current.parentElement.offsetLeft - current.parentElement.clientWidth / 2;
localTimes(document);
toEnd();
document.addEventListener("DOMContentLoaded", listen); // once modules of the page can hear it
