// To another agent from anywhere, with the keyboard: Ctrl+K, some letters, Enter.

import { here } from "daycare";

const RECENT = "daycare:recent";
const SHOWN_MAX = 50;
const PAGE = 1000;

const recent = () => JSON.parse(localStorage.getItem(RECENT) ?? "[]");
if (here) localStorage.setItem(RECENT, JSON.stringify([here, ...recent().filter((path) => path !== here)].slice(0, 8)));

const dialog = document.createElement("dialog");
dialog.className = "switch";
dialog.ariaLabel = "Switch agent";
const input = Object.assign(document.createElement("input"), { autocomplete: "off", ariaLabel: "Name or path", placeholder: "Name or path" });
const list = document.createElement("ul");
list.className = "tree";
dialog.append(input, list);
document.body.append(dialog);

let agents = [];
let asked = 0;

async function ask(after) {
  const mine = ++asked;
  const answer = await fetch(`/v1/agents?${new URLSearchParams({ after, limit: after ? SHOWN_MAX : PAGE })}`).catch(() => null);
  if (!answer?.ok || mine !== asked) return;
  const found = (await answer.json()).agents;
  const known = new Set(agents.map((agent) => agent.path));
  agents = [...agents, ...found.filter((agent) => !known.has(agent.path))];
  show();
}

function show() {
  const wanted = input.value.toLowerCase();
  const last = recent();
  const rank = (agent) => (last.indexOf(agent.path) + 1 || SHOWN_MAX) + (agent.path === here ? PAGE : 0);
  const fitting = agents.filter(({ path, config }) => `${path} ${config.name ?? ""}`.toLowerCase().includes(wanted));
  const items = fitting.sort((a, b) => rank(a) - rank(b)).slice(0, SHOWN_MAX).map((agent) => {
    const link = Object.assign(document.createElement("a"), { className: "path", href: `/agents${agent.path}`, textContent: agent.path });
    const item = document.createElement("li");
    item.append(link, agent.config.name ?? "");
    if (agent.live !== "asleep") item.append(Object.assign(document.createElement("span"), { className: `badge ${agent.live}`, textContent: agent.live.replace("_", " ") }));
    return item;
  });
  list.replaceChildren(...items);
}

function open() {
  if (dialog.open) return;
  input.value = "";
  dialog.showModal();
  show();
  ask("");
}

document.getElementById("switch")?.addEventListener("click", open);
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    open();
  }
});
input.addEventListener("input", () => {
  show();
  if (input.value.startsWith("/") && agents.length >= PAGE) ask(input.value); // the house has more than were asked for
});
dialog.addEventListener("keydown", (event) => {
  const links = [...list.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && links.length) {
    event.preventDefault();
    (links[at + step] ?? (step < 0 ? input : links[at])).focus();
  } else if (event.key === "Enter" && event.target === input) {
    event.preventDefault();
    links[0]?.click();
  }
});
dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
