"""A plugin with one of everything, each of which can be told to answer nonsense; and a day on which all of it is used.

What is told nonsense is a *place*: `send` is what the connector's `send` returns, `inbound.at_ms` what the connector
puts there. Everything else behaves.
"""

import itertools
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import trio
from msgspec.structs import replace

from daycare.base.connector import Pairing
from daycare.base.errors import DaycareError
from daycare.base.memory_settings import MemorySection
from daycare.base.messages import Message, Text, Thinking, ToolCall, Usage
from daycare.base.tool import STAYS
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.plugin import (
    BaseConnector,
    Behaviour,
    BehaviourContext,
    BehaviourMessage,
    Capabilities,
    ChatCommand,
    Choice,
    Completion,
    Health,
    HookSet,
    Identity,
    Inbound,
    InferRequest,
    Outgoing,
    Plugin,
    PluginContext,
    ProviderConfig,
    RemoteFile,
    StructTool,
    TextDelta,
    ToolContext,
    Unreadable,
    Waiting,
    vectors,
)
from daycare.testing.daemon import TestDaemon

NAME: Final = "wild"
BEHAVES: Final = object()
HALF: Final = "half \ud800 a pair"


class Broken:
    """An object that does not even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__
    __len__ = None
    __iter__ = None


class SpeechlessError(Exception):
    """An error that cannot say what it is about."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class GoneError(BaseException):
    """Not an `Exception`, as asyncio's being cancelled."""


def endless() -> Iterator[str]:
    while True:
        yield ""


def deep(levels: int = 5_000) -> Any:
    found: Any = []
    for _ in range(levels):
        found = [found]
    return found


VALUES: Final[dict[str, Callable[[], Any]]] = {
    "nothing": lambda: None,
    "number": lambda: 7,
    "below zero": lambda: -5,
    "huge number": lambda: 10**30,
    "not a number": lambda: float("nan"),
    "endless": lambda: float("inf"),
    "endless below": lambda: float("-inf"),
    "bytes": lambda: b"bytes",
    "object": Broken,
    "half a pair": lambda: HALF,
    "NUL": lambda: "a\x00b",
    "empty": lambda: "",
    "long": lambda: "long " * 600_000,
    "list": lambda: [None, HALF, 3],
    "table": lambda: {HALF: float("nan"), 3: b""},
    "deep": deep,
    "endless list": endless,
}
RAISED: Final[dict[str, Callable[[], BaseException]]] = {
    "half a pair": lambda: ValueError(HALF),
    "speechless": SpeechlessError,
    "long": lambda: ValueError("long " * 1_000_000),
    "exit": lambda: SystemExit(3),
    "no Exception": lambda: GoneError("gone"),
    "group": lambda: BaseExceptionGroup("both", [ValueError(HALF), GoneError()]),
}


