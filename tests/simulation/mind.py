"""The model and two tools of the simulation: they act out the errands of the messages they read."""

import re
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import msgspec
import trio

from daycare.base.errors import BusyError, UnavailableError
from daycare.base.messages import Message
from daycare.base.tool import STAYS
from daycare.plugin import InferRequest, Plugin, StreamEvent, StructTool, TextDelta, ToolContext, Waiting
from daycare.testing.scripted import Scripted, call, say

from .world import NAME, Errand, World

TOOLS = ("note", "charge", "haul", "consult", "teleport")  # nobody has the last one


class Mind(Scripted):
    """A provider that does what the current turn's messages ask for, and counts turns that should not coexist."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._busy: Counter[str] = Counter()
        self.calls = 0
        self.overlaps: list[str] = []

    def restart(self) -> None:
        """Forget the turns of a house that is gone."""
        self._busy.clear()

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Think about the current turn."""
        found = re.search(r"Your address is (\S+)\. ", request.system)
        assert found is not None
        path = found[1]
        self.calls += 1
        self._busy[path] += 1
        if self._busy[path] > 1:
            self.overlaps.append(f"{path} thinks {self._busy[path]} times at once")
        try:
            async with aclosing(self._think(current(request.messages))) as events:
                async for event in events:
                    yield event
        finally:
            self._busy[path] -= 1

    async def _think(self, messages: list[Message]) -> AsyncGenerator[StreamEvent, None]:
        names = [name for message in messages if message.role == "user" for name in NAME.findall(message.text)]
        errands = [self._world.errands[name] for name in names]
        await trio.sleep(max((errand.think_s for errand in errands), default=0.0))
        for errand in errands:
            if errand.failures:
                failure = errand.failures.pop(0)
                await _fail(failure)
                yield TextDelta("half a sent")
                if failure == "twice":
                    yield say("wrong")
                    yield say("and wrong again")
                return  # without the completion that the contract demands
        completion = say("answer: " + " ".join(f"{{{name}}}" for name in names))
        calls = _next_calls(errands, messages)
        if calls:
            completion = call(*calls)
        yield TextDelta("well, ")
        await trio.lowlevel.checkpoint()
        yield completion


async def _fail(kind: str) -> None:
    if kind == "away":
        raise UnavailableError("MODEL_AWAY", "the model is away")
    if kind == "busy":
        raise UnavailableError("MODEL_BUSY", "the model is busy", retry_after_s=30.0)
    if kind == "refused":
        raise BusyError("MODEL_KEY", "the key is wrong")
    if kind == "defect":
        raise ValueError("a plugin's defect")
    if kind == "silent":
        await trio.sleep(1_000.0)


def current(messages: tuple[Message, ...]) -> list[Message]:
    """Return the messages of the current turn: each one before ended with an assistant's words."""
    ends = [n for n, message in enumerate(messages) if message.role == "assistant" and not message.tool_calls]
    return list(messages[ends[-1] + 1 if ends else 0 :])


def _next_calls(errands: list[Errand], messages: list[Message]) -> list[tuple[str, dict[str, Any]]]:
    """Return the first step of any errand that was not called yet in this turn."""
    called = [(made.name, made.arguments) for message in messages for made in message.tool_calls]
    for errand in errands:
        for step in errand.steps:
            if not all(each in called for each in step):
                return step
    return []


class Haul(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Carry a load somewhere; it takes a while and cannot be done twice."""

    load: str
    seconds: float


class Consult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ask another agent and wait for its answer."""

    to: str
    text: str


def tools(world: World) -> Plugin:
    """Return the plugin with the tools of the simulation."""

    async def haul(context: ToolContext, arguments: Haul) -> str:
        await trio.sleep(arguments.seconds / 2)
        world.hauled.append(arguments.load)
        await trio.sleep(arguments.seconds / 2)
        return f"carried {arguments.load}"

    async def consult(context: ToolContext, arguments: Consult) -> Waiting:
        return await context.ask(arguments.to, arguments.text, 60.0)

    return Plugin(
        name="simulation",
        tools=(
            StructTool("haul", Haul, haul, idempotent=False, **STAYS),
            StructTool("consult", Consult, consult, idempotent=True, **STAYS),
        ),
    )
