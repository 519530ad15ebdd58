"""What happens in the daemon meanwhile: a day of two people that touches every part of it, the same each time."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import trio

from daycare.base.connector import Attachment, Capabilities, Inbound
from daycare.base.cron import CronSpec
from daycare.base.errors import BusyError, UnavailableError
from daycare.base.memory_settings import IngestionSection, MemorySection
from daycare.base.messages import Message, ToolResult
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.features.exports.engine import ExportProgress
from daycare.features.tasks.records import TaskSpec
from daycare.plugin import Completion, InferRequest, Outgoing, StreamEvent, TextDelta
from daycare.process import when_possible
from daycare.store.records import AgentConfig, Receipt, User
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted, call, say
from tests.storefaults.places import Disk

T = TypeVar("T")

CLERK: Final = f"/{OWNER}/agent/clerk"
FLAKY: Final = "flaky"  # a reply with this word does not get through the first time
SLOW: Final = "slow"  # a message with this word is thought about
THINKS_S: Final = 300.0  # longer than all spells of bad weather together: /stop always comes in time
WORD_S: Final = 30.0  # between signs that it still thinks; it would count as silent
STOP_S: Final = 15.0  # after which /stop is said
SETTLED_S: Final = 400.0  # after which nothing is left to do
IDLE_S: Final = 700.0  # after which helpers are dismissed, and quiet conversations looked at
ANSWER_S: Final = 1_800.0
FINISH_S: Final = 10.0
RED_S: Final = 5.0  # after which health says that nothing can be written
CONFIG: Final = Config(
    models=ModelsSection(default="scripted/model"),
    providers={"scripted": ProviderSection(kind="scripted")},
    memory=MemorySection(ingestion=IngestionSection(idle_minutes=1)),
)

# What the model does when it is told a word: one call after the other, and then it speaks.
_CALLS: Final[dict[str, tuple[Completion, ...]]] = {
    "charge": (call(("charge", {"account": "p1"})),),
    "note": (call(("note", {"word": "n1"}), ("now", {})),),
    "remind": (call(("remind", {"after_s": 60, "text": "stretch"})),),
    "delegate": (call(("spawn", {"task": "add one and two", "prompt": "You can add."})),),
    "consult": (call(("ask", {"to": CLERK, "text": "are you there?"})),),
    "whisper": (call(("send_message", {"to": CLERK, "text": "psst"})),),
    "write": (call(("send_file", {"name": "plan.md", "text": "tea, then work"})),),
    "choose": (call(("offer_choices", {"choices": ["tea", "coffee"]})),),
    "remember": (call(("memory_append", {"path": "MEMORY.md", "text": "- has a dog called Rex\n", "reason": "said"})),),
    "look": (call(("memory_list", {}), ("list_agents", {})),),
}
FAILED: Final = ("disk I/O error", "database or disk is full", "attempt to write a readonly database")


def brain(request: InferRequest) -> Completion:
    """Answer by what the conversation says, so that a turn that is tried again goes on as it was."""
    said = request.messages
    last = max(number for number, message in enumerate(said) if message.role == "user")
    words = said[last].text.partition("] ")[2] or said[last].text
    if "add one and two" in words:
        return say("that makes three")
    steps = _CALLS.get(words.split(" ")[0].strip("."), ())
    done, failed = 0, False
    for message in said[last:]:
        done += message.role == "assistant"
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        failed = failed or any(
            result.status == "error" and error in result.text for result in results for error in FAILED
        )
    if failed:
        return say("my tools do not work")
    if done < len(steps):
        return steps[done]
    if steps:
        return say(f"{words}: {_told(said[last:])}")
    for word, fact in (("read", "plum"), ("dog", "Rex"), ("sister", "Bern")):
        if words.startswith(word):
            return say(f"{word}: {fact if fact in str((request.system, said[last:])) else 'unknown'}")
    return say(f"echo: {words}")


def _told(said: tuple[Message, ...]) -> str:
    found = [part.text for message in said for part in message.parts if isinstance(part, ToolResult)]
    return " | ".join(text.splitlines()[0] for text in found if text)


class SlowModel(Scripted):
    """It thinks long about what is slow."""

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Answer, and think before the end of it."""
        async with aclosing(super().infer(request)) as events:
            async for event in events:
                if isinstance(event, Completion) and SLOW in request.messages[-1].text:
                    for _ in range(round(THINKS_S / WORD_S)):
                        await trio.sleep(WORD_S)
                        yield TextDelta("")
                yield event


