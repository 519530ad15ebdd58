"""The operations of a daemon as short stories of one person, each over as many lives as it takes.

What is said has a key and is said again until it is acknowledged; the same with what programs ask for. The model, the
connector and the words are those of the day of `tests.storefaults`.
"""

import os
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import apsw
import trio

from daycare.base.connector import Attachment, Inbound
from daycare.base.cron import CronSpec
from daycare.base.errors import ConflictError, NotFoundError
from daycare.features.tasks.records import TaskSpec
from daycare.plugin import InferRequest, Outgoing, StreamEvent
from daycare.testing.clock import EPOCH_MS, VirtualClock
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from tests.crash.outside import Outside
from tests.storefaults.story import CLERK, CONFIG, FLAKY, IDLE_S, SLOW, FlakyPigeon, SlowModel, brain, furnish

HERE: Final = f"/{OWNER}/pigeon"
DEADLY: Final = "deadly"
REST_S: Final = 130.0  # after the last word: the clocks have looked at the time, every retry is over
WAIT_S: Final = 3_600.0


class Carrier(FlakyPigeon):
    """A pigeon whose arrivals are written down outside of the daemon."""

    def __init__(self, outside: Outside) -> None:
        super().__init__()
        self._outside = outside

    async def send(self, outgoing: Outgoing) -> str:
        """Fly."""
        receipt = await super().send(outgoing)
        self._outside.note(
            "arrived",
            outbox=outgoing.outbox,
            target=outgoing.target,
            text=outgoing.text,
            marked=outgoing.maybe_duplicate,
            choices=[(choice.label, choice.says) for choice in outgoing.choices],
        )
        return receipt


class Mind(SlowModel):
    """A model that a deadly message kills, and the process with it."""

    def __init__(self, die: Callable[[], None]) -> None:
        super().__init__(brain)
        self._die = die

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Answer, or die."""
        asked = takewhile(lambda message: message.role == "user", reversed(request.messages))
        if any(DEADLY in message.text for message in asked):
            self._die()
        async with aclosing(super().infer(request)) as events:
            async for event in events:
                yield event


class Person:
    """Who acts in a story."""

    def __init__(self, house: TestDaemon, outside: Outside) -> None:
        self.house = house
        self.outside = outside

    async def say(self, key: str, text: str, *, files: Sequence[Attachment] = ()) -> None:
        """Say it over the platform, unless that was acknowledged."""
        if key in self.outside.acknowledged:
            return
        inbound = Inbound(connector="pigeon", sender=f"pigeon:{OWNER}", key=key, text=text, files=tuple(files))
        receipt = await self.house.daemon.intake.accept(inbound)
        self.outside.note("acknowledged", key=key, seq=receipt.seq)

    async def receive(self, cursor: str, texts: dict[str, str]) -> None:
        """Hand over several updates with a cursor, as pollers do: never what the daemon's own cursor covers."""
        if await self.house.store.intake.recall("pigeon") >= cursor:
            return
        inbounds = [
            Inbound(connector="pigeon", sender=f"pigeon:{OWNER}", key=key, text=text) for key, text in texts.items()
        ]
        outcomes = await self.house.daemon.host.receive("pigeon", inbounds, cursor)
        for key, outcome in zip(texts, outcomes, strict=True):
            self.outside.note("acknowledged", key=key, seq=outcome.seq)

    async def heard(self, key: str) -> str:
        """Wait for the answer."""
        receipt = await self.house.store.inbox.receipt(self.outside.acknowledged[key])
        assert receipt is not None, f"{key} was acknowledged and is not there"
        return (await self.house.daemon.router.wait(receipt, WAIT_S)).result or ""

    async def talk(self, key: str, text: str, **more: Any) -> str:
        """Say it and wait for the answer."""
        await self.say(key, text, **more)
        return await self.heard(key)

    async def once(self, name: str, do: Callable[[], Awaitable[Any]]) -> Any:
        """Ask for something until it is acknowledged; what is there, or gone, already was taken the last time."""
        if name not in self.outside.told:
            try:
                value = await do()
            except (ConflictError, NotFoundError):
                value = None
            self.outside.note("told", name=name, value=str(value))
        return self.outside.told[name]

    async def until(self, at_s: float) -> None:
        """Wait until so many seconds after the beginning of the first life."""
        now_s = (self.house.daemon.clock.now_ms() - EPOCH_MS) / 1000
        await trio.sleep(max(0.0, at_s - now_s))


@dataclass(frozen=True)
class Operation:
    """One story, and how words begin that arrive in it.

    `varies` names what may differ from one that was not interrupted, for the reason given beside it; `kills` says that
    it dies by itself.
    """

    play: Callable[[Person], Awaitable[None]]
    arrives: tuple[str, ...] = ()
    curates: bool = False
    kills: bool = False
    varies: tuple[str, ...] = ()


async def live(
    folder: Path,
    operation: Operation,
    outside: Outside,
    watch: Callable[[apsw.Connection, Callable[[], int]], None],
    threads: bool,
) -> None:
    """Live the story once, to its end or to the death that `watch` may bring."""
    clock = VirtualClock(outside.died_ms or EPOCH_MS)
    async with open_daemon(
        folder,
        Mind(lambda: die(outside, clock.now_ms())),
        location="daycare.db",
        config=CONFIG,
        plugins=[Carrier(outside).plugin()],
        work=False,
        curates=operation.curates,
        clock=clock,
        inline=not threads,
    ) as house:
        if await house.store.people.get("ben") is None:
            await furnish(house)
        watch(house.store._db, clock.now_ms)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.daemon.work)
            await operation.play(Person(house, outside))
            await trio.sleep(REST_S)
            outside.note("lived", commits=outside.commits, near=outside.near)
            nursery.cancel_scope.cancel()


