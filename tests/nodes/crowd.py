"""People who write to whichever node answers, and repeat themselves at others until one has taken the message."""

import random
from collections.abc import Callable, Sequence
from typing import Any, Final

import httpx
import trio

from daycare.testing.daemon_process import client_of
from tests.crash.ledger import Ledger, Sent
from tests.crash.mind import Errand
from tests.nodes.cluster import Node

USERS: Final = 8
_VERBS: Final = ("m", "note", "charge", "tell", "ask", "spawn", "post", "remind")
_WEIGHTS: Final = (40, 10, 10, 8, 8, 6, 6, 12)
_WAITED: Final = 0.2  # of the messages: their senders wait for the answer
_WAIT_S: Final = 3.0
_PAUSE_MIN_S: Final = 1.2
PAUSE_S: Final = 0.2  # times the number of senders: what they say together is what a small machine takes
REQUEST_S: Final = 5.0


def user_of(sender: int) -> str:
    """Return whose agent a sender writes to."""
    return f"u{sender % USERS}"


class Crowd:
    """So many senders, until `hush`; `doors` are the nodes of which any may be asked.

    Where clocks are off nobody wants to be `reminded`: in an hour is too late.
    """

    def __init__(
        self,
        doors: Callable[[], Sequence[Node]],
        senders: int,
        seed: str,
        ledger: Ledger,
        *,
        reminded: bool,
        pause_s: float = PAUSE_S,
    ) -> None:
        self._pause_s = max(_PAUSE_MIN_S, pause_s * senders)  # of each
        self._weights = _WEIGHTS if reminded else (*_WEIGHTS[:-1], 0)
        self._doors, self._senders, self._seed = doors, senders, seed
        self.ledger = ledger
        self.waited = 0  # answers that came with the receipt
        self.took_s: list[float] = []  # from the first try to the receipt
        self._hushed = trio.Event()
        self._talking = senders

    @property
    def silent(self) -> bool:
        """Whether nobody has anything left to say."""
        return not self._talking

    def hush(self) -> None:
        """Let everybody finish the message they are at."""
        self._hushed.set()

    async def prepare(self) -> None:
        """Create users and agents."""
        async with client_of(self._doors()[0].home.socket) as client:
            for number in range(USERS):
                user = user_of(number)
                answer = await client.post("/v1/users", json={"id": user, "name": user})
                assert answer.status_code in (201, 409), answer.text
                for name in ("x", "y"):
                    answer = await client.post("/v1/agents", json={"path": f"/{user}/agent/{name}"})
                    assert answer.status_code in (201, 409), answer.text

    async def run(self) -> None:
        """Talk."""
        async with trio.open_nursery() as nursery:
            for number in range(self._senders):
                nursery.start_soon(self._talk, number, random.Random(f"{self._seed}/{number}"))

    async def _talk(self, number: int, rng: random.Random) -> None:
        sender, user = f"s{number}", user_of(number)
        said = 0
        while not self._hushed.is_set():
            said += 1
            verb = rng.choices(_VERBS, self._weights)[0]
            errand = Errand(verb, sender, said, f"/{user}/agent/y" if verb in ("tell", "ask") else "")
            sent = Sent(errand, f"/{user}/agent/x", f"nodes:{errand.name}")
            self.ledger.sent[errand.name] = sent
            began = trio.current_time()
            await self._say(sent, user, rng)
            self.took_s.append(trio.current_time() - began)
            with trio.move_on_after(rng.expovariate(1 / self._pause_s)):
                await self._hushed.wait()
        self._talking -= 1

    async def _say(self, sent: Sent, user: str, rng: random.Random) -> None:
        body: dict[str, Any] = {"path": sent.path, "user": user, "text": str(sent.errand), "key": sent.key}
        if rng.random() < _WAITED:
            body["wait_s"] = _WAIT_S
        while True:
            doors = self._doors()
            answer = await self._post(rng.choice(doors), body) if doors else None
            if answer is not None and answer.status_code in (200, 202):
                receipt = answer.json()
                self.waited += answer.status_code == 200
                result = receipt["result"] if answer.status_code == 200 else None
                self.ledger.acknowledge(sent, receipt["seq"], duplicate=receipt["duplicate"], result=result)
                return
            if answer is not None and answer.status_code not in (429, 503):
                self.ledger.findings.append(("broken", f"{sent.errand}: {answer.status_code} {answer.text}"))
                if answer.status_code != 500:
                    return
            await trio.sleep(rng.uniform(0.05, 0.2))

    async def _post(self, node: Node, body: dict[str, Any]) -> httpx.Response | None:
        with trio.move_on_after(REQUEST_S):
            try:
                async with client_of(node.home.socket) as client:
                    return await client.post("/v1/messages", json=body)
            except httpx.TransportError:
                return None
        return None
