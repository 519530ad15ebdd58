// Returns what stands in a page and no page of ours has: `wild` are elements that act. Opens what folds.
(wild) => {
  const found = [...document.querySelectorAll(`main :is(${wild})`)].map((it) => it.outerHTML.slice(0, 120));
  const leads = ["href", "src", "action", "formaction", "xlink:href", "data", "poster", "srcset", "background"];
  for (const it of document.querySelectorAll("main, main *")) for (const { name, value } of it.attributes) {
    const runs = name.startsWith("on") || (leads.includes(name) && /^\s*(javascript|vbscript|data):/i.test(value));
    const loads = it.localName !== "a" && leads.includes(name) && /^\s*(https?:)?\/\/harm\.example/i.test(value);
    const acts = ["data-call", "data-press"].includes(name) && value.startsWith("POST /v1/shutdown");
    if (runs || loads || acts || ["style", "ping"].includes(name)) found.push(`${it.tagName} ${name}=${value}`);
  }
  for (const it of document.querySelectorAll("details")) it.open = true;
  for (const it of document.querySelectorAll("main *"))
    for (const kind of ["mouseover", "focus", "animationstart", "toggle"]) it.dispatchEvent(new Event(kind));
  return found;
}
