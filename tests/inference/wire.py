"""Recorded streams of both protocols, and an HTTP transport in memory that damages them on the way."""

import random
from contextlib import aclosing
from typing import Any, Literal

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


class Recorded:
    """A server that answers each request with `data`, in pieces that `dice` cuts; then ends, breaks or falls silent."""

    def __init__(self, data: bytes = b"", *, dice: random.Random | None = None) -> None:
        self.data = data
        self.then: Then = "close"
        self.content_type = "text/event-stream"
        self.dice = dice or random.Random(1)

    def asked(self, body: bytes) -> None:
        """Take note of a request, before it is answered."""

    async def dial(self) -> trio.abc.Stream:
        await trio.lowlevel.checkpoint()
        return _Stream(self)


class _Stream(trio.abc.Stream):
    def __init__(self, server: Recorded) -> None:
        self._server = server
        self._pieces: list[bytes] = []
        self._closed = False

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.lowlevel.checkpoint()
        self._server.asked(bytes(data).partition(b"\r\n\r\n")[2])
        data = self._server.data
        cut = self._server.dice.randint(0, len(data))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {self._server.content_type}\r\nConnection: close\r\n\r\n"
        self._pieces = [piece for piece in (head.encode(), data[:cut], data[cut:]) if piece]

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if self._closed:
            raise trio.ClosedResourceError
        if self._pieces:
            piece, rest = self._pieces[0][:max_bytes], self._pieces[0][max_bytes:] if max_bytes else b""
            self._pieces[:1] = [rest] if rest else []
            return piece
        if self._server.then == "stall":
            await trio.sleep_forever()
        if self._server.then == "reset":
            raise trio.BrokenResourceError("connection reset by peer")
        return b""

    async def aclose(self) -> None:
        self._closed = True
        await trio.lowlevel.checkpoint()


def recorded(kind: str, answer: ScriptedAnswer) -> bytes:
    """Return the stream of an answer as the fake server sends it."""
    body = {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "messages": []}
    return KINDS[kind][0]().render(body, answer)


def over(transport: Recorded, kind: str) -> AnyProvider:
    """Return a provider that speaks to nothing but `transport`."""
    made = KINDS[kind][1](config(kind, "http://127.0.0.1:1/v1"))
    made.server.client.dial = transport.dial
    return made


def arguments(completion: Completion) -> list[tuple[str, str]]:
    """Return each call's name and arguments as JSON."""
    return [(call.name, msgspec.json.encode(call.arguments).decode()) for call in completion.message.tool_calls]
