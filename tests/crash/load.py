"""People who talk to a daemon that keeps dying: they repeat themselves until they are heard, and write everything down.

They use its API over the Unix socket as any client would.
"""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import trio

from daycare.testing.daemon_process import client_of
from tests.crash.ledger import Ledger, Sent
from tests.crash.mind import DELEGATIONS, VERBS, WISHES, Errand

SENDERS = 8
AGENTS = 5
PAUSE_S = 0.06  # on average, between two messages of one sender
RETRY_S = 0.04
# How often each verb is said, and how long the senders pause: a helper is ten times the work of a message.
WORKLOADS: dict[str, tuple[dict[str, int], float]] = {
    "messages": (dict(zip(VERBS, (50, 15, 15, 8, 12), strict=True)), PAUSE_S),
    "approvals": (dict(zip(("m", *WISHES), (15, 25, 30, 30), strict=True)), 8 * PAUSE_S),
    "budget": ({"m": 1}, PAUSE_S),
    "cron": ({"m": 1}, 6 * PAUSE_S),
    "curation": ({"m": 1}, 2 * PAUSE_S),
    "delegation": (dict(zip((*VERBS, *DELEGATIONS), (25, 5, 10, 2, 8, 10, 12, 12, 8, 8), strict=True)), 5 * PAUSE_S),
}
_CONFIRM_EVERY_S = 0.15


class Crowd:
    """Some senders and a reader of replies, who go on until `hush`."""

    def __init__(self, socket: Path, ledger: Ledger, seed: str, user: str, workload: str = "messages") -> None:
        self.socket = socket
        self.ledger = ledger
        self.paths = [f"/{user}/direct", *(f"/{user}/agent/a{number}" for number in range(AGENTS))]
        self._seed = seed
        self._weights, self._pause_s = WORKLOADS[workload]
        self._hushed = trio.Event()
        self._talking = SENDERS

    async def run(self) -> None:
        """Talk until hushed and every message is acknowledged, and read until cancelled."""
        async with trio.open_nursery() as nursery:
            for number in range(SENDERS):
                nursery.start_soon(self._talk, f"s{number}", random.Random(f"{self._seed}/s{number}"))
            nursery.start_soon(self._read, random.Random(f"{self._seed}/reader"))

    def hush(self) -> None:
        """Let everybody finish the message they are at."""
        self._hushed.set()

    @property
    def silent(self) -> bool:
        """Whether nobody has anything left to say."""
        return not self._talking

    async def prepare(self) -> None:
        """Create the agents."""
        async with client_of(self.socket) as client:
            # A word that needs no turn brings the first into being.
            answer = await client.post("/v1/messages", json={"path": self.paths[0], "text": "/whoami", "key": "hello"})
            assert answer.status_code in (200, 202), answer.text
            for path in self.paths[1:]:
                answer = await client.post("/v1/agents", json={"path": path})
                assert answer.status_code in (201, 409), answer.text

    # -- a sender ----------------------------------------------------------------------------------------------------

    async def _talk(self, sender: str, rng: random.Random) -> None:
        mine = [self.paths[0], *rng.sample(self.paths[1:], 2)]
        said: list[Sent] = []
        async with client_of(self.socket) as client:
            while not self._hushed.is_set():
                sent = self._next(sender, len(said) + 1, mine, rng)
                said.append(sent)
                await self._say(client, sent, rng.uniform(0.5, 3.0) if rng.random() < 0.15 else None)
                if rng.random() < 0.1:
                    await self._say(client, rng.choice(said), None)
                if rng.random() < 0.5:  # else at once, so that messages meet a busy agent
                    with trio.move_on_after(rng.expovariate(0.5 / self._pause_s)):
                        await self._hushed.wait()
        self._talking -= 1

    def _next(self, sender: str, number: int, mine: Sequence[str], rng: random.Random) -> Sent:
        verb = rng.choices(list(self._weights), list(self._weights.values()))[0]
        path = rng.choice(mine)
        target = rng.choice([other for other in self.paths if other != path]) if verb in ("tell", "ask") else ""
        errand = Errand(verb, sender, number, target)
        sent = self.ledger.sent[errand.name] = Sent(errand, path, f"crash:{errand.name}")
        return sent

    async def _say(self, client: httpx.AsyncClient, sent: Sent, wait_s: float | None) -> None:
        """Send a message again and again until it is acknowledged."""
        body = self._body(sent)
        if wait_s:
            body["wait_s"] = wait_s
        while True:
            try:
                answer = await client.post("/v1/messages", json=body)
            except httpx.TransportError:
                await trio.sleep(RETRY_S)
                continue
            if answer.status_code in (200, 202):
                receipt = answer.json()
                result = receipt["result"] if receipt["state"] == "done" else None
                self.ledger.acknowledge(sent, receipt["seq"], duplicate=receipt["duplicate"], result=result)
                return
            if answer.status_code == 409 and answer.json()["error"]["code"] == "MESSAGE_DEAD":
                del body["wait_s"]  # accepted and given up: there is no answer to wait for, only a receipt
                continue
            if answer.status_code not in (429, 503):
                self.ledger.findings.append(("broken", f"{sent.errand}: {answer.status_code} {answer.text}"))
                if answer.status_code != 500:
                    return
            await trio.sleep(RETRY_S)

    def _body(self, sent: Sent) -> dict[str, Any]:
        """Return a message as it is posted."""
        return {"path": sent.path, "text": str(sent.errand), "key": sent.key}

    # -- the reader --------------------------------------------------------------------------------------------------

    async def _read(self, rng: random.Random) -> None:
        async with client_of(self.socket) as client:
            while True:
                try:
                    await self._confirm(client, rng.choice(self.paths))
                except httpx.TransportError:
                    await trio.sleep(RETRY_S)
                await trio.sleep(_CONFIRM_EVERY_S)

    async def _confirm(self, client: httpx.AsyncClient, path: str) -> None:
        answer = await client.get("/v1/replies", params={"path": path, "limit": 1000})
        if answer.status_code != 200:
            return
        replies = {row["seq"]: row["text"] for row in answer.json()["replies"]}
        for seq, text in replies.items():
            self.ledger.fetch(seq, text)
        if not replies:
            return
        answer = await client.post("/v1/replies/ack", json={"seqs": list(replies)})
        if answer.status_code == 200:
            for seq, text in replies.items():
                self.ledger.confirm(seq, text)
