// Messages that move, as they do or as they did: the same dots for both, bounded however busy it is.

import { main, refresh } from "daycare";

const DOTS_MAX = 40;
const DOT_MS = 1400;
const TICK_MS = 150; // what moves between the same two meanwhile is one dot
const LISTED = 8;
const REFRESH_MS = 3000;
const PAGES_MAX = 5; // of 1,000 movements each that a replay shows
const REPLAY_MS = 15_000; // it takes at least so long, if it is not sped up
const SVG = "http://www.w3.org/2000/svg";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const at = (id) => document.getElementById(id);
let waiting = new Map(); // from and to -> how many since the last tick, and the last of them
let moved = 0;
let missed = 0;

// -- where things are -------------------------------------------------------------------------------------------------

/** Return what stands for an address: itself, the agent above it that is drawn, or the one for all others. */
function node(name) {
  const drawn = (wanted) => main.querySelector(`#flow [data-name="${CSS.escape(wanted)}"]`);
  for (let path = name; path; path = path.slice(0, path.lastIndexOf("/"))) {
    const found = drawn(path);
    if (found || !path.startsWith("/")) return found;
  }
  return drawn("other agents");
}

const outside = (sender) => (sender.startsWith("/") ? sender : sender.split(":")[0]);

function movement(kind, event) {
  if (kind === "message.accepted" && !event.duplicate) return { source: outside(event.sender), target: event.path, ...event };
  if (kind === "reply.sent") return { source: event.path, target: event.connector, ...event };
  return null;
}

// -- moving -----------------------------------------------------------------------------------------------------------

function note(it) {
  moved += 1;
  const key = `${it.source} ${it.target}`;
  const known = waiting.get(key);
  if (known) Object.assign(known, { it, number: known.number + 1 });
  else waiting.set(key, { it, number: 1 });
}

function tick() {
  const now = [...waiting.values()];
  waiting = new Map();
  const dots = at("dots");
  if (!dots || document.hidden) return;
  for (const { it, number } of now.slice(-DOTS_MAX)) {
    const [from, to] = [node(it.source), node(it.target)];
    if (!from || !to) continue;
    if (from === to || still.matches) light(to);
    else if (dots.childElementCount < DOTS_MAX) fly(dots, it, number, from.dataset, to.dataset);
  }
  if (now.length) list(now.slice(-LISTED));
}

function light(group) {
  group.classList.add("lit");
  setTimeout(() => group.classList.remove("lit"), 1000);
}

function fly(dots, it, number, from, to) {
  const link = document.createElementNS(SVG, "a");
  link.setAttribute("href", `/trace?${new URLSearchParams({ q: it.trace })}`);
  link.setAttribute("tabindex", "-1");
  const dot = link.appendChild(document.createElementNS(SVG, "circle"));
  dot.setAttribute("r", 4 + Math.min(6, Math.log2(number)));
  dots.append(link);
  const begun = performance.now();
  const bow = from.x === to.x ? -40 : 0;
  const step = (now) => {
    const part = Math.min(1, (now - begun) / DOT_MS);
    dot.setAttribute("cx", +from.x + (to.x - from.x) * part + bow * 4 * part * (1 - part));
    dot.setAttribute("cy", +from.y + (to.y - from.y) * part);
    if (part < 1) requestAnimationFrame(step);
    else link.remove();
  };
  step(begun);
}

function list(now) {
  const rows = now.reverse().map(({ it, number }) => {
    const row = document.createElement("li");
    const link = Object.assign(document.createElement("a"), { href: `/trace?${new URLSearchParams({ q: it.trace })}` });
    link.textContent = `${it.source} → ${it.target}`;
    const when = new Date(it.at_ms);
    const time = Object.assign(document.createElement("time"), { dateTime: when.toISOString(), textContent: when.toLocaleTimeString() });
    row.append(link, number > 1 ? ` ${number} times, ` : " ", time);
    return row;
  });
  const all = at("moving");
  if (all?.contains(document.activeElement)) return; // somebody is about to follow one
  all?.prepend(...rows);
  while (all?.childElementCount > LISTED) all.lastChild.remove();
}

