"""Kills around calls, from the request over the decision and a question to the effect: of the daemon, and of hosts.

Each round has two calls: one that does something for sure, and one that asks a person first; most need a yes before.
A person decides and answers over the API, again and again until that is acknowledged. What was done stands in files of
the servers, forced to disk, by the call's number.
"""

import json
import os
import random
import signal
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import trio

from daycare.testing.daemon_process import DaemonProcess
from tests.mcp.driven import READY_S, USER, Driven, driven, section
from tests.mcp.house import Stub, tool

HOST_SHARE = 0.3  # of the kills
GATED_SHARE = 0.6  # of the calls
APPROVED_SHARE = 0.9
ACCEPTED_SHARE = 0.8
POLL_S = 0.03
MOMENTS = ("any", "asked", "decided", "effect")
TOOLS = {"stub": "effect", "asker": "ask"}  # of each server; `free_` as well, which nobody has to approve
_RULES = "".join(
    f'[[rules]]\nsubject = "/{USER}/**"\naction = "tool:{server}__{name}"\ndecision = "ask"\n'
    for server, name in TOOLS.items()
)


class Round:
    """Two calls, the person who decides, and when somebody is killed."""

    def __init__(self, house: Driven, number: int, chance: random.Random, stubs: dict[str, Stub]) -> None:
        self._house = house
        self._chance = chance
        self._stubs = stubs
        self.calls = {
            2 * number + at: (server, f"/{USER}/agent/k{2 * number + at}", f"{server}__{self._gated()}{name}")
            for at, (server, name) in enumerate(TOOLS.items())
        }
        self.seen: dict[int, str] = {}  # requests, by number: their verb
        self.sent = trio.Event()
        self.known: dict[int, str] = {}  # the result of each call

    def _gated(self) -> str:
        return "" if self._chance.random() < GATED_SHARE else "free_"

    async def order(self) -> None:
        for n, (_, path, name) in self.calls.items():
            await self._house.ask("POST", "/v1/agents", {"path": path})
            order = f'CALL {name} {{"n": {n}, "s": {self._chance.uniform(0.0, 0.3):.2f}}}'
            await self._house.ask("POST", "/v1/messages", {"text": order, "path": path})

    async def decide(self) -> None:
        """Decide and answer until cancelled."""
        while True:
            with suppress(httpx.TransportError):
                for it in (await self._house.ask("GET", "/v1/approvals"))["approvals"]:
                    self.seen[it["no"]] = it["verb"]
                    await trio.sleep(self._chance.uniform(0.0, 0.2))
                    self.sent.set()
                    route = f"/v1/approvals/{it['no']}/decide"
                    answer = await self._house.client.post(
                        route, json={"seen": it["content_hash"], **self._verdict(it)}
                    )
                    assert answer.is_success or answer.status_code in (409, 429, 503), answer.text
            await trio.sleep(POLL_S)

    def _verdict(self, it: dict[str, Any]) -> dict[str, Any]:
        if it["verb"] == "call":
            return {"verdict": "approve" if self._chance.random() < APPROVED_SHARE else "reject"}
        if self._chance.random() < ACCEPTED_SHARE:
            return {"verdict": "approve", "fields": {"drink": "tea"}}
        return {"verdict": self._chance.choice(("reject", "dismiss"))}

    async def moment(self, which: str) -> None:
        """Wait for a moment, but not for ever: it may not come."""
        with trio.move_on_after(5.0):
            match which:
                case "asked":
                    while not self.seen:
                        await trio.sleep(POLL_S)
                case "decided":
                    await self.sent.wait()
                case "effect":
                    while not any(self.done(n) for n in self.calls):
                        await trio.sleep(0.005)
                case _:
                    await trio.sleep(self._chance.uniform(0.0, 4.0))
        await trio.sleep(self._chance.choice((0.0, self._chance.uniform(0.0, 0.1), self._chance.uniform(0.0, 0.6))))

    def done(self, n: int) -> int:
        file = self._stubs[self.calls[n][0]].folder / "effects"
        return file.read_text().split().count(str(n)) if file.exists() else 0

    async def over(self) -> bool:
        """Return whether everything is known of all calls."""
        for n, (_, path, _) in self.calls.items():
            if n not in self.known:
                history = (await self._house.ask("GET", "/v1/agent", path=path))["history"]
                said = [part["text"] for each in history for part in each["parts"] if part.get("type") == "tool_result"]
                if result := next((text for text in said if not text.startswith("proposed")), ""):
                    self.known[n] = result
                elif any("was rejected" in json.dumps(each["parts"]) for each in history):
                    self.known[n] = "rejected"
        return len(self.known) == len(self.calls)


