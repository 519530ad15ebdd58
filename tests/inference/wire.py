"""Recorded streams of both protocols, and an HTTP transport in memory that damages them on the way."""

import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Literal

import httpx
import msgspec
import pytest
import trio

from daycare.base.errors import DaycareError
from daycare.base.messages import Message, Text
from daycare.inference.anthropic import AnthropicProvider
from daycare.inference.openai import OpenAIProvider
from daycare.plugin import Completion, InferRequest, ProviderConfig, TextDelta, ToolSpec
from daycare.testing.anthropic_server import FakeAnthropic
from daycare.testing.model_server import FakeModelServer, ScriptedAnswer, ScriptedCall
from daycare.testing.openai_server import FakeOpenAI

Then = Literal["close", "reset", "stall"]
AnyProvider = OpenAIProvider | AnthropicProvider

KINDS: dict[str, tuple[type[FakeModelServer], type[AnyProvider]]] = {
    "openai": (FakeOpenAI, OpenAIProvider),
    "anthropic": (FakeAnthropic, AnthropicProvider),
}
REMIND = ToolSpec(name="remind", description="Remind later", schema={"type": "object"})
ANSWERS = {  # short: each of their bytes is damaged in four ways
    "text": ScriptedAnswer(text="Grüße."),
    "call": ScriptedAnswer(thinking="Hm", tool_calls=(ScriptedCall("remind", {"after_s": 60}, id="call_a"),)),
    "parallel": ScriptedAnswer(
        tool_calls=(ScriptedCall("a", {"s": 5}, id="call_a"), ScriptedCall("b", {"w": "hot tea, now"}, id="call_b")),
    ),
}


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def request(*messages: Message, **rest: Any) -> InferRequest:
    return InferRequest(model="fake-small", system="Be kind.", messages=messages or (user("hi"),), **rest)


def config(kind: str, base_url: str, key: str | None = "sk-very-secret-123", **options: Any) -> ProviderConfig:
    return ProviderConfig(name="fake", kind=kind, base_url=base_url, secret=lambda: key, options=options)


async def run(made: AnyProvider, asked: InferRequest | None = None) -> tuple[list[str], Completion]:
    """Return the pieces of text that are not empty, and the completion, which must be the last event."""
    async with aclosing(made.infer(asked or request())) as stream:
        events = [event async for event in stream]
    *deltas, last = events
    assert isinstance(last, Completion)
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    return [delta.text for delta in deltas if isinstance(delta, TextDelta) and delta.text], last


async def failure(made: AnyProvider, asked: InferRequest | None = None) -> DaycareError:
    with pytest.raises(DaycareError) as caught:
        await run(made, asked)
    return caught.value


class Recorded(httpx.AsyncBaseTransport):
    """Answers each request with `data`, in pieces that `dice` cuts; then ends, breaks or falls silent."""

    def __init__(self, data: bytes = b"", *, dice: random.Random | None = None) -> None:
        self.data = data
        self.then: Then = "close"
        self.content_type = "text/event-stream"
        self._dice = dice or random.Random(1)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await trio.lowlevel.checkpoint()
        return httpx.Response(200, headers={"content-type": self.content_type}, stream=_Stream(self, self._dice))


class _Stream(httpx.AsyncByteStream):
    def __init__(self, recorded: Recorded, dice: random.Random) -> None:
        self._data, self._then, self._closed = recorded.data, recorded.then, False
        self._cut = dice.randint(0, len(self._data))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in (self._data[: self._cut], self._data[self._cut :]):
            await trio.lowlevel.checkpoint()
            if self._closed:
                return
            yield piece
        if self._then == "stall":
            await trio.sleep_forever()
        if self._then == "reset":
            raise httpx.ReadError("connection reset by peer")

    async def aclose(self) -> None:
        self._closed = True


def recorded(kind: str, answer: ScriptedAnswer) -> bytes:
    """Return the stream of an answer as the fake server sends it."""
    body = {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "messages": []}
    return KINDS[kind][0]().render(body, answer)


def over(transport: Recorded, kind: str) -> AnyProvider:
    """Return a provider that speaks to nothing but `transport`."""
    made = KINDS[kind][1](config(kind, "http://127.0.0.1:1/v1"))
    made.server.transport = transport
    return made


def arguments(completion: Completion) -> list[tuple[str, str]]:
    """Return each call's name and arguments as JSON."""
    return [(call.name, msgspec.json.encode(call.arguments).decode()) for call in completion.message.tool_calls]
