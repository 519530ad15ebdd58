// A conversation: the answer while it is written, what is attached, what is said again in other words.

import { call, keepingPlace, main, refresh, refused } from "daycare";

// -- the turn that runs -----------------------------------------------------------------------------------------------

const box = document.getElementById("typing");
let running = null; // its number
let words = null; // where the model's next words go
let idle = false; // the page was shown without a running turn: one look may have been too early, two were not

const made = (tag, more, ...inside) => {
  const found = Object.assign(document.createElement(tag), more);
  found.append(...inside);
  return found;
};

function begin(turn, text) {
  running = turn;
  words = null;
  idle = false;
  box.replaceChildren(made("p", { className: "by" }, made("span", { className: "badge running" }, "is answering")));
  box.hidden = false;
  if (text) add(text);
}

function add(text) {
  if (!words) box.append((words = made("p", { className: "plain words" })));
  words.append(text);
}

function drop() {
  running = words = null;
  box.replaceChildren();
  box.hidden = true;
}

const told = {
  "turn.started": ({ turn }) => begin(turn),
  "turn.delta": ({ text }) => add(text),
  "model.failed": () => {
    words?.remove(); // another try says it from the start
    words = null;
  },
  "tool.started": ({ step, tool }) => {
    words = null;
    const line = made("p", { className: "tool running" }, "is using ", made("code", {}, tool));
    line.dataset.step = step;
    box.append(line);
  },
  "tool.finished": ({ step, status }) => {
    const line = box.querySelector(`[data-step="${Number(step)}"]`);
    if (!line) return;
    line.className = `tool ${status}`;
    line.firstChild.data = { ok: "used ", error: "failed at " }[status] ?? "may have used ";
  },
  "turn.failed": ({ turn, reason, hint, retry_in_s }) => {
    begin(turn);
    const then = retry_in_s == null ? "It was given up." : `It is tried again in ${Math.ceil(retry_in_s)} s.`;
    box.append(made("p", { className: "note bad" }, `${reason}. ${then}`, ...(hint ? [" What helps: ", made("code", {}, hint)] : [])));
  },
  "turn.waiting": drop,
  "turn.finished": () => box.querySelector(".badge")?.classList.remove("running"), // until the page has it
};

document.addEventListener("daycare:event", ({ detail: { kind, event } }) => {
  keepingPlace(() => {
    if (kind === "gap" && running) add(" [...] ");
    if (!told[kind] || document.getElementById(`turn-${event.turn}`)) return; // it has ended, and is shown
    if (running !== event.turn && kind !== "turn.finished") begin(event.turn, kind === "turn.delta" ? "[...] " : "");
    told[kind](event);
  });
});

document.addEventListener("daycare:shown", () => {
  const runs = Boolean(main.querySelector("[data-running]"));
  if (running && (document.getElementById(`turn-${running}`) || (idle && !runs))) drop();
  else idle = !runs;
});

// -- memories that an answer was made with ----------------------------------------------------------------------------

document.addEventListener(
  "toggle",
  async ({ target }) => {
    const turn = target.dataset?.turn;
    if (!turn || !target.open || target.dataset.asked) return;
    target.dataset.asked = "";
    const place = document.getElementById(`used-${turn}`);
    const answer = await fetch(`/v1/turns/${turn}/prompt`).catch(() => null);
    const found = (await answer?.json()) ?? { error: { message: "No connection to daycare." } };
    const list = (found.recalled ?? []).map((it) => made("li", { className: "plain" }, `${it.tier}: ${it.text}`));
    const none = found.error ? found.error.message : "None.";
    place.prepend(list.length ? made("ul", {}, ...list) : made("p", { className: "faint" }, none));
  },
  true,
);

// -- what is written --------------------------------------------------------------------------------------------------

const form = document.getElementById("say");
let files = []; // {id, name, size}; no id: it is on its way

const size = (bytes) => (bytes < 1e6 ? `${Math.ceil(bytes / 1e3)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

function shownFiles() {
  const list = form.querySelector(".chips");
  const chip = (file) => {
    const away = made("button", { type: "button", className: "small", ariaLabel: `Remove ${file.name}` }, "×");
    away.onclick = () => ((files = files.filter((each) => each !== file)), shownFiles());
    return made("li", {}, file.name, made("span", { className: "faint" }, ` ${file.id ? size(file.size) : "uploading"} `), away);
  };
  list.replaceChildren(...files.map(chip));
  list.hidden = !files.length;
  form.elements.files.value = files.map((file) => file.id).join(",");
  form.elements.text.required = !files.length;
  form.querySelector("button:not([type])").disabled = files.some((file) => !file.id);
}

async function attach(chosen) {
  refused(form, null);
  for (const data of chosen) {
    const { files: most, bytes } = form.dataset;
    if (files.length >= most) return refused(form, { message: `${data.name} is left out: at most ${most} files go with a message` });
    if (data.size > bytes) {
      refused(form, { message: `${data.name} is too large: ${size(data.size)}, at most ${size(bytes)} can be sent` });
      continue;
    }
    const file = { name: data.name, size: data.size };
    files.push(file);
    shownFiles();
    const query = new URLSearchParams({ name: data.name, type: data.type, user: form.elements.user.value });
    try {
      file.id = (await call(`POST /v1/files?${query}`, data)).id;
    } catch (error) {
      files = files.filter((each) => each !== file);
      refused(form, error);
    }
    shownFiles();
  }
}

function instead(turn) {
  form.elements.instead.value = turn;
  form.querySelector(".editing").hidden = !turn;
}

if (form) {
  const input = form.querySelector("[type=file]");
  const text = form.elements.text;
  input.addEventListener("change", () => attach([...input.files]).then(() => (input.value = "")));
  text.addEventListener("paste", (event) => event.clipboardData.files.length && (event.preventDefault(), attach([...event.clipboardData.files])));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => (event.preventDefault(), attach([...event.dataTransfer.files])));
  form.addEventListener("reset", () => ((files = []), instead(""), shownFiles()));
  form.addEventListener("keydown", (event) => event.key === "Escape" && form.elements.instead.value && form.reset());
}

document.addEventListener("click", async (event) => {
  const { target } = event;
  if (target.matches("[data-cancel]")) form.reset();
  if (target.matches("[data-edit]")) {
    const said = JSON.parse(target.dataset.edit);
    form.elements.text.value = said.text;
    files = said.files;
    instead(said.instead);
    shownFiles();
    form.elements.text.focus();
  }
  if (target.matches("#more")) {
    event.preventDefault();
    history.replaceState(null, "", target.href);
    const below = document.documentElement.scrollHeight - scrollY;
    await refresh();
    scrollTo(0, document.documentElement.scrollHeight - below); // what was read stays where it was
  }
});
