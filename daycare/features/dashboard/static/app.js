// What makes pages of the dashboard live. They can be read without it.

export const trusted = window.trustedTypes?.createPolicy("daycare", { createHTML: (text) => text }) ?? { createHTML: (text) => text };
export const main = document.getElementById("main");
const state = document.getElementById("state");
const REFRESH_MS = 150; // several events at once are one look
const AGAIN_MS = 2000;

// -- how things are shown ---------------------------------------------------------------------------------------------

export function localTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    time.textContent = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    time.title = at.toISOString();
  }
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
    at.remove();
    at = next;
  }
}

const fits = (old, now) => old && !old.id && old.nodeType === now.nodeType && old.nodeName === now.nodeName;

let asking = null;
let again = false;

export async function refresh() {
  if (asking) return void (again = true);
  asking = fetch(location.href, { headers: { accept: "text/html" } });
  try {
    const answer = await asking;
    if (answer.status === 401) return say("This browser is not logged in any more: `daycare web` prints a link that does it.");
    const page = new DOMParser().parseFromString(trusted.createHTML(await answer.text()), "text/html");
    const now = page.getElementById("main");
    if (now) {
      const atEnd = window.innerHeight + window.scrollY >= document.body.scrollHeight - 80;
      localTimes(now);
      morph(main, now);
      filter();
      document.dispatchEvent(new CustomEvent("daycare:shown"));
      if (atEnd) toEnd();
    }
  } catch {
    say("No connection to daycare. It is tried again.");
  } finally {
    asking = null;
    if (again) {
      again = false;
      soon();
    }
  }
}

let timer = 0;
export function soon() {
  clearTimeout(timer);
  timer = setTimeout(refresh, REFRESH_MS);
}

function listen() {
  const { live, watch } = document.body.dataset;
  if (!live) return;
  const events = new EventSource(`/v1/events?${new URLSearchParams({ types: live, ...(watch && { path: watch }) })}`);
  let lost = false;
  events.onopen = () => {
    say("");
    if (lost) refresh(); // what happened meanwhile
    lost = false;
  };
  events.onerror = () => {
    lost = true;
    say("No connection to daycare. It is tried again.");
    if (events.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_MS);
  };
  events.addEventListener("gap", soon);
  for (const kind of live.split(",")) events.addEventListener(kind, (event) => heard(kind, JSON.parse(event.data)));
}

/** Tell modules of a page what has happened, then show what changed: `daycare:event` carries `{kind, event}`. */
function heard(kind, event) {
  document.dispatchEvent(new CustomEvent("daycare:event", { detail: { kind, event } }));
  const typing = document.getElementById("typing");
  if (kind === "turn.delta" && typing) {
    typing.hidden = false;
    typing.append(event.text);
    toEnd();
    return;
  }
  if (typing && ["turn.finished", "turn.failed", "tool.started"].includes(kind)) {
    typing.replaceChildren();
    typing.hidden = true;
  }
  soon();
}

// -- what somebody does -----------------------------------------------------------------------------------------------

const TYPES = { list: (value) => value.split(","), number: Number, flag: (value) => value === "true" }; // by data-type

/** Return the fields of a form as JSON: `a.b` is a field of an object, what is empty is left out unless it stood there. */
export function fields(form, button) {
  const found = {};
  for (const [name, value] of new FormData(form, button)) {
    const input = form.elements[name];
    if (value === "" && !input?.defaultValue && name !== "text") continue;
    const [last, ...way] = name.split(".").reverse();
    let place = found;
    for (const step of way.reverse()) place = place[step] ??= {};
    place[last] = value === "" && name !== "text" ? null : (TYPES[input?.dataset?.type] ?? String)(value);
  }
  return found;
}

export async function call(what, body) {
  const [method, path] = what.split(" ");
  const headers = { "content-type": "application/json", "x-daycare-csrf": document.body.dataset.csrf };
  const answer = await fetch(path, { method, headers, body: method === "DELETE" ? undefined : JSON.stringify(body) });
  const said = answer.status === 204 ? {} : await answer.json();
  if (!answer.ok) throw Object.assign(new Error(said.error?.message ?? answer.statusText), { hint: said.error?.hint });
  return said;
}

export function refused(form, error) {
  let note = form.querySelector(".refusal");
  if (!note) form.append((note = Object.assign(document.createElement("p"), { className: "refusal", role: "alert" })));
  note.textContent = error ? `${error.message}${error.hint ? ` (${error.hint})` : ""}` : "";
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.dataset.filter) return event.preventDefault();
  if (!form.dataset.call) return;
  event.preventDefault();
  if (form.dataset.confirm && !confirm(form.dataset.confirm)) return;
  const button = event.submitter;
  if (button) button.disabled = true;
  try {
    const said = await call(form.dataset.call, fields(form, button));
    refused(form, null);
    if (form.dataset.clear !== undefined) form.reset();
    if (form.dataset.then) location.href = form.dataset.then.replace(/\{(\w+)\}/g, (_, name) => said[name]);
    else await refresh();
  } catch (error) {
    refused(form, error);
  } finally {
    if (button) button.disabled = false;
  }
});

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-press]");
  if (!button) return;
  try {
    await call(button.dataset.press, JSON.parse(button.dataset.body ?? "{}"));
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

localTimes(document);
toEnd();
listen();
