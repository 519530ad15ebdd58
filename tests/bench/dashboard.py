"""Whether the dashboard stays quick in a large house: in a real browser, over a real daemon.

For each page: from when it is asked for to its first paint; from a change by the API to the page that shows it; and
what it costs the daemon while nobody does anything. And what the dashboard takes of the daemon's memory.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx

from daycare.api.client import Client
from daycare.store.home import Home
from tests.network.conftest import free_port

from . import crowd, dashboard_home
from .measure import median, rounded, rss_kib, say, scratch, uss_kib
from .turn_daemon import process_cpu_ms

_QUIET_MS: Final = 15.0  # of processor time within `_QUIET_S`: what a start has left to do is done
_QUIET_S: Final = 3.0
_SHOWN: Final = (
    "(old) => new Promise(done => document.addEventListener('daycare:shown', () => done(Date.now()), {once: true}))"
)
_SAYS: Final = """(text) => new Promise(done => {
  const look = () => document.getElementById('main').textContent.includes(text) && done(Date.now());
  const all = {subtree: true, childList: true, characterData: true};
  new MutationObserver(look).observe(document.getElementById('main'), all);
})"""
_SERVE: Final = """
import runpy, sys
from daycare.features.dashboard import Dashboard
if sys.argv.pop(1) == "without":
    Dashboard.routes = lambda self, closing: ()
