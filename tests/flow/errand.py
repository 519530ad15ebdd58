"""One errand that touches everything durable, the judge of how it may end, and a driver that crashes it."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio

from daycare.base.fence import fence
from daycare.base.messages import Message, ToolCall, ToolResult
from daycare.features import open_store
from daycare.plugin import Completion, Inbound, InferRequest
from daycare.store.sqlite.store import Store
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon
from daycare.testing.fake_connector import FakeConnector, texts
from daycare.testing.scripted import Scripted, call, say

ASKED = "run my errand"
ALSO = "and the weather?"  # waits behind the errand, as its answer goes elsewhere
ANSWER = "all done"
HELPER = "/ann/agent/helper"
WARNING = "Note: I was interrupted while `charge` ran"
REMINDER = "echo: Reminder due now: stretch"
QUIET_S = 400.0  # longer than the reminder, every backoff of a delivery here and every retry

_STEPS = (
    call(("remind", {"after_s": 60, "text": "stretch"}), ("note", {"word": "milk"}), ("charge", {"account": "ann"})),
    call(("send_message", {"to": HELPER, "text": "help me"})),
    say(ANSWER),
)


def brain(request: InferRequest) -> Completion:
    """Answer by what the conversation says, so that a model after a crash goes on like the one before."""
    said = list(request.messages)
    last_user = max(index for index, message in enumerate(said) if message.role == "user")
    words = said[last_user].text.partition("] ")[2]
    if words != ASKED:
        return say(f"echo: {words}")
    answered = sum(message.role == "assistant" for message in said[last_user:])
    return _STEPS[answered]


@dataclass
class Errand:
    """A folder in which the errand runs, over as many houses as it takes."""

    folder: Path
    clock: VirtualClock
    pigeon: FakeConnector = field(default_factory=FakeConnector)
    model: Scripted = field(default_factory=lambda: Scripted(brain))
    acknowledged: set[str] = field(default_factory=set)

    @property
    def ledger(self) -> Counter[str]:
        """What the testing tools did to the outside world."""
        file = self.folder / "ledger"
        return Counter(file.read_text().splitlines()) if file.exists() else Counter()

    async def prepare(self) -> None:
        """Open the home once without a crash."""

        async def story(house: TestDaemon) -> None:
            await house.store.people.link("pigeon:ann", "ann")
            await house.agent(HELPER)

        await live(self.folder, self.model, Doom(), story, plugins=[self.pigeon.plugin()], clock=self.clock)

    async def run(self, doom: Doom, for_s: float = QUIET_S) -> bool:
        """Let one house work until it crashes or is left; the platform repeats what was not acknowledged."""

        async def story(house: TestDaemon) -> None:
            for key, text, target in (("update:1", ASKED, None), ("update:2", ALSO, "ann#7")):
                if key not in self.acknowledged:
                    await house.daemon.intake.accept(
                        Inbound(connector="pigeon", sender="pigeon:ann", key=key, text=text, reply_target=target)
                    )
                    self.acknowledged.add(key)
            await trio.sleep(for_s)

        return await live(self.folder, self.model, doom, story, plugins=[self.pigeon.plugin()], clock=self.clock)

    async def judge(self, label: str) -> None:
        """Assert that the errand ended as it may, however often it was interrupted."""
        async with open_store(str(self.folder / "daycare.db"), self.clock, inline=True) as store:
            mine, helpers = [await _history(store, path) for path in ("/ann/pigeon", HELPER)]
            left = (
                (await store.inbox.counts())["waiting"],
                await store.outbox.count(),
                await store.dead.find(),
                await store.timers.find(),
            )
        said = [message.text for message in mine if message.role == "user"]
        assert said == [ASKED, ALSO, "Reminder due now: stretch"], f"{label}: one turn each, {said}"
        spoken = [message.text for message in mine if message.role == "assistant" and message.text]
        assert spoken == [ANSWER, f"echo: {ALSO}", REMINDER], f"{label}: {spoken}"
        results = _results(mine)
        assert [(name, status) for name, status in results if name != "charge"] == [
            ("remind", "ok"),
            ("note", "ok"),
            ("send_message", "ok"),
        ], f"{label}: {results}"
        [charged] = [status for name, status in results if name == "charge"]
        heard = [message.text for message in helpers if message.role == "user"]
        told = f"Message from /ann/pigeon (not from the user):\n{fence('message', 'help me')}"
        assert heard == [told], f"{label}: {heard}"
        assert left == (0, 0, [], []), f"{label}: nothing waits, nothing died: {left}"
        self._judge_outside(charged, label)

    def _judge_outside(self, charged: str, label: str) -> None:
        assert self.ledger["note milk"] >= 1, label
        if charged == "ok":
            assert self.ledger["charge ann"] == 1, label
        else:
            assert charged == "uncertain" and self.ledger["charge ann"] <= 1, f"{label}: {charged}, {self.ledger}"
        firsts = [flight.text for flight in self.pigeon.arrived if not flight.maybe_duplicate]
        everything = set(texts(self.pigeon.arrived))
        warned = [text for text in everything if text.startswith(WARNING)]
        assert len(warned) == (charged == "uncertain"), f"{label}: the person is told of uncertain effects"
        assert everything == {ANSWER, f"echo: {ALSO}", REMINDER, *warned}, label
        assert max(Counter(firsts).values(), default=0) <= 1, f"{label}: a repeat without its mark: {firsts}"
        once = {flight.outbox for flight in self.pigeon.arrived}
        assert len(once) == 3 + len(warned), f"{label}: one reply each"


async def _history(store: Store, path: str) -> list[Message]:
    agent = await store.agents.at(path)
    return await store.turns.history(agent.id, 1, 100) if agent else []


def _results(history: list[Message]) -> list[tuple[str, str]]:
    calls = [part for message in history for part in message.parts if isinstance(part, ToolCall)]
    results = [part for message in history for part in message.parts if isinstance(part, ToolResult)]
    assert [part.name for part in calls] == [part.name for part in results]
    return [(part.name, part.status) for part in results]


async def begin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Errand:
    """Return a fresh errand in a folder of its own."""
    folder.mkdir(parents=True)
    monkeypatch.setenv("DAYCARE_TEST_LEDGER", str(folder / "ledger"))
    errand = Errand(folder, VirtualClock())
    await errand.prepare()
    return errand
