"""People who want more than an answer: jobs at a time, tasks, and approvals, which they ask for at any node.

Each is asked for again and again, wherever a node answers, until that is acknowledged; then it happens once.
"""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import httpx
import trio

from daycare.store.postgres.connection import PostgresConnection
from daycare.testing.daemon_process import client_of
from tests.crash.ledger import Finding
from tests.nodes.cluster import Node
from tests.nodes.crowd import REQUEST_S, USERS, user_of

RULES: Final = "".join(
    f'\n[[rules]]\nsubject = "/{user_of(number)}/**"\naction = "tool:post"\ndecision = "ask"\n'
    for number in range(USERS)
)
_AHEAD_S: Final = (2, 6)
_PLANNERS: Final = 2
_DECIDERS: Final = 2
_PAUSE_S: Final = 2.0
_LOOK_S: Final = 0.5
_APPROVED_SHARE: Final = 0.8
_STATES: Final = {"approve": "approved", "reject": "rejected"}
_TOCK: Final = re.compile(r"\btock (\w+)\.")
_POST: Final = re.compile(r"s\d+-\d+")


@dataclass
class Wanted:
    """What was acknowledged: jobs and tasks by their names, and decisions by the number of the request."""

    jobs: dict[str, bool] = field(default_factory=dict)  # False: perhaps it was kept
    tasks: dict[str, bool] = field(default_factory=dict)
    sent: dict[int, str] = field(default_factory=dict)
    decided: dict[int, str] = field(default_factory=dict)


class Wanting:
    """Plans jobs, starts tasks and decides, until hushed; `doors` are the nodes of which any may be asked."""

    def __init__(self, doors: Callable[[], Sequence[Node]], seed: str, *, planning: bool) -> None:
        self._doors, self._seed = doors, seed
        self._planning = planning  # where clocks are off a time is another one on each node
        self.wanted = Wanted()
        self.findings: list[Finding] = []
        self._hushed = trio.Event()
        self._busy = _PLANNERS

    @property
    def silent(self) -> bool:
        """Whether nobody wants anything more; requests are decided on and on."""
        return not self._busy

    def hush(self) -> None:
        """Let nobody want anything new."""
        self._hushed.set()

    async def run(self) -> None:
        """Go on until cancelled."""
        async with trio.open_nursery() as nursery:
            for number in range(_PLANNERS):
                nursery.start_soon(self._plan, number, random.Random(f"{self._seed}/plans/{number}"))
            for number in range(_DECIDERS):
                nursery.start_soon(self._decide, number, random.Random(f"{self._seed}/decides/{number}"))

    async def _plan(self, number: int, rng: random.Random) -> None:
        count = 0
        while not self._hushed.is_set():
            count += 1
            name, user = f"w{number}x{count}", user_of(rng.randrange(USERS))
            if self._planning and rng.random() < 0.5:
                self.wanted.jobs[name] = False
                at = datetime.fromtimestamp(int(time.time()) + rng.randint(*_AHEAD_S), UTC).isoformat()
                spec = {"at": at, "prompt": f"tick {name}", "misfire": "run_once"}
                body = {"id": name, "user": user, "spec": spec}
                self.wanted.jobs[name] = await self._ask(
                    "/v1/cron", body, rng, {"CRON_EXISTS": True, "CRON_PAST": False}
                )
            else:
                self.wanted.tasks[name] = False
                body = {"user": user, "id": name, "key": name, "spec": {"prompt": f"tick {name}"}}
                self.wanted.tasks[name] = await self._ask("/v1/tasks", body, rng, {})
            with trio.move_on_after(rng.expovariate(1 / _PAUSE_S)):
                await self._hushed.wait()
        self._busy -= 1

    async def _ask(self, path: str, body: dict[str, Any], rng: random.Random, known: dict[str, bool]) -> bool:
        """Ask until it is acknowledged; return whether it was: `known` are codes that say so, or not."""
        while True:
            answer = await self._call("POST", path, body, rng)
            if answer is not None:
                code = answer.json()["error"]["code"] if answer.status_code >= 400 else ""
                if answer.status_code in (200, 201) or code in known:
                    return known.get(code, True)
                if answer.status_code not in (429, 503):
                    self.findings.append(("broken", f"{path} {body}: {answer.status_code} {answer.text}"))
                    return False
            await trio.sleep(rng.uniform(0.05, 0.2))

    async def _decide(self, share: int, rng: random.Random) -> None:
        """Decide each request of a share of them."""
        while True:
            answer = await self._call("GET", "/v1/approvals", None, rng)
            for it in answer.json()["approvals"] if answer is not None and answer.status_code == 200 else ():
                if it["no"] % _DECIDERS == share and it["no"] not in self.wanted.sent:
                    verdict = "approve" if rng.random() < _APPROVED_SHARE else "reject"
                    self.wanted.sent[it["no"]] = verdict
                    body = {"verdict": verdict, "seen": it["content_hash"], "user": it["decider"]}
                    if await self._ask(f"/v1/approvals/{it['no']}/decide", body, rng, {}):
                        self.wanted.decided[it["no"]] = verdict
            await trio.sleep(_LOOK_S)

    async def _call(self, method: str, path: str, body: Any, rng: random.Random) -> httpx.Response | None:
        if not (doors := self._doors()):
            return None
        with trio.move_on_after(REQUEST_S):
            try:
                async with client_of(rng.choice(doors).home.socket) as client:
                    return await client.request(method, path, json=body)
            except httpx.TransportError:
                return None
        return None


def judge(db: PostgresConnection, wanted: Wanted, said: Sequence[str], tools: Counter[str]) -> list[Finding]:
    """Return what did not happen though it was acknowledged, or happened twice; `said` is all that agents have said."""
    found: list[Finding] = []
    tocks = Counter(name for text in said for name in _TOCK.findall(text))
    for what, names in (("job", wanted.jobs), ("task", wanted.tasks)):
        for name, is_sure in names.items():
            if tocks[name] > 1:
                found.append(("doubled", f"{what} {name} was done {tocks[name]} times"))
            if is_sure and not tocks[name]:
                found.append(("lost", f"{what} {name} was never done"))
    for task, state in db.simple("SELECT path, state FROM tasks WHERE ended_at IS NULL OR settled = 0"):
        found.append(("lost", f"{task} is {state}, and nobody has seen to its end"))
    allowed: set[str] = set()
    states = {
        int(str(no)): (str(state), str(action))
        for no, state, action in db.simple("SELECT no, state, action FROM approvals")
    }
    for no, verdict in wanted.decided.items():
        now = states.get(no, ("missing", ""))[0]
        if now != _STATES[verdict]:
            found.append(("lost", f"request {no}: {verdict} was acknowledged, and it is {now}"))
    for no, (state, action) in states.items():
        posted = _POST.search(action)
        if state == "approved" and posted is not None:
            allowed.add(posted[0])
            if wanted.sent.get(no) != "approve":
                found.append(("broken", f"request {no} is approved, and nobody has said so"))
    for line, many in tools.items():
        kind, _, word = line.partition(" ")
        if kind == "post" and many > 1:
            found.append(("doubled", f"{word} was posted {many} times"))
        if kind == "post" and word not in allowed:
            found.append(("doubled", f"{word} was posted without a yes"))
    made = "\n".join(said)
    for no, (state, _) in states.items():
        if state == "approved" and f"made approved_{no} " not in made:
            found.append(("lost", f"request {no} was approved, and its call never came to an end"))
    return found
