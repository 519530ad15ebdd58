"""A provider without a network, for tests: answers from a script, remembers what it was asked."""

from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any

import trio

from daycare.base.errors import DaycareError
from daycare.base.fence import unfenced
from daycare.base.messages import NOT_THE_USER, Message, Text, ToolCall, Usage
from daycare.plugin import Completion, InferRequest, Plugin, ProviderConfig, StreamEvent, TextDelta

Answer = Callable[[InferRequest], Completion]


def say(text: str) -> Completion:
    """Return a completion that answers with words."""
    return Completion(message=Message("assistant", (Text(text),)), finish="stop", usage=Usage(10, 5))


def call(*calls: tuple[str, dict[str, Any]], text: str = "") -> Completion:
    """Return a completion that asks for tools: (name, arguments) each."""
    parts = tuple(ToolCall(f"call-{n}", name, arguments) for n, (name, arguments) in enumerate(calls))
    words = (Text(text),) if text else ()
    return Completion(message=Message("assistant", (*words, *parts)), finish="tools", usage=Usage(10, 5))


def echo(request: InferRequest) -> Completion:
    """Answer with the last user message, without its time stamp."""
    texts = [message.text for message in request.messages if message.role == "user"]
    return say("echo: " + bare(texts[-1].partition("] ")[2]))


def bare(text: str) -> str:
    """Return a message without the fence around what an agent says."""
    head, line, words = text.partition("\n")
    return f"{head}{line}{unfenced(words)}" if text.startswith(NOT_THE_USER) else text


class Scripted:
    """A provider whose next answers are queued with `enqueue`; when the queue is empty, `default` answers.

    An entry is a `Completion`, an error to raise, a function of the request, or a number: seconds to think before the
    next entry. `history` holds every request.
    """

    name = "scripted"
    needs_key = False

    def __init__(self, default: Answer = echo) -> None:
        self.default = default
        self.history: list[InferRequest] = []
        self._script: deque[Completion | DaycareError | Answer | float] = deque()

    def enqueue(self, *entries: Completion | DaycareError | Answer | float) -> None:
        """Add entries to the script."""
        self._script.extend(entries)

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Play the next entry of the script."""
        self.history.append(request)
        await trio.lowlevel.checkpoint()
        entry = self._next()
        if isinstance(entry, int | float):
            await trio.sleep(entry)
            entry = self._next()
        if isinstance(entry, DaycareError):
            raise entry
        assert not isinstance(entry, int | float), "two pauses in a row"
        completion = entry if isinstance(entry, Completion) else entry(request)
        for word in completion.message.text.split(" "):
            yield TextDelta(word + " ")
        yield completion

    def _next(self) -> Completion | DaycareError | Answer | float:
        return self._script.popleft() if self._script else self.default

    async def models(self) -> list[str]:
        """There is one model."""
        return ["model"]

    def plugin(self) -> Plugin:
        """Return a plugin that offers this very provider under the kind `scripted`."""

        def make(_config: ProviderConfig) -> Scripted:
            return self

        return Plugin(name="scripted", providers={"scripted": make})
