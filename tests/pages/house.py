"""A daemon with something on every page: people, agents, talk, memory, requests, work, letters nobody got."""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import trio

from daycare.api import rates
from daycare.base.documents import Layer, Place
from daycare.base.errors import DaycareError
from daycare.base.messages import Usage
from daycare.base.pairing import code_hash, new_code
from daycare.features.approvals.records import DocumentAction
from daycare.features.approvals.service import ApprovalAsk
from daycare.features.budgets.rows import BudgetRows
from daycare.store.records import PairingRequest, Spend
from tests.network.conftest import Network, opened

Words = Callable[[], str]

PLAIN: Final = (
    "Buy oat milk on the way home",
    "The train to Bern leaves at 9:04",
    "Miso the cat is afraid of the vacuum cleaner",
    "Water the tomatoes in the evening",
    "Clara's birthday is on the third of May",
)
CODE: Final = "7K1M-20DA"  # of who knocked
MARKS: Final = {"ann": "quince-7313", "bob": "medlar-2468"}  # each stands in what is that person's, and nowhere else


def saying(texts: tuple[str, ...]) -> Words:
    """Return what says one text after another, without an end."""
    return partial(next, cycle(texts))


@contextmanager
def house(folder: Path, words: Words | None = None) -> Iterator[Network]:
    """Open one, furnished with words; nobody who asks often has to wait."""
    with patch.object(rates, "API_CALLS_BURST", 10**9), opened(folder) as network:
        network.add("other", user="bob")
        network.add("approve", user="ann", may="approve")
        Furnishing(network, words or saying(PLAIN)).all()
        yield network


class Furnishing:
    """What is put into a house, in words that may be refused where not every text is a name: `stored`, `refused`."""

    def __init__(self, network: Network, words: Words) -> None:
        self._network = network
        self._words = words
        self.stored = self.refused = 0

    def all(self) -> None:
        """Put something everywhere."""
        for user in MARKS:
            self._put("PATCH", f"/v1/users/{user}", {"name": self._words()[:200]})
            self.talk(user)
            self.work(user)
            self.remember(user)
            self.spend(f"/{user}/direct", user)
            self._ask(f"/{user}/direct", f"- {MARKS[user]}\n- {self._words()}\n")
        self.lose("/ann/agent/gone")
        self.park("/ann/agent/parked")
        self.knock()
        self._put("PUT", "/v1/budget", {"path": "/ann", "limits": {"day.usd": 5_000_000}})

    def talk(self, user: str) -> None:
        """Let somebody have an agent, and say something to it."""
        config = {"name": self._words(), "description": f"{MARKS[user]} {self._words()}"}
        self._put("POST", "/v1/agents", {"path": f"/{user}/agent/scribe", "config": config})
        file = self._put("POST", "/v1/files", None, name=f"{self._words()[:80]}.txt", type="text/plain", user=user)
        for path in (f"/{user}/direct", f"/{user}/agent/scribe"):
            later = "remind me in 3 hours to sleep"
            for text in (f"remember that {MARKS[user]} {self._words()}", self._words(), "12 * 3", later):
                self._put("POST", "/v1/messages", {"text": text, "user": user, "path": path, "wait_s": 20})
        if file:
            self._put("POST", "/v1/messages", {"text": "see", "files": [file["id"]], "user": user, "wait_s": 20})

    def work(self, user: str) -> None:
        """Let something be done later, and beside."""
        spec = {"cron": "30 7 * * *", "prompt": f"{MARKS[user]} {self._words()}", "description": self._words()}
        self._put("POST", "/v1/cron", {"id": "morning", "spec": spec, "user": user})
        self._put("POST", "/v1/tasks", {"id": "errand", "spec": {"prompt": self._words()}, "user": user})
        self._put("POST", "/v1/signals/subscriptions", {"path": f"/{user}/direct", "pattern": "door:*"})
        self._put("POST", "/v1/signals", {"type": "door:bell", "data": self._words(), "user": user})
        self._put("POST", "/v1/signals", {"type": "door:late", "data": self._words(), "after_s": 9000, "user": user})
        hook = {"name": f"{user}-door", "to": f"/{user}/direct", "user": user}
        self._put("POST", "/v1/hooks", {**hook, "template": self._words(), "instruction": self._words()})

    def remember(self, user: str) -> None:
        """Write documents and a skill of somebody's agent."""
        for name in ("MEMORY.md", "knowledge/notes.md"):
            text = f"# {self._words()}\n\n- {MARKS[user]}\n- {self._words()}\n"
            document = {"agent": f"/{user}/direct", "path": name}
            self._put(
                "PUT", "/v1/memory/document", {"text": text, "base_hash": "", "reason": self._words()}, **document
            )
        skill = {"name": "tea", "description": self._words()[:100], "instructions": self._words()}
        self._put("POST", f"/v1/agents/{user}.direct/skills", skill)

    def spend(self, path: str, user: str) -> None:
        """Let an agent have called two models."""

        async def settle(daemon: Any) -> None:
            agent = await daemon.directory.at(path)
            for model, micros in (("large", 1_240_000), ("small", 310_000)):
                usage = Usage(input_tokens=micros // 9, output_tokens=micros // 90, cached_tokens=micros // 20)
                of: Any = {"agent_id": agent.id, "user": user, "turn": 0, "provider": "lab", "model": model}
                await daemon.store.of(BudgetRows).settle(Spend(**of, path=path, usage=usage, cost_micros=micros))

        self._inside(settle)

    def lose(self, path: str) -> None:
        """End an agent for which something waits."""
        self.park(path)
        self._put("DELETE", "/v1/agent", path=path)

    def park(self, path: str) -> None:
        """Park an agent, and write to it."""
        self._put("POST", "/v1/agents", {"path": path, "config": {"description": self._words()}})

        async def park(daemon: Any) -> None:
            agent = await daemon.directory.at(path)
            await daemon.store.agents.set_state(agent.id, "parked", self._words())

        self._inside(park)
        for _ in range(2):
            self._put("POST", "/v1/messages", {"text": self._words(), "path": path})

    def knock(self) -> None:
        """Let strangers write, who are shown codes: `CODE`, and another one."""
        about: Any = {"connector": "telegram", "kind": "person", "name": self._words()[:60]}
        codes = {"telegram:42": CODE, "telegram:43": new_code()}
        knocks = [PairingRequest(**about, key=key, code_hash=code_hash(code)) for key, code in codes.items()]

        async def take(daemon: Any) -> None:
            await daemon.store.intake.take("telegram", knocks)

        self._inside(take)

    def _ask(self, path: str, text: str) -> None:
        """Let an agent ask for something."""

        async def ask(daemon: Any) -> None:
            agent = await daemon.directory.at(path)
            action = DocumentAction(verb="write", place=Place(Layer.AGENT, agent.id, "MEMORY.md"), text=text)
            wish = ApprovalAsk(kind="memory", action=action, turn=1, step=0, reason=self._words())
            await daemon.approvals.request(agent, wish)

        self._inside(ask)

    def _inside(self, do: Callable[[Any], Awaitable[None]]) -> None:
        """Do something within the daemon."""
        daemon: Any = self._network.daemon._daemon
        trio.from_thread.run(do, daemon, trio_token=self._network.daemon._token)

    def _put(self, method: str, route: str, body: Any = None, **query: Any) -> Any:
        try:
            found = self._network.locally(method, route, body, **query)
        except DaycareError:
            self.refused += 1
            return None
        self.stored += 1
        return found
