// Memory: what would be forgotten is shown before it is.

import { call, main, refresh, refused } from "daycare";

const line = (kind, text) => Object.assign(document.createElement(kind), { textContent: text });

function list(title, texts) {
  if (!texts.length) return [];
  const items = document.createElement("ul");
  items.append(...texts.map((text) => line("li", text)));
  return [line("h3", title), items];
}

function agreed(would) {
  const dialog = document.getElementById("forgetting");
  dialog.querySelector("div").replaceChildren(
    ...list("Memories", would.memories),
    ...list("With them", [
      ...(would.turns ? [`all that was said in ${would.turns} turn${would.turns > 1 ? "s" : ""}, which they come from`] : []),
      ...would.documents.map((name) => `passages of ${name}, which goes on without them`),
    ]),
    ...list("These speak of the same and stay, unless you choose them, too", would.mentions.map((each) => `${each.no}: ${each.text}`)),
  );
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((decided) => dialog.addEventListener("close", () => decided(dialog.returnValue === "forget"), { once: true }));
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.id !== "forget") return;
  event.preventDefault();
  const numbers = [...main.querySelectorAll("[name=numbers]:checked")].map((each) => each.value);
  if (!numbers.length) return refused(form, new Error("Nothing is chosen."));
  const wish = { agent: form.dataset.agent, numbers };
  try {
    const { would_forget: would } = await call("POST /v1/memories/forget", { ...wish, dry_run: true });
    refused(form, null);
    if (!(await agreed(would))) return;
    await call("POST /v1/memories/forget", wish);
    await refresh();
  } catch (error) {
    refused(form, error);
  }
});