def die(outside: Outside, now_ms: int) -> None:
    """End this process as a crash does; the next one goes on at this time."""
    outside.note("died", now_ms=now_ms)
    os.kill(os.getpid(), signal.SIGKILL)


async def _message(ann: Person) -> None:
    await ann.talk("hello", "hello there")
    await ann.talk("flaky", f"hello {FLAKY}")
    notes = Attachment(name="notes.txt", media_type="text/plain", data=b"the secret word is plum")
    await ann.talk("read", "read this", files=(notes,))


async def _steering(ann: Person) -> None:
    await ann.say("slow", f"hello {SLOW}")
    await trio.sleep(2)
    await ann.say("more", "hello more")
    await ann.heard("slow")
    await ann.heard("more")
    await ann.say("stopped", f"hello {SLOW}")
    await trio.sleep(2)
    await ann.talk("stop", "/stop")
    await ann.heard("stopped")
    await ann.talk("new", "/new")
    await ann.talk("after", "hello after")


async def _poison(ann: Person) -> None:
    await ann.say("deadly", f"hello {DEADLY}")
    await ann.say("behind", "hello behind it")
    await ann.heard("behind")


async def _tools(ann: Person) -> None:
    for word in ("charge", "note", "write", "choose"):
        await ann.talk(word, f"{word} please")


async def _reminder(ann: Person) -> None:
    await ann.talk("remind", "remind me")
    await ann.until(200)


async def _cron(ann: Person) -> None:
    await ann.talk("hello", "hello")
    controls = ann.house.daemon.cron.controls
    job = CronSpec(cron="*/10 * * * *", prompt="hello job", deliver=HERE)
    once = CronSpec(at="2027-01-01T00:12", prompt="hello once", task="sum")
    await ann.once("often", lambda: controls.add(OWNER, "often", job, source="cli"))
    await ann.once("once", lambda: controls.add(OWNER, "once", once, source="cli"))
    await ann.until(1_290)
    await ann.once("removed", lambda: controls.remove(f"/{OWNER}/cron/often"))


async def _task(ann: Person) -> None:
    await ann.talk("hello", "hello")
    tasks = ann.house.daemon.tasks.controls
    spec = TaskSpec(prompt="hello task")
    started = await tasks.start(OWNER, spec, key="task", name="think", connector="pigeon", deliver=HERE)
    await tasks.wait(started, WAIT_S)


async def _delegation(ann: Person) -> None:
    for word in ("delegate", "consult", "whisper"):
        await ann.talk(word, f"{word} please")
    await ann.until(IDLE_S + 60)  # the helper is dismissed


async def _memory(ann: Person) -> None:
    await ann.talk("sister", "My sister Clara lives in Bern.")
    await ann.talk("dog", "My dog is called Rex.")
    await ann.until(400)  # the conversation was quiet, and looked at
    await ann.talk("whose", "sister of mine?")


async def _approval(ann: Person) -> None:
    await ann.talk("remember", "remember that I have a dog called Rex")
    while not ann.outside.choices:
        await trio.sleep(1)
    [approve] = {says for label, says in ann.outside.choices if label == "Approve"}
    await ann.talk("approve", approve)
    await ann.until(120)
    await ann.talk("dog", "dog?")


async def _receiving(ann: Person) -> None:
    await ann.receive("1", {"u1": "hello one", "u2": "/status", "u3": "hello three"})
    await trio.sleep(10)
    await ann.receive("2", {"u4": "hello four"})
    await trio.sleep(10)


async def _signal(ann: Person) -> None:
    signals = ann.house.daemon.signals.controls
    await ann.once("subscribed", lambda: signals.subscribe(CLERK, "deploy:*"))
    await ann.once("sent", lambda: signals.send(OWNER, "deploy:done", "it is out", call="signal"))
    await trio.sleep(60)


OPERATIONS: Final[dict[str, Operation]] = {
    "message": Operation(_message, arrives=("echo: hello there", "echo: hello flaky", "read: plum")),
    # What a turn had merged or steered when it died is tried by itself: how many turns and replies that takes varies.
    "steering": Operation(
        _steering,
        arrives=("echo: hello slow", "Stopped.", "A new conversation begins.", "echo: hello after"),
        varies=("turn's end", "reply", "message", "heard", "arrived"),
    ),
    # How often it was begun before it was given up depends on the deaths besides, and so does what it is told then.
    "poison": Operation(
        _poison,
        arrives=("echo: hello behind it", "I could not answer"),
        kills=True,
        varies=("turn's end", "heard"),
    ),
    "tools": Operation(_tools, arrives=("charge please: charged", "note please: noted", "write please: ", "choose")),
    "reminder": Operation(_reminder, arrives=("remind me: ", "echo: Reminder due now: stretch")),
    "cron": Operation(_cron, arrives=("echo: Scheduled job /ann/cron/often", "echo: Scheduled job /ann/cron/once")),
    "task": Operation(_task, arrives=("echo: Background task /ann/task/think",)),
    "delegation": Operation(_delegation, arrives=("delegate please: ", "consult please: ", "whisper please: ")),
    "memory": Operation(_memory, arrives=("echo: My sister", "sister: Bern"), curates=True),
    "approval": Operation(_approval, arrives=("**Request #**", "Approved: request #", "dog: Rex")),
    "receiving": Operation(_receiving, arrives=("echo: hello three", "daycare ", "echo: hello four")),
    "signal": Operation(_signal),
}