class FlakyPigeon(FakeConnector):
    """It can do what platforms can, and turns round once with each reply that is flaky."""

    def __init__(self) -> None:
        super().__init__(Capabilities(typing_s=5, edits=True, withdrawals=True, choices=True, files=True))
        self._turned: set[int] = set()

    async def send(self, outgoing: Outgoing) -> str:
        """Fly, or turn round before it has arrived."""
        if FLAKY in outgoing.text and outgoing.outbox not in self._turned:
            self._turned.add(outgoing.outbox)
            raise UnavailableError("NOT_SENT", "sending: a hawk")
        return await super().send(outgoing)


class Story(msgspec.Struct, kw_only=True):
    """One daemon's day, over two houses. `answers` has what people were told, by the key of what they said.

    `silent` says where health was good while nothing could be written.
    """

    folder: Path
    clock: VirtualClock
    disk: Disk
    pigeon: FlakyPigeon = msgspec.field(default_factory=FlakyPigeon)
    model: SlowModel = msgspec.field(default_factory=lambda: SlowModel(brain))
    answers: dict[str, str] = {}
    events: set[str] = set()
    silent: list[str] = []

    async def run(self) -> None:
        """Let it happen. What ends the daemon is raised."""
        with self.disk.watched():
            async with self._house() as house:
                await furnish(house)
                self.disk.on = True
                async with trio.open_nursery() as watch:
                    watch.start_soon(self._look_on, house)
                    async with trio.open_nursery() as people:
                        people.start_soon(self._ann, house)
                        people.start_soon(self._ben, house)
                        people.start_soon(self._around, house)
                    watch.cancel_scope.cancel()
                await self._leave(house)
            self.disk.on = True
            async with AsyncExitStack() as opened:
                house = await when_possible(opened, self._house, lambda _: True)
                await self._say(house, "left", "hello slow left")  # its platform does not know that it was taken
                await self._say(house, "again", "hello again")
                await trio.sleep(SETTLED_S)
                await self._stop(house)

    def _house(self) -> AbstractAsyncContextManager[TestDaemon]:
        return open_daemon(
            self.folder, self.model, location="daycare.db", config=CONFIG, curates=True, clock=self.clock,
            plugins=[self.pigeon.plugin()],
        )  # fmt: skip

    async def _look_on(self, house: TestDaemon) -> None:
        """See that health is red, once writes have been refused for `RED_S`."""
        while True:
            await trio.sleep(1)
            since_ms = self.disk.refused_ms
            if since_ms is None or self.clock.now_ms() - since_ms < RED_S * 1000:
                continue
            [store] = [it for it in await house.daemon.health.report() if it.name == "store"]
            if store.ok and self.disk.refused_ms == since_ms:
                self.silent.append(f"nothing was written since {since_ms}, and the store is said to be well")

    # -- people --------------------------------------------------------------------------------------------------------

    async def _ann(self, house: TestDaemon) -> None:
        say_ = self._say
        await say_(house, "direct", "hello direct", connector="direct")
        for word in ("remind", "delegate", "charge", "note", "consult", "whisper", "write", "choose", "look"):
            await say_(house, word, f"{word} please" if word != "look" else f"look {FLAKY}")
        await say_(house, "sister", "My sister Clara lives in Bern.")
        notes = Attachment(name="notes.txt", media_type="text/plain", data=b"the secret word is plum")
        await say_(house, "read", "read this", files=(notes,))
        for word in ("/status", "/help", "/agents", "/memory", "/spend", "/cron", "/task list"):
            await say_(house, word, word)
        await say_(house, "remember", "remember that I have a dog called Rex")
        approve = ""
        with trio.move_on_after(ANSWER_S):
            while not approve:
                await trio.sleep(10)
                choices = [choice for flight in self.pigeon.arrived for choice in flight.choices]
                approve = next((choice.says for choice in choices if choice.label == "Approve"), "")
        await say_(house, "approve", approve or "nothing to approve")
        await trio.sleep(60)
        await say_(house, "dog", "dog?")
        with trio.move_on_after(ANSWER_S):  # its turn would be stopped, late as it may be
            while not any("stretch" in flight.text for flight in self.pigeon.arrived if "due" in flight.text):
                await trio.sleep(1)
        await say_(house, "new", "/new")
        await say_(house, "delegate again", "delegate once more")
        await trio.sleep(IDLE_S)
        await say_(house, "whose", "sister of mine?")
        slow = await self._repeat(lambda: self._post(house, "slow", "hello slow"))
        await trio.sleep(STOP_S)
        await say_(house, "stop", "/stop")
        await self._heard(house, "slow", slow)

    async def _ben(self, house: TestDaemon) -> None:
        for number in range(6):
            await self._say(house, f"ben {number}", f"hello {number}", user="ben")
            await trio.sleep(20)
        await self._repeat(lambda: self._post(house, "eve", "who are you?", user="eve"))

    async def _around(self, house: TestDaemon) -> None:
        """What programs do: jobs, tasks, signals, and looking at everything."""
        daemon = house.daemon
        while "charge" not in self.answers:  # there is a conversation in which it can be told
            await trio.sleep(1)
        here = f"/{OWNER}/pigeon"
        job = CronSpec(cron="*/10 * * * *", prompt="hello job", deliver=here)
        once = CronSpec(at="2027-01-01T00:12", prompt="hello once", task="sum")
        controls = daemon.cron.controls
        await self._repeat(lambda: controls.add(OWNER, "often", job, source="cli"))
        await self._repeat(lambda: controls.add(OWNER, "once", once, source="cli"))
        task = await self._repeat(
            lambda: daemon.tasks.controls.start(
                OWNER, TaskSpec(prompt="hello task"), key="task", name="think", connector="pigeon", deliver=here
            )
        )
        await self._repeat(lambda: daemon.tasks.controls.wait(task, ANSWER_S))
        await self._repeat(lambda: daemon.signals.controls.subscribe(CLERK, "deploy:*"))
        await self._repeat(lambda: daemon.signals.controls.send(OWNER, "deploy:done", "it is out", call="signal"))
        await trio.sleep(1_250)
        await self._repeat(lambda: controls.remove(f"/{OWNER}/cron/often"))
        await self._repeat(daemon.status)
        await self._repeat(lambda: daemon.memory.controls.process())
        exports = daemon.exports
        await self._repeat(lambda: exports.export(CLERK, shared=False, progress=ExportProgress()))

    async def _leave(self, house: TestDaemon) -> None:
        """Go while something waits: the next house finds it."""
        await self._repeat(lambda: self._post(house, "left", "hello slow left"))
        await trio.sleep(1)
        self.disk.on = False
        self._watch(house)

    async def _stop(self, house: TestDaemon) -> None:
        await house.daemon.supervisor.stop(FINISH_S)
        self.disk.on = False
        self._watch(house)

    # -- how -----------------------------------------------------------------------------------------------------------

    def _watch(self, house: TestDaemon) -> None:
        self.events |= {str(event["event"]) for event in house.events()}

    async def _say(self, house: TestDaemon, key: str, text: str, **more: Any) -> None:
        await self._heard(house, key, await self._repeat(lambda: self._post(house, key, text, **more)))

    async def _heard(self, house: TestDaemon, key: str, receipt: Receipt | None) -> None:
        if receipt is not None:
            final = await self._repeat(lambda: house.daemon.router.wait(receipt, ANSWER_S))
            self.answers[key] = final.result or ""

    async def _post(
        self,
        house: TestDaemon,
        key: str,
        text: str,
        *,
        connector: str = "pigeon",
        user: str = OWNER,
        files: Sequence[Attachment] = (),
    ) -> Receipt | None:
        sender = f"{connector}:{user}"
        inbound = Inbound(connector=connector, sender=sender, key=key, text=text, files=tuple(files))
        if connector == "direct":
            receipt: Receipt | None = await house.daemon.intake.accept(inbound)
        else:
            [outcome] = await house.daemon.host.receive(connector, [inbound], "")
            if outcome.state == "stranger":
                return None
            assert outcome.state in ("accepted", "repeated"), outcome
            receipt = await house.store.inbox.receipt(outcome.seq)
        return receipt

    async def _repeat(self, do: Callable[[], Awaitable[T]]) -> T:
        """Do it as a platform or a program does that is refused for now: again, a second later."""
        while True:
            try:
                return await do()
            except (UnavailableError, BusyError) as refused:
                if refused.code == "ANSWER_LATE":
                    raise
                await trio.sleep(1)


async def furnish(house: TestDaemon) -> None:
    await house.store.people.link(f"pigeon:{OWNER}", OWNER)
    await house.store.people.add(User(id="ben", name="Ben", keys=("pigeon:ben",)))
    await house.agent(CLERK, AgentConfig(system_prompt="You are the clerk.", description="knows papers"))


def plain(text: str) -> str:
    """Return words without what differs between two days: numbers, ids, and what an agent had read by then."""
    return re.sub(r"\d+", "#", re.sub(r"\b[a-z0-9]{20,}\b|(?<=\nFrom: ).*", "ID", text))
