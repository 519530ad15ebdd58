// Agents: filtering while somebody types, making one with its first documents, and fetching one as a file.

import { call, main, refresh, refused, say } from "daycare";

const TYPED_MS = 150;
let typed = 0;

document.addEventListener("input", ({ target }) => {
  if (target.id === "find") {
    clearTimeout(typed);
    typed = setTimeout(() => {
      history.replaceState(null, "", target.value ? `?${new URLSearchParams({ find: target.value })}` : location.pathname);
      refresh();
    }, TYPED_MS);
  }
  const form = target.closest("#new-agent");
  if (form) form.querySelector("output").value = pathOf(form);
});

/** What is made of a behaviour is an app; anything else an agent. */
function pathOf(form) {
  const made = form.querySelector("#behaviour")?.value;
  return `/${form.querySelector("#of").value.trim()}/${made ? "app" : "agent"}/${form.querySelector("#called").value.trim()}`;
}

/** A template is words to begin with: they may be changed before the agent is there. */
main.addEventListener("change", async ({ target }) => {
  if (target.id !== "template") return;
  const form = target.form;
  const { description = "", personality = "", documents = {}, first = "" } = target.value ? await call(`GET /v1/templates/${target.value}`) : {};
  form.elements["config.description"].value = description;
  form.elements["config.personality"].value = personality;
  for (const text of form.querySelectorAll("[data-document]")) text.value = documents[text.dataset.document] ?? "";
  say(first && `Its first documents are filled in. When it is there, say for example: ${first}`);
});

document.addEventListener("daycare:send", ({ target, detail }) => {
  if (target.id === "new-agent") {
    detail.body.path = pathOf(target);
    if (!detail.body.path.includes("/app/")) detail.body.documents = Object.fromEntries(texts(target, true));
    detail.after.push((agent) => seed(target, agent.path));
  } else if (target.dataset.rules) {
    const rules = [...JSON.parse(target.dataset.rules), detail.body];
    detail.body = { permissions: { rules } };
  }
});

/** Documents of the agent come into being with it; what is about its person is theirs. */
function texts(form, own) {
  return [...form.querySelectorAll("[data-document]")]
    .filter(({ dataset, value }) => value.trim() && (dataset.document !== "USER.md") === own)
    .map(({ dataset, value }) => [dataset.document, value]);
}

async function seed(form, path) {
  for (const [name, text] of texts(form, false)) {
    const where = new URLSearchParams({ agent: path, path: name });
    try {
      await call(`PUT /v1/memory/document?${where}`, { text, base_hash: "", reason: "written when the agent was made" });
    } catch (error) {
      error.message = `${path} is there, but without ${name}: ${error.message}`;
      throw error;
    }
  }
}

/** The daemon tells line by line how far it is; the last one says where the file is. */
async function exported(path) {
  const headers = { "content-type": "application/json", "x-daycare-csrf": document.body.dataset.csrf };
  const answer = await fetch("/v1/exports", { method: "POST", headers, body: JSON.stringify({ path }) });
  const lines = (await answer.text()).trim().split("\n");
  const { report, error } = JSON.parse(lines.at(-1));
  if (!report) throw Object.assign(new Error(error.message), { hint: error.hint });
  location.href = `/v1/exports/${report.id}`;
}

main.addEventListener("click", async ({ target }) => {
  if (!target.dataset.export) return;
  target.disabled = true;
  try {
    say("The export is being made.");
    await exported(target.dataset.export);
  } catch (error) {
    refused(target.parentElement, error);
  } finally {
    say("");
    target.disabled = false;
  }
});