// -- live -------------------------------------------------------------------------------------------------------------

let stale = 0; // a timer
document.addEventListener("daycare:event", (event) => {
  const { kind, event: it } = event.detail;
  event.preventDefault();
  if (replay) return;
  if (kind === "gap") missed += it.missed;
  const found = movement(kind, it);
  if (found) note(found);
  else if (it.path && node(it.path)) node(it.path).classList.add("failed");
  stale ||= setTimeout(() => {
    stale = 0;
    if (!replay) refresh();
  }, REFRESH_MS);
});

setInterval(() => {
  at("rate").textContent = replay?.isCut ? `The newest ${replay.moves.length} of that time are replayed.` : moved && !replay ? `${moved} moved in the last second` : "";
  moved = 0;
  const gaps = missed ? `${missed} events came faster than this page reads them: the lists below are complete, the dots were not.` : "";
  if (at("told").textContent !== gaps) at("told").textContent = gaps;
}, 1000);

// -- replay -----------------------------------------------------------------------------------------------------------

let replay = null; // { moves, next, since, until, now, runs, isCut }

async function load() {
  const { last, path } = at("player").dataset;
  const asked = new URLSearchParams({ last_s: last, limit: 1000, ...(path && { path }) });
  let moves = [];
  let page = {};
  for (let count = 0; count < PAGES_MAX && page.next !== null; count += 1) {
    if (count) asked.set("until_ms", page.until_ms), asked.set("before", page.next);
    const answer = await fetch(`/v1/traffic?${asked}`);
    page = await answer.json();
    if (!answer.ok) throw new Error(page.error.message);
    moves = moves.concat(page.movements);
  }
  moves.sort((one, other) => one.at_ms - other.at_ms);
  if (!moves.length) throw new Error("nothing moved");
  const [since, until] = [moves[0].at_ms - 1000, moves.at(-1).at_ms + 1000];
  at("speed").value = [600, 60, 10].find((speed) => (until - since) / speed > REPLAY_MS) ?? 1;
  return { moves, next: 0, since, until, now: since, runs: true, isCut: page.next !== null };
}

function show() {
  const all = replay && replay.until - replay.since;
  at("play").textContent = replay?.runs ? "Pause" : replay ? "Play" : "Replay";
  at("live").hidden = !replay;
  at("at").value = replay ? Math.round((1000 * (replay.now - replay.since)) / all) : 1000;
  const text = replay ? new Date(replay.now).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" }) : "live";
  if (at("clock").textContent !== text) at("clock").textContent = text;
  at("at").setAttribute("aria-valuetext", text);
}

function seek(part) {
  replay.now = replay.since + (replay.until - replay.since) * part;
  replay.next = replay.moves.findIndex((it) => it.at_ms >= replay.now);
  if (replay.next < 0) replay.next = replay.moves.length;
}

async function play() {
  if (!replay) {
    try {
      replay = await load();
    } catch (error) {
      at("clock").textContent = `cannot be replayed: ${error.message}`;
      return;
    }
  } else if (replay.now >= replay.until) {
    seek(0);
    replay.runs = true;
  } else replay.runs = !replay.runs;
  show();
}

setInterval(() => {
  if (replay?.runs) {
    replay.now = Math.min(replay.until, replay.now + TICK_MS * at("speed").value);
    while (replay.next < replay.moves.length && replay.moves[replay.next].at_ms <= replay.now) note(replay.moves[replay.next++]);
    if (replay.now >= replay.until) replay.runs = false;
    show();
  }
  tick();
}, TICK_MS);

at("player").hidden = false;
at("play").addEventListener("click", play);
at("live").addEventListener("click", () => {
  replay = null;
  show();
  refresh();
  at("play").focus();
});
at("at").addEventListener("input", async (event) => {
  const part = event.target.value / 1000;
  if (!replay) await play();
  if (!replay) return;
  replay.runs = false;
  seek(part);
  show();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "p" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input:not([type=range]), select, textarea")) return;
  event.preventDefault();
  play();
});
