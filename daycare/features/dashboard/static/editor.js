// The editor of a document: preview, size, and what to do when somebody else has changed it meanwhile.

import { call, refresh, refused, trusted } from "daycare";

const PREVIEW_MS = 300;
const encoder = new TextEncoder();
const editor = () => document.getElementById("editor");
const text = () => document.getElementById("document-text");
const conflict = () => document.getElementById("conflict");
let read = now();
let timer = 0;

/** Return the document as it is, which the page shows beside what somebody writes. */
function now() {
  return editor() && { path: editor().dataset.path, hash: editor().dataset.hash, text: text().defaultValue };
}

const dirty = () => read && text().value !== read.text;

function size() {
  const bytes = encoder.encode(text().value).length;
  const meter = document.getElementById("size");
  meter.value = bytes;
  document.getElementById("size-text").textContent = `${bytes.toLocaleString()} of ${meter.max.toLocaleString()} bytes${bytes > meter.max ? ": too long" : ""}`;
}

// -- what somebody else has changed -----------------------------------------------------------------------------------

/** Show lines, those marked that do not stand in the text that was read. */
function fill(place, lines, known) {
  place.replaceChildren(
    ...lines.split("\n").flatMap((each) => {
      const line = Object.assign(document.createElement(known && !known.has(each) ? "mark" : "span"), { textContent: each });
      return [line, "\n"];
    }),
  );
}

function shown() {
  if (!editor()) return;
  const there = now();
  if (!read || read.path !== there.path || !dirty()) {
    read = there;
    if (text().value !== there.text) text().value = there.text;
    conflict().hidden = true;
  } else if (there.hash !== read.hash) {
    const known = new Set(read.text.split("\n"));
    const [was, is, mine] = conflict().querySelectorAll("pre");
    fill(was, read.text);
    fill(is, there.text, known);
    fill(mine, text().value, known);
    if (conflict().hidden) {
      conflict().hidden = false;
      document.getElementById("conflict-title").focus();
    }
  }
  size();
}

// -- what somebody does -----------------------------------------------------------------------------------------------

async function save() {
  const form = editor();
  const { agent, path } = form.dataset;
  const body = { text: text().value, base_hash: read.hash, reason: form.elements.reason.value };
  try {
    const { version } = await call(`PUT /v1/memory/document?${new URLSearchParams({ agent, path })}`, body);
    read = { path, hash: version.hash, text: body.text };
    form.elements.reason.value = "";
    refused(form, null);
  } catch (error) {
    refused(form, error);
  }
  await refresh(); // a refusal for want of the newest text shows that
}

async function preview() {
  const place = document.getElementById("preview");
  if (place.hidden) return;
  const { html } = await call("POST /preview", { text: text().value });
  place.innerHTML = trusted.createHTML(html); // cleaned where it was made
}

document.addEventListener("submit", (event) => {
  if (event.target.id !== "editor") return;
  event.preventDefault();
  save();
});

document.addEventListener("input", (event) => {
  if (event.target.id !== "document-text") return;
  size();
  clearTimeout(timer);
  timer = setTimeout(preview, PREVIEW_MS);
});

document.addEventListener("click", (event) => {
  const { way, restore } = event.target.dataset;
  if (way) {
    if (way === "theirs") text().value = now().text;
    read = now();
    conflict().hidden = true;
    if (way === "mine") save();
    else shown();
    text().focus();
  } else if (restore) {
    text().value = document.getElementById("old-text").textContent;
    editor().elements.reason.value = `version ${restore} again`;
    size();
    text().focus();
  } else if (event.target.matches("[data-preview]")) {
    const place = document.getElementById("preview");
    place.hidden = !place.hidden;
    event.target.setAttribute("aria-expanded", String(!place.hidden));
    preview();
  }
});

addEventListener("beforeunload", (event) => dirty() && event.preventDefault());
document.addEventListener("daycare:shown", shown);
if (editor()) size();
