// Scheduled jobs that are typed, tasks that are started again, and many dead letters at once.

import { call, fields, main, refresh, refused } from "daycare";

const TYPING_MS = 200;
const timers = new WeakMap();

// -- what a job would be, while it is typed -----------------------------------------------------------------------------

async function preview(form) {
  const given = fields(form);
  const spec = given.spec ?? given;
  const shown = form.querySelector(".preview");
  try {
    const asked = { spec, ...(given.spec && { id: given.id ?? "", user: given.user ?? "" }) };
    const found = await call("POST /v1/cron/preview", asked);
    const wrong = new Map(found.problems.map((each) => [each.field, each]));
    for (const note of form.querySelectorAll("[data-of]")) {
      const problem = wrong.get(note.dataset.of);
      note.textContent = problem ? `${problem.what}${problem.hint ? ` (${problem.hint})` : ""}` : "";
      const input = note.previousElementSibling?.querySelector("input, textarea");
      input?.toggleAttribute("aria-invalid", Boolean(problem));
    }
    refused(form, null);
    const list = document.createElement("ol");
    for (const at of found.next) list.append(Object.assign(document.createElement("li"), { textContent: inWords(at, found.zone) }));
    const words = Object.assign(document.createElement("p"), { textContent: found.words && `${found.words}, ${found.zone}:` });
    shown.replaceChildren(...(found.next.length ? [words, list] : []));
  } catch (error) {
    refused(form, error);
  }
}

function inWords(at, timeZone) {
  const style = { weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" };
  return new Date(at).toLocaleString(undefined, { ...style, timeZone, timeZoneName: "short" });
}

document.addEventListener("input", (event) => {
  const form = event.target.form;
  if (form?.dataset.preview === undefined) return;
  clearTimeout(timers.get(form));
  timers.set(form, setTimeout(preview, TYPING_MS, form));
});

function zones() {
  if (document.getElementById("zones") || !document.querySelector("[data-preview]")) return;
  const list = Object.assign(document.createElement("datalist"), { id: "zones" });
  for (const name of Intl.supportedValuesOf("timeZone")) list.append(Object.assign(document.createElement("option"), { value: name }));
  document.body.append(list);
  for (const input of document.querySelectorAll("[data-preview] [name$=zone]")) input.setAttribute("list", "zones");
}

// -- many dead letters --------------------------------------------------------------------------------------------------

const chosen = () => [...main.querySelectorAll("[name=no]:checked")].map((box) => Number(box.value));
const many = (count) => `${count} ${count === 1 ? "letter" : "letters"}`;

async function replay(which, told) {
  let queued = 0;
  const refusals = [];
  for (let after = 0; after !== null; ) {
    const done = await call("POST /v1/dead/replay", { ...which, after });
    queued += done.queued.length;
    refusals.push(...done.refused);
    told(`${many(queued)} sent again${refusals.length ? `, ${refusals.length} refused: ${refusals.at(-1).reason}` : ""}.`);
    after = done.next;
  }
  if (!queued && !refusals.length) told("None waits to be sent again.");
}

async function prune(which, told) {
  const everything = Object.keys(which).length ? which : { older_than_s: 0 };
  told(`${many((await call("POST /v1/dead/prune", everything)).deleted)} deleted.`);
}

async function batch(form, verb) {
  const [act, all] = verb.split("-");
  const which = all ? JSON.parse(form.dataset.batch) : { numbers: chosen() };
  const note = document.getElementById("batch-said");
  const told = (text) => (note.textContent = text);
  if (!all && !which.numbers.length) return told("Choose some first.");
  const what = all ? "all dead letters that fit" : many(which.numbers.length);
  if (!confirm(act === "prune" ? `Delete ${what}? They cannot be brought back.` : `Send ${what} again?`)) return;
  await (act === "prune" ? prune : replay)(which, told);
  for (const box of form.elements) if (box.type === "checkbox") box.checked = false;
  await refresh();
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.dataset.batch === undefined) return;
  event.preventDefault();
  for (const button of form.elements) button.disabled = true;
  try {
    await batch(form, event.submitter.value);
    refused(form, null);
  } catch (error) {
    refused(form, error);
  } finally {
    for (const button of form.elements) button.disabled = false;
  }
});

document.addEventListener("change", (event) => {
  if (event.target.id !== "choose-all") return;
  for (const box of main.querySelectorAll("[name=no]")) box.checked = event.target.checked;
});

zones();