def campaign(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Run `kills` in a process of its own."""
    return trio.run(kills, folder, count, seed)


async def kills(folder: Path, count: int, seed: int) -> dict[str, Any]:
    """Kill so often; each call is made at most once, none is lost without a word, and no request waits for ever."""
    chance = random.Random(seed)
    stubs = {server: Stub(folder / server, tool(name), tool(f"free_{name}")) for server, name in TOOLS.items()}
    sections = _RULES
    for name, stub in stubs.items():
        settings = stub.settings()
        more = {"readable": list(settings.readable), "writable": list(settings.writable)}
        sections += section(name, list(settings.command), **more)
    found: dict[str, Any] = {"seed": seed, "kills": 0, "hosts": 0, "twice": [], "lost": [], "untold": [], "waiting": []}
    ends: Counter[str] = Counter()
    uncertain: set[int] = set()
    requests: dict[int, str] = {}
    async with driven(folder, sections) as (house, home, first):
        for name in stubs:
            await house.approved(name)
        daemon = first
        try:
            for number in range(count):
                it = Round(house, number, chance, stubs)
                async with trio.open_nursery() as nursery:
                    await it.order()
                    nursery.start_soon(it.decide)
                    await it.moment(chance.choice(MOMENTS))
                    if chance.random() < HOST_SHARE and (hosts := _hosts(await _pid(house))):
                        found["hosts"] += 1
                        os.kill(chance.choice(hosts), signal.SIGKILL)
                    else:
                        await daemon.kill()
                        daemon = DaemonProcess(home)
                        await daemon.ready()
                    found["kills"] += 1
                    with trio.move_on_after(READY_S) as late:
                        while not await it.over():
                            await trio.sleep(POLL_S)
                    nursery.cancel_scope.cancel()
                requests |= it.seen
                for n in it.calls:
                    end = "lost" if late.cancelled_caught and n not in it.known else _end(it.known[n])
                    ends[f"{it.calls[n][0]} {end}"] += 1
                    uncertain |= {n} if end == "uncertain" else set()
                    if it.done(n) > 1:
                        found["twice"].append(n)
                    if end == "lost" or (end == "done") != (it.done(n) == 1 and end != "uncertain"):
                        found["lost"].append(f"{n}: {it.done(n)} effects, {it.known.get(n, 'nothing known')[:200]}")
            found["waiting"] = [each["no"] for each in (await house.ask("GET", "/v1/approvals"))["approvals"]]
        finally:
            await daemon.kill()
    db = sqlite3.connect(home.database)
    told = [str(text).replace(" ", "") for (text,) in db.execute("SELECT text FROM outbox")]
    found["untold"] = [n for n in sorted(uncertain) if not _warned(told, n)]
    known = {no for (no,) in db.execute("SELECT no FROM approvals")}
    found["lost"] += [f"request {no}" for no in requests if no not in known]
    states = db.execute("SELECT kind || ' ' || state, count(*) FROM approvals GROUP BY 1").fetchall()
    db.close()
    return found | {"calls": dict(sorted(ends.items())), "requests": dict(states)}


def _warned(told: Sequence[str], n: int) -> bool:
    """Return whether somebody was told that a call may have taken effect."""
    return any("interruptedwhile" in text and f'"n":{n},' in text for text in told)


def _end(text: str) -> str:
    """Return how a call has ended, by what its agent was told."""
    ends = {
        "uncertain": "uncertain",
        "may have taken effect": "uncertain",
        "did it": "done",
        "left it": "declined",
        "rejected": "rejected",
        "nothing was done": "not done",
        "starting": "not done",
    }
    return next((end for words, end in ends.items() if words in text), "lost")


async def _pid(house: Driven) -> int:
    return int((await house.ask("GET", "/v1/status"))["pid"])


def _hosts(daemon: int) -> list[int]:
    """Return the processes in which servers are spoken with: grandchildren of the daemon."""
    parents = {}
    for each in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(each.parent.name)] = int(each.read_text().rpartition(")")[2].split()[1])
    return [pid for pid, parent in parents.items() if parents.get(parent) == daemon and _is_host(pid)]


def _is_host(pid: int) -> bool:
    with suppress(OSError):
        return b"daycare.features.mcp.host" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