class Word(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Say a word."""

    word: str = ""


class Wild(BaseConnector):
    """All of it: a connector, and what the plugin's other parts ask for their answers."""

    name = NAME
    pull = False
    needs_key = False

    def __init__(self) -> None:
        self.place = ""
        self.odd: Callable[[], Any] = lambda: None
        self.raised: Callable[[], BaseException] | None = None
        self.context: PluginContext | None = None
        self.arrived: list[str] = []
        self.asked: set[str] = set()
        self._numbers = itertools.count(1)

    def say(self, place: str, otherwise: Any) -> Any:
        """Return what is said at a place, or raise."""
        self.asked.add(place)
        if place != self.place:
            return otherwise
        if self.raised is not None:
            raise self.raised()
        return self.odd()

    # -- the connector --

    def capabilities(self, target: str) -> Capabilities:
        able = Capabilities(
            typing_s=self.say("capabilities.typing_s", 5.0),
            edits=self.say("capabilities.edits", True),
            withdrawals=True,
            preview_every_s=self.say("capabilities.preview_every_s", 1.0),
        )
        found: Capabilities = self.say("capabilities", able)
        return found

    def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
        found: Sequence[Outgoing] = self.say("split", [self.say("part", self._part(outgoing))])
        return found

    def _part(self, outgoing: Outgoing) -> Outgoing:
        return replace(outgoing, text=self.say("part.text", outgoing.text))

    def delay_s(self, target: str) -> float:
        found: float = self.say("delay_s", 0.0)
        return found

    async def send(self, outgoing: Outgoing) -> str:
        self.arrived.append(str(outgoing.text))
        receipt: str = self.say("send", f"r{len(self.arrived)}")
        return receipt

    async def act(self, target: str, action: str) -> None:
        self.say("act", None)

    async def status(self, target: str, text: str) -> str:
        receipt: str = self.say("status", "line")
        return receipt

    async def edit(self, target: str, receipt: str, text: str) -> None:
        self.say("edit", None)

    async def withdraw(self, target: str, receipt: str) -> None:
        self.say("withdraw", None)

    async def fetch(self, reference: str, max_bytes: int) -> bytes:
        data: bytes = self.say("fetch", b"a list")
        return data

    def identity(self) -> Identity | None:
        who: Identity = self.say("identity", Identity("1", self.say("identity.name", "wild")))
        return who

    async def pair(self, phone: str) -> Pairing:
        return self.pairing()

    def pairing(self) -> Pairing:
        until_ms = self.say("pairing.until_ms", 5)
        found: Pairing = self.say(
            "pairing", Pairing(state="pairing", qr=self.say("pairing.qr", "x"), until_ms=until_ms)
        )
        return found

    async def unpair(self) -> None:
        self.say("unpair", None)

    # -- the model --

    async def infer(self, request: InferRequest) -> AsyncGenerator[Any, None]:
        await trio.lowlevel.checkpoint()
        last = request.messages[-1]
        yield TextDelta(self.say("delta.text", "so "))
        parts: list[Any] = [Thinking("wild", {"data": self.say("thinking", "hm")})]
        if last.role == "user" and "use it" in last.text:
            arguments = self.say("call.arguments", {"word": self.say("call.argument", "w")})
            parts.append(ToolCall(self.say("call.id", "c1"), self.say("call.name", "wild_tool"), arguments))
        else:
            parts.append(Text(self.say("answer.text", f"wild: {last.text.rpartition('] ')[2]}")))
        message = self.say("message", Message(self.say("role", "assistant"), self.say("parts", tuple(parts))))
        yield self.say(
            "completion",
            Completion(
                message=message,
                finish=self.say("finish", "stop"),
                usage=self.say("usage", Usage(self.say("usage.tokens", 5), 5)),
                model=self.say("model", "model"),
            ),
        )

    async def models(self) -> list[str]:
        found: list[str] = self.say("models", [self.say("models.name", "model")])
        return found

    async def embed(self, model: str, texts: Sequence[str]) -> memoryview:
        number = self.say("vector.number", 1.0)
        numbers = [[number, 1.0, 0.5]] * len(texts)
        found: memoryview = self.say("vectors", vectors(numbers))
        return found

    # -- the rest of it --

    async def tool(self, context: ToolContext, arguments: Word) -> Any:
        await trio.sleep(3)
        context.progress(self.say("progress", "half way"))
        await context.send("/ann/direct", self.say("sent", "a word"))
        context.remind(self.say("remind.after_s", 86_400.0), self.say("remind.text", "tea"))
        context.offer([Choice(self.say("choice.label", "Yes"), self.say("choice.says", "yes"))])
        context.offer(self.say("choices", []))
        name, data = self.say("file.name", f"f{next(self._numbers)}"), self.say("file.data", b"x")
        await context.write(name, self.say("file.type", "text/plain"), data)
        if self.place == "spawn":
            await context.spawn(self.say("spawn", "look"))
        if self.place == "waiting.deadline_s":
            waiting = await context.ask("/ann/app/it", "go", 5.0)
            return Waiting(key=waiting.key, deadline_s=self.say("waiting.deadline_s", 5.0))
        if self.place == "waiting.key":
            return Waiting(key=self.say("waiting.key", "k"), deadline_s=5.0)
        return self.say("tool", "fine")

    async def command(self, context: PluginContext, path: str, user: str, rest: str) -> Any:
        return self.say("command", "fine")

    async def before(self, context: PluginContext, event: object) -> Any:
        return self.say("message_before", [self.say("message_before.text", "It rains.")])

    async def after(self, context: PluginContext, event: object) -> None:
        self.say("message_after", None)

    async def health(self, context: PluginContext) -> Any:
        return self.say("health", "fine")

    async def start(self, context: PluginContext) -> None:
        self.context = context
        self.say("start", None)
        await trio.sleep_forever()

    async def hand_in(self) -> None:
        """Give the daemon what a connector gives it; its refusals are for the plugin alone."""
        context = self.context
        assert context is not None
        number = next(self._numbers)
        item = Inbound(
            connector=self.say("inbound.connector", NAME),
            sender=self.say("inbound.sender", f"{NAME}:ann"),
            key=self.say("inbound.key", f"in{number}"),
            text=self.say("inbound.text", f"use it {number}"),
            name=self.say("inbound.name", "Ann"),
            context=self.say("inbound.context", ""),
            meta=self.say("inbound.meta", {}),
            at_ms=self.say("inbound.at_ms", 5),
            files=self.say("inbound.files", (self._file(number),)),
            trace=self.say("inbound.trace", ""),
            reply_target=self.say("inbound.reply_target", None),
            kind=self.say("inbound.kind", "message"),
        )
        scrap = Unreadable(
            key=self.say("scrap.key", f"s{number}"),
            reason=self.say("scrap.reason", "no idea"),
            body=self.say("scrap.body", "{"),
        )
        good = Inbound(connector=NAME, sender=f"{NAME}:ann", key=f"good{number}", text="good morning")
        calls: list[Callable[[], Any]] = [
            lambda: context.receive(NAME, [good], self.say("cursor", f"c{number}")),
            lambda: context.receive(NAME, [item, good]),
            lambda: context.receive(NAME, [scrap]),
            lambda: context.receive(NAME, self.say("batch", [])),
            lambda: context.receive(NAME, [self.say("batch.item", good)]),
            lambda: context.accept(replace(item, key=f"accepted{number}")),
            lambda: context.remember(NAME, self.say("remember.name", "n"), self.say("remember.value", "v")),
            lambda: context.recall(NAME, self.say("recall.name", "n")),
            lambda: context.moved(NAME, f"{NAME}:nobody", self.say("moved.new", f"{NAME}:noone")),
        ]
        states = [Health(state=self.say("report.state", "up"), reason=self.say("report.reason", "fine"))]
        for call in calls:
            await _alone(call)
        for state in (*states, self.say("report", states[0])):
            try:
                context.report(NAME, state)
            except DaycareError as refused:
                assert NAME in refused.message

    def _file(self, number: int) -> RemoteFile:
        size = self.say("remote.size", 6)
        return RemoteFile(
            name=self.say("remote.name", "list.txt"),
            media_type="text/plain",
            size=size,
            reference="r",
            key=f"f{number}",
        )

    def plugin(self) -> Plugin:
        wild = self

        class Acts:
            name = "acts"
            description = "acts"

            async def act(self, context: BehaviourContext, messages: Sequence[BehaviourMessage]) -> Any:
                context.state = wild.say("state", {"n": 1})
                return wild.say("behaviour", "acted")

        acts: Behaviour = Acts()

        def self_of(config: ProviderConfig) -> Any:
            return self

        return Plugin(
            name=NAME,
            connectors={NAME: lambda: self},
            providers={NAME: self_of},
            embedders={"wild-vectors": self_of},
            tools=[StructTool("wild_tool", Word, self.tool, idempotent=True, **STAYS)],
            behaviours=[acts],
            commands={"wild": ChatCommand("do it", self.command)},
            hooks=HookSet(message_before=self.before, message_after=self.after, turn_end=self.after),
            health=self.health,
            start=self.start,
        )


async def _alone(call: Callable[[], Any]) -> None:
    """Call as a careful plugin does, which outlives a refusal."""
    try:
        await call()
    except DaycareError as refused:
        assert refused.message


CONFIG: Final = Config(
    models=ModelsSection(default="wild/model", fallbacks=("scripted/model",)),
    providers={
        "wild": ProviderSection(kind=NAME),
        "scripted": ProviderSection(kind="scripted"),
        "vectors": ProviderSection(kind="wild-vectors"),
    },
    memory=MemorySection(embedder="vectors/m"),
)


async def a_day(house: TestDaemon, wild: Wild) -> None:
    """Use everything once."""
    daemon = house.daemon
    await wild.hand_in()
    await house.talk("/wild")
    await house.say("go", path="/ann/app/it")
    await house.talk("please use it")
    await daemon.extensions.report()
    await daemon.pool.models()
    connector: Any = daemon.connectors[NAME]
    for call in (connector.identity, connector.pairing):
        try:
            call()
        except DaycareError as crashed:  # the API answers it
            assert NAME in crashed.message
    await trio.sleep(60)
