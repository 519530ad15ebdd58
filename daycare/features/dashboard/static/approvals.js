// Approvals: several at once, no click on what has just become something else, and what was decided elsewhere.

import { call, main, refresh, refused } from "daycare";

const CHANGED_MS = 1500; // so long nothing is decided on a request that has changed before one's eyes
const MINE_MS = 3000; // what changes so soon after a form was sent was changed by that
const TOLD_MAX = 5;
const seen = new Map();
const changed = new Map();
const sent = new Map(); // when a form of a request was sent from here

const article = (no) => document.getElementById(`approval-${no}`);

function look() {
  for (const each of main.querySelectorAll("article[data-no]")) {
    const { no, seen: hash } = each.dataset;
    if (seen.has(no) && seen.get(no) !== hash) changed.set(no, Date.now());
    seen.set(no, hash);
  }
}

function tell(text, kept) {
  const told = document.getElementById("told");
  const note = Object.assign(document.createElement("p"), { className: "note", textContent: text });
  if (kept) note.append(Object.assign(document.createElement("pre"), { textContent: kept }));
  told.prepend(note);
  while (told.children.length > TOLD_MAX) told.lastChild.remove();
}

/** Return what somebody has typed as another text of a request, if they did. */
function typed(no) {
  const text = article(no)?.querySelector("textarea");
  return text && text.value !== text.defaultValue ? text.value : "";
}

document.addEventListener("daycare:event", ({ detail: { kind, event } }) => {
  if (!article(event.no)) return;
  const text = Date.now() - (sent.get(String(event.no)) ?? 0) < MINE_MS ? "" : typed(event.no);
  if (kind === "approval.decided") tell(`Request ${event.no}: ${event.state}${event.by ? ` by ${event.by}` : ""}.${text ? " What you had typed:" : ""}`, text);
  else if (kind === "approval.requested" && event.revision > 1) tell(`Request ${event.no} has changed: look at it again.${text ? " What you had typed:" : ""}`, text);
});
document.addEventListener("daycare:shown", look);

function decide(event) {
  const it = event.target.closest("article[data-no]");
  if (!it || (event.type === "click" && !event.target.closest("[data-press]"))) return;
  if (Date.now() - (changed.get(it.dataset.no) ?? 0) > CHANGED_MS) return void sent.set(it.dataset.no, Date.now());
  event.preventDefault();
  event.stopImmediatePropagation();
  refused(event.target.closest("form") ?? it, new Error("It has changed just now: look at it again."));
}
for (const type of ["submit", "click"]) document.addEventListener(type, decide, true);

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-choose]")) return;
  const all = [...main.querySelectorAll("[name=chosen]:not([data-flagged])")];
  const wanted = !all.every((each) => each.checked);
  for (const each of all) each.checked = wanted;
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.id !== "batch") return;
  event.preventDefault();
  const chosen = [...main.querySelectorAll("[name=chosen]:checked")];
  if (!chosen.length) return refused(form, new Error("Nothing is chosen."));
  const items = chosen.map((each) => ({ no: Number(each.value), seen: each.dataset.seen }));
  const verdict = event.submitter?.value ?? "approve";
  const why = verdict === "reject" ? { why: form.elements.why.value } : {};
  try {
    const { results } = await call(`POST /v1/approvals/${verdict}`, { items, ...why });
    const failed = results.filter((each) => each.error);
    refused(form, failed.length ? new Error(failed.map((each) => `${each.no}: ${each.error.message}`).join("; ")) : null);
    tell(`${results.length - failed.length} of ${results.length} ${verdict === "reject" ? "rejected" : "approved"}.`);
    await refresh();
  } catch (error) {
    refused(form, error);
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches("[name=why]")) event.preventDefault(); // a remark decides nothing
});

look();