runpy.run_module("daycare.cli.daemon", run_name="__main__")
"""
_PAINT: Final = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"

Call = Callable[..., Any]


class Look(NamedTuple):
    """A page, and how to change what it shows: called with a way to call the API and a text, which the page then has.

    `says` makes what the page shows of that text, None where it shows only that something has changed.
    """

    path: str
    change: Callable[[Call, str], object] | None = None
    says: Callable[[str], str] | None = str


def _describe(call: Call, text: str) -> object:
    return call("PATCH", "/v1/agent?path=/u5/agent/cook", {"description": text})


def _post(call: Call, text: str) -> object:
    return call("POST", "/v1/messages", {"text": text, "path": dashboard_home.LONG})


def _decide(call: Call, text: str) -> object:
    found = call("GET", "/v1/approvals?limit=1")["approvals"][0]
    body = {"verdict": "reject", "seen": found["content_hash"], "why": text, "user": crowd.OWNER}
    return call("POST", f"/v1/approvals/{found['no']}/decide", body)


def _start(call: Call, text: str) -> object:
    return call("POST", "/v1/tasks", {"spec": {"prompt": text}})


def _schedule(call: Call, text: str) -> object:
    return call("POST", "/v1/cron", {"id": text.replace(" ", "-"), "spec": {"cron": "0 8 * * *", "prompt": text}})


def _signal(call: Call, text: str) -> object:
    return call("POST", "/v1/signals", {"type": "bench", "data": text})


def _raise(call: Call, text: str) -> object:
    return call("PUT", "/v1/budget", {"path": "/u1", "limits": {"day.calls": _limit(text)}})


def _limit(text: str) -> int:
    return 1_000_000 + int(text.split()[1])


LOOKS: Final = {
    "agents": Look("/", _post, says=None),
    "agents of one": Look("/?under=/u5", _describe),
    "agents found": Look("/?find=cook"),
    "conversation": Look(f"/agents{dashboard_home.LONG}", _post),
    "turns": Look(f"/agents{dashboard_home.LONG}?tab=turns"),
    "approvals": Look("/approvals", _decide, says=None),
    "memory": Look("/memory?query=cat"),
    "schedule": Look("/work", _schedule),
    "tasks": Look("/work?tab=tasks", _start),
    "timers": Look("/work?tab=timers"),
    "signals": Look("/work?tab=signals", _signal),
    "dead letters": Look("/work?tab=dead"),
    "costs": Look("/costs", _raise, says=lambda text: f"{_limit(text):,}"),
    "costs by agent": Look("/costs?days=90&by=agent"),
    "people": Look("/people"),
    "system": Look("/system"),
}


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this benchmark."""
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--approvals", type=int, default=1_000)
    parser.add_argument("--idle", type=float, default=30.0, help="seconds that each page is left open")
    parser.add_argument("--pages", help="only these, with commas between")


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Measure all pages and return milliseconds, and megabytes of the daemon."""
    chromium = shutil.which("chromium")
    if chromium is None:
        raise SystemExit("there is no chromium; Debian: apt install chromium")
    looks = {name: LOOKS[name] for name in (args.pages.split(",") if args.pages else LOOKS)}
    with scratch(args.dir) as folder:
        home, port = folder / "home", free_port()
        say(f"building a home of {args.agents} agents")
        sizes = {"agents": args.agents, "messages": args.messages, "approvals": args.approvals}
        dashboard_home.make(home, f"127.0.0.1:{port}", **sizes)
        with _daemon(home, "without", args.deadline):
            pass  # the first start of such a home has more to do than others
        with _daemon(home, "without", args.deadline) as pid:
            memory = {"without": _memory(pid)}
        with _daemon(home, "with", args.deadline) as pid:
            memory["unused"] = _memory(pid)
            found = _measured(looks, home, port, pid, chromium, args)
            memory["used"] = _memory(pid)
    return (
        sizes
        | found
        | {"memory_mb": memory, "unused_adds_mb": rounded(memory["unused"]["uss"] - memory["without"]["uss"], 2)}
    )


def _measured(looks: dict[str, Look], home: Path, port: int, pid: int, chromium: str, args: Any) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    local = Client(Home(home).socket)
    token = local.call("POST", "/v1/tokens", {"name": "bench", "may": "operator"})["token"]
    local.close()
    headers = {"Authorization": f"Bearer {token}"}
    root = f"http://127.0.0.1:{port}"
    found: dict[str, dict[str, Any]] = {
        "first_paint_ms": {},
        "change_ms": {},
        "page_kb": {},
        "server_ms": {},
        "idle_cpu_ms": {},
    }
    with httpx.Client(base_url=root, headers=headers, timeout=60) as http, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])

        def call(method: str, path: str, body: object = None) -> Any:
            answer = http.request(method, path, json=body)
            answer.raise_for_status()
            return answer.json()

        found["idle_cpu_ms"]["no page"] = rounded(_idle(pid, args.idle), 1)
        for name, look in looks.items():
            paints, changes, took = [], [], []
            for number in range(args.rounds):
                begin = time.perf_counter()
                answer = http.get(look.path)
                answer.raise_for_status()
                took.append(1000 * (time.perf_counter() - begin))
                context = browser.new_context(extra_http_headers=headers)  # nothing is cached
                page = context.new_page()
                page.goto(root + look.path)
                page.wait_for_timeout(200)  # the stream of events is open
                paints.append(page.evaluate(_PAINT))
                if look.change:
                    changes.append(_changed(page, look, call, f"changed {number} of {name}"))
                if number == args.rounds - 1 and args.idle:
                    page.wait_for_timeout(1000 * _QUIET_S)
                    found["idle_cpu_ms"][name] = rounded(_idle(pid, args.idle), 1)
                context.close()
            found["first_paint_ms"][name] = rounded(median(paints), 1)
            found["change_ms"][name] = rounded(median(changes), 1)
            found["server_ms"][name] = rounded(median(took), 1)
            found["page_kb"][name] = rounded(len(answer.content) / 1000, 1)
            say(f"{name}: " + ", ".join(f"{key} {each.get(name)}" for key, each in found.items()))
        browser.close()
    return found | {"idle_s": args.idle}


def _changed(page: Any, look: Look, call: Call, text: str) -> float:
    """Return the milliseconds from before a change to the page that shows it."""
    shown = look.says(text) if look.says else ""
    watch = page.evaluate_handle(f"text => ({{seen: ({_SAYS if look.says else _SHOWN})(text)}})", shown)
    begin = time.time()
    look.change(call, text)  # type: ignore[misc]
    return float(page.evaluate("watch => watch.seen", watch)) - 1000 * begin


def _idle(pid: int, seconds: float) -> float:
    """Return the processor time of the daemon, in ms, while nobody does anything."""
    before = process_cpu_ms(pid)
    time.sleep(seconds)
    return process_cpu_ms(pid) - before


def _memory(pid: int) -> dict[str, float]:
    return {"rss": round(rss_kib(pid) / 1024, 2), "uss": round(uss_kib(pid) / 1024, 2)}


@contextmanager
def _daemon(home: Path, how: str, deadline: float) -> Iterator[int]:
    """Run a daemon until it has settled, and end it behind the block."""
    said = home.parent / "daemon.log"
    command = [sys.executable, "-P", "-c", _SERVE, how, "--home", str(home)]
    with said.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        began = time.monotonic()
        while not Home(home).socket.exists():
            if process.poll() is not None or time.monotonic() - began > deadline:
                raise RuntimeError(said.read_text()[-4000:])
            time.sleep(0.05)
        while _idle(process.pid, _QUIET_S) > _QUIET_MS and time.monotonic() - began < deadline:
            pass
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)
