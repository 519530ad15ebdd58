// Of the system's pages: a pairing that goes on, the log as it is written, a backup while it is made.

import { main, localTimes, refresh, refused } from "daycare";

const LINES_MAX = 1000;
const LOOK_MS = 2000;
const WAIT_S = 20;

// -- pairing: a code lives some twenty seconds, and its end is no event ------------------------------------------------

setInterval(() => main.querySelector("[data-pairing]") && !document.hidden && refresh(), LOOK_MS);

// -- what config.toml has under names and in lists of one's own: a form has the fields of one --------------------------

document.addEventListener("daycare:send", ({ target, detail }) => {
  const { base_hash, name, ...one } = detail.body;
  if (target.dataset.config === "provider") detail.body = { base_hash, changes: { providers: { [name]: { kind: "openai", ...one } } } };
  if (target.dataset.config === "rule") detail.body = { base_hash, changes: { rules: [...JSON.parse(target.dataset.rules), one] } };
});

// -- the log ----------------------------------------------------------------------------------------------------------

function row(line) {
  const [item, at, level, more] = ["li", "time", "b", "span"].map((name) => document.createElement(name));
  item.className = line.level ?? "info";
  at.dateTime = line.at ?? "";
  at.textContent = (line.at ?? "").slice(0, 19).replace("T", " ");
  level.textContent = line.level ?? "info";
  more.className = "faint";
  more.textContent = Object.entries(line.more ?? {}).map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`).join(" ");
  item.append(at, " ", level, ` ${line.event} `, more);
  return item;
}

async function follow(list) {
  let { cursor } = list.dataset;
  const { level, text } = list.dataset;
  list.scrollTop = list.scrollHeight;
  for (;;) {
    if (document.hidden || !document.getElementById("follow").checked) {
      await new Promise((done) => setTimeout(done, LOOK_MS));
      continue;
    }
    try {
      const answer = await fetch(`/v1/log?${new URLSearchParams({ level, text, after: cursor, lines: LINES_MAX, wait_s: WAIT_S })}`);
      if (!answer.ok) throw new Error(answer.statusText);
      const part = await answer.json();
      cursor = part.cursor;
      const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
      const rows = (part.lines ?? []).map(row);
      list.append(...rows);
      rows.forEach(localTimes);
      while (list.children.length > LINES_MAX) list.firstElementChild.remove();
      if (atEnd) list.scrollTop = list.scrollHeight;
    } catch {
      await new Promise((done) => setTimeout(done, LOOK_MS));
    }
  }
}

const list = document.getElementById("log");
if (list) follow(list);

// -- a backup that is made: lines of progress, and last one of what it came to -----------------------------------------

const STAGES = { waiting: "Waiting for another backup", copying: "Copying the database", checking: "Checking the copy", packing: "Packing" };

async function* lines(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const whole = (rest + part.value).split("\n");
    rest = whole.pop();
    for (const line of whole) if (line) yield JSON.parse(line);
  }
}

async function makeBackup(form) {
  const told = document.getElementById("backup-progress");
  const headers = { "content-type": "application/json", "x-daycare-csrf": document.body.dataset.csrf };
  const body = JSON.stringify({ key: form.elements.key.checked });
  told.textContent = "Begun";
  const answer = await fetch("/v1/backups", { method: "POST", headers, body });
  if (!answer.ok) {
    const { error } = await answer.json();
    throw Object.assign(new Error(error.message), { hint: error.hint });
  }
  for await (const line of lines(answer)) {
    if (line.error) throw Object.assign(new Error(line.error.message), { hint: line.error.hint });
    if (line.progress) told.textContent = `${STAGES[line.progress.stage] ?? "Working"}: ${line.progress.done ?? 0} bytes`;
    if (line.report) {
      const link = Object.assign(document.createElement("a"), { href: `/v1/backups/${encodeURIComponent(line.report.id)}`, download: "" });
      link.textContent = `Download it (${line.report.bytes.toLocaleString()} bytes), once and within an hour`;
      told.replaceChildren("It is whole. ", link);
    }
  }
}

document.addEventListener("submit", async (event) => {
  if (event.target.id !== "backup-now") return;
  event.preventDefault();
  event.submitter.disabled = true;
  try {
    await makeBackup(event.target);
    refused(event.target, null);
  } catch (error) {
    document.getElementById("backup-progress").textContent = "";
    refused(event.target, error);
  } finally {
    document.querySelector("#backup-now button").disabled = false;
  }
});
