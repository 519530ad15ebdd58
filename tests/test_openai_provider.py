"""The OpenAI-compatible provider against the fake server, over real sockets."""

import gc
import logging
import traceback
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
import trio
import trio.testing

from daycare.base.errors import DaycareError, InvalidError, SetupError, UnavailableError
from daycare.base.messages import File, Image, Message, Text, Thinking, ToolCall, ToolResult
from daycare.inference.openai import OpenAIProvider, plugin
from daycare.plugin import Completion, InferRequest, OutputSpec, ProviderConfig, TextDelta, ToolSpec
from daycare.testing.openai_server import FakeOpenAI, ScriptedCall

SECRET = "sk-very-secret-123"
REMIND = ToolSpec(name="remind", description="Remind later", schema={"type": "object"})


@pytest.fixture
async def server(nursery: trio.Nursery) -> AsyncIterator[FakeOpenAI]:
    async with FakeOpenAI.serve(nursery) as server:
        yield server


@asynccontextmanager
async def provider(base_url: str, key: str | None = SECRET, **options: Any) -> AsyncIterator[OpenAIProvider]:
    config = ProviderConfig(name="fake", kind="openai", base_url=base_url, secret=lambda: key, options=options)
    made = OpenAIProvider(config)
    try:
        yield made
    finally:
        await made.aclose()


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def request(*messages: Message, **rest: Any) -> InferRequest:
    return InferRequest(model="fake-small", system="Be kind.", messages=messages or (user("hi"),), **rest)


async def run(made: OpenAIProvider, asked: InferRequest | None = None) -> tuple[list[str], Completion]:
    """Return the pieces of text that are not empty, and the completion, which must be the last event."""
    async with aclosing(made.infer(asked or request())) as stream:
        events = [event async for event in stream]
    *deltas, last = events
    assert isinstance(last, Completion)
    assert all(isinstance(delta, TextDelta) for delta in deltas)
    return [delta.text for delta in deltas if isinstance(delta, TextDelta) and delta.text], last


async def failure(made: OpenAIProvider, asked: InferRequest | None = None) -> DaycareError:
    with pytest.raises(DaycareError) as caught:
        await run(made, asked)
    return caught.value


def test_plugin_offers_the_kind_openai() -> None:
    made = plugin.providers["openai"](ProviderConfig(name="ollama", kind="openai"))
    assert made.name == "ollama"


async def test_a_prompt_is_freed_with_its_call_and_not_when_the_collector_comes(server: FakeOpenAI) -> None:
    def kept() -> int:
        return sum(isinstance(each, httpx.Request) for each in gc.get_objects())

    async with provider(server.base_url) as made:
        await run(made)
        gc.collect()
        before = kept()
        gc.disable()
        try:
            for _ in range(3):
                await run(made)
            assert kept() == before
        finally:
            gc.enable()


# -- what is sent and what comes back --------------------------------------------------------------------------------


async def test_text_comes_in_pieces_and_the_completion_holds_all_of_it(
    server: FakeOpenAI, autojump_clock: trio.testing.MockClock
) -> None:
    server.enqueue("Grüße aus Málaga, 你好!", piece_delay_s=1.0)
    async with provider(server.base_url) as made:
        pieces, done = await run(made, request(now_ms=42))
    assert len(pieces) > 2
    assert "".join(pieces) == done.message.text == "Grüße aus Málaga, 你好!"
    assert (done.finish, done.model, done.message.at_ms) == ("stop", "fake-small", 42)
    assert done.usage.input_tokens == 3
    assert done.usage.output_tokens == 4


async def test_a_conversation_with_tools_is_what_a_strict_server_accepts(server: FakeOpenAI) -> None:
    results = (
        ToolResult(call_id="a", name="remind", text="due at noon"),
        ToolResult(call_id="b", name="remind", text="no such time", status="error"),
        ToolResult(call_id="c", name="remind", text="", status="uncertain"),
    )
    calls = tuple(ToolCall(call, "remind", {"after_s": 1}) for call in "abc")
    asked = request(user("go"), Message("assistant", calls), Message("tool", results), tools=(REMIND,))
    async with provider(server.base_url, body={"keep_alive": "1h"}) as made:
        await run(made, msgspec.structs.replace(asked, max_output_tokens=9, temperature=0.5))
    got = server.history[0]
    assert got.headers["authorization"] == f"Bearer {SECRET}"
    assert [message["role"] for message in got.body["messages"]] == ["system", "user", "assistant", *["tool"] * 3]
    assert got.body["messages"][2]["tool_calls"][0]["function"] == {"name": "remind", "arguments": '{"after_s":1}'}
    told = [message["content"] for message in got.body["messages"][3:]]
    assert told[0] == "due at noon"
    assert told[1] == "Error: no such time"
    assert told[2].startswith("Uncertain: ")
    assert got.body["tools"][0]["function"]["name"] == "remind"
    assert (got.body["max_tokens"], got.body["temperature"], got.body["keep_alive"]) == (9, 0.5, "1h")
    assert got.body["stream_options"] == {"include_usage": True}


async def test_parallel_tool_calls_are_put_together_from_interleaved_pieces(server: FakeOpenAI) -> None:
    first, second = {"after_s": 600, "text": "Tee, heiß"}, {"after_s": 1.5, "text": "x" * 100}
    server.enqueue("Sure.", tool_calls=[("remind", first), ("remind", second)])
    async with provider(server.base_url) as made:
        pieces, done = await run(made)
    assert pieces == ["Sure."]
    assert done.finish == "tools"
    assert [call.arguments for call in done.message.tool_calls] == [first, second]
    assert len({call.id for call in done.message.tool_calls}) == 2


async def test_tool_calls_without_ids_or_with_ids_of_before_get_ids_of_their_own(server: FakeOpenAI) -> None:
    server.enqueue(tool_calls=[ScriptedCall("remind", {}, id="call_0"), ScriptedCall("remind", {}, id="")])
    before = (
        user("go"),
        Message("assistant", (ToolCall("call_0", "remind", {}),)),
        Message("tool", (ToolResult(call_id="call_0", name="remind", text="ok"),)),
    )
    async with provider(server.base_url) as made:
        _, done = await run(made, request(*before))
    ids = [call.id for call in done.message.tool_calls]
    assert len({"call_0", "", *ids}) == 4


async def test_a_tool_call_without_index_and_with_arguments_as_object_is_understood(server: FakeOpenAI) -> None:
    call = {"id": "x", "function": {"name": "remind", "arguments": {"after_s": 1}}}
    frame = {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "stop"}]}
    server.enqueue(raw=b"data:" + msgspec.json.encode(frame) + b"\r\n\r\n")
    async with provider(server.base_url) as made:
        _, done = await run(made)
    assert done.finish == "tools"
    assert done.message.tool_calls == (ToolCall("x", "remind", {"after_s": 1}),)


async def test_calls_that_all_have_the_number_0_are_kept_apart(server: FakeOpenAI) -> None:
    calls = [{"index": 0, "id": id_, "function": {"name": "remind", "arguments": "{}"}} for id_ in "abc"]
    frames: list[dict[str, Any]] = [{"choices": [{"delta": {"tool_calls": [call]}}]} for call in calls]
    frames.append({"choices": [{"delta": {"content": ""}, "finish_reason": "tool_calls"}]})
    server.enqueue(raw=b"".join(b"data: " + msgspec.json.encode(frame) + b"\n\n" for frame in frames))
    async with provider(server.base_url) as made:
        _, done = await run(made)
    assert [call.id for call in done.message.tool_calls] == ["a", "b", "c"]


async def test_a_server_without_counts_and_one_that_does_not_stream_are_understood(server: FakeOpenAI) -> None:
    server.with_usage = False
    whole = {"choices": [{"message": {"content": "all at once"}, "finish_reason": "stop"}]}
    async with provider(server.base_url) as made:
        _, done = await run(made)
        server.enqueue(raw=msgspec.json.encode(whole), headers={"Content-Type": "application/json"})
        pieces, second = await run(made)
    assert done.usage.input_tokens == 0
    assert pieces == ["all at once"]
    assert second.finish == "stop"


async def test_images_are_sent_and_files_that_nobody_resolved_are_not(server: FakeOpenAI) -> None:
    file = File(id=1, name="a.pdf", media_type="application/pdf", size=3)
    async with provider(server.base_url) as made:
        await run(made, request(Message("user", (Text("look"), Image("image/png", b"\x89PNG"), file))))
        await run(made, request(Message("user", (file,))))
    assert server.history[0].body["messages"][1]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw=="}},
    ]
    assert server.history[1].body["messages"][1]["content"] == ""


async def test_structured_output_is_strict_where_the_schema_allows_it(server: FakeOpenAI) -> None:
    field = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    closed = field | {"additionalProperties": False}
    async with provider(server.base_url) as made:
        for schema in (closed, field, closed | {"properties": {"a": field}}):
            await run(made, request(output=OutputSpec(name="facts", schema=schema)))
    formats = [got.body["response_format"]["json_schema"] for got in server.history]
    assert [spec.get("strict", False) for spec in formats] == [True, False, False]
    assert formats[0] == {"name": "facts", "schema": closed, "strict": True}


async def test_cached_tokens_are_a_part_of_the_prompt(server: FakeOpenAI) -> None:
    server.enqueue("ok", cached_tokens=2)
    async with provider(server.base_url) as made:
        _, done = await run(made)
    assert (done.usage.input_tokens, done.usage.cached_tokens) == (3, 2)


async def test_thoughts_are_a_sign_of_life_and_come_back_only_with_calls_of_this_turn(
    server: FakeOpenAI, autojump_clock: trio.testing.MockClock
) -> None:
    server.enqueue("no tool", thinking="hm hm", piece_delay_s=1.0)
    server.enqueue(thinking="a tool", tool_calls=[("remind", {})])
    async with provider(server.base_url) as made:
        async with aclosing(made.infer(request())) as stream:
            events = [event async for event in stream]
        _, done = await run(made)
        turn = (done.message, Message("tool", (ToolResult(call_id=done.message.tool_calls[0].id, name="r", text="k"),)))
        await run(made, request(user("go"), *turn))
        await run(made, request(user("go"), *turn, Message("assistant", (Text("done"),)), user("next")))
    assert sum(isinstance(event, TextDelta) and not event.text for event in events) >= 2
    assert events[-1].message.parts == (Text("no tool"),)  # type: ignore[union-attr]
    assert isinstance(done.message.parts[0], Thinking)
    assert server.history[2].body["messages"][2]["reasoning_content"] == "a tool"
    assert "reasoning_content" not in str(server.history[3].body)


@pytest.mark.parametrize("finish", ["eos", "end_turn", "STOP", "tool_calls"])
async def test_a_reason_never_seen_is_a_plain_end(server: FakeOpenAI, finish: str) -> None:
    server.enqueue("fine", finish=finish)
    server.enqueue(tool_calls=[("remind", {"a": 1})], finish=finish)
    async with provider(server.base_url) as made:
        assert (await run(made))[1].finish == "stop"
        assert (await run(made))[1].finish == "tools"


async def test_a_connection_is_used_again_and_the_key_is_read_at_each_call(server: FakeOpenAI) -> None:
    keys = ["first", "second"]
    made = OpenAIProvider(
        ProviderConfig(name="fake", kind="openai", base_url=server.base_url + "/", secret=lambda: keys[0])
    )
    await run(made)
    keys.pop(0)
    await run(made)
    assert await made.models() == ["fake-large", "fake-small"]
    await made.aclose()
    assert server.connections == 1
    assert [got.headers["authorization"] for got in server.history] == ["Bearer first", *["Bearer second"] * 2]


async def test_without_a_key_no_authorization_is_sent(server: FakeOpenAI) -> None:
    async with provider(server.base_url, key=None) as made:
        await run(made)
    assert "authorization" not in server.history[0].headers


async def test_a_caller_that_leaves_in_the_middle_leaves_nothing_open(server: FakeOpenAI) -> None:
    """An unfinished generator of httpx would warn here, and warnings are errors."""
    server.enqueue("one two three four")
    async with provider(server.base_url) as made:
        async with aclosing(made.infer(request())) as stream:
            async for event in stream:
                if isinstance(event, TextDelta) and event.text:
                    break
        _, done = await run(made)
    assert done.finish == "stop"


async def test_twenty_calls_at_once_do_not_mix(server: FakeOpenAI) -> None:
    answers: dict[int, str] = {}

    async def one(number: int) -> None:
        answers[number] = (await run(made, request(user(f"number {number}"))))[1].message.text

    async with provider(server.base_url) as made, trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)
    assert answers == {number: f"echo: number {number}" for number in range(20)}


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (302, SetupError, "BASE_URL_INVALID"),
        (400, InvalidError, "REQUEST_REFUSED"),
        (401, SetupError, "KEY_REFUSED"),
        (402, SetupError, "CREDIT_EXHAUSTED"),
        (403, SetupError, "KEY_REFUSED"),
        (404, SetupError, "MODEL_NOT_FOUND"),
        (408, UnavailableError, "PROVIDER_FAILED"),
        (422, InvalidError, "REQUEST_REFUSED"),
        (429, UnavailableError, "RATE_LIMITED"),
        (500, UnavailableError, "PROVIDER_FAILED"),
        (503, UnavailableError, "PROVIDER_FAILED"),
        (529, UnavailableError, "PROVIDER_FAILED"),
    ],
)
async def test_each_status_is_a_decision_and_never_shows_the_key(
    server: FakeOpenAI, status: int, kind: type[DaycareError], code: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server.enqueue(f"bad key {SECRET}\nforged line", status=status)
    async with provider(server.base_url) as made:
        error = await failure(made)
    assert (type(error), error.code) == (kind, code)
    shown = "".join(traceback.format_exception(error)) + error.hint + repr(made) + caplog.text
    assert SECRET not in shown
    assert "\n" not in str(error)


async def test_a_refused_key_names_the_command_that_replaces_it(server: FakeOpenAI) -> None:
    server.api_key = "another"
    async with provider(server.base_url) as made, provider(server.base_url, key=None) as keyless:
        refused, missing = await failure(made), await failure(keyless)
    assert refused.hint == missing.hint == "daycare keys add fake"
    assert "missing" in str(missing)


async def test_a_key_that_no_header_can_hold_is_refused_unsent_and_unshown(server: FakeOpenAI) -> None:
    async with provider(server.base_url, key="sk-\r\nX-Evil: 1") as made:
        error = await failure(made)
    assert error.code == "KEY_REFUSED"
    assert "Evil" not in "".join(traceback.format_exception(error))
    assert not server.history


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"Retry-After": "-3"}, 0.0),
        ({"Retry-After": "1e300"}, 86_400.0),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Fri, 01 Jan 2027 00:01:00 GMT", "Date": "Fri, 01 Jan 2027 00:00:00 GMT"}, 60.0),
        ({"Retry-After": "Fri, 01 Jan 2027 00:01:00 GMT"}, None),
        ({}, None),
    ],
)
async def test_retry_after_is_read_in_seconds(
    server: FakeOpenAI, headers: dict[str, str], seconds: float | None
) -> None:
    server.enqueue("slow down", status=429, headers=headers)
    async with provider(server.base_url) as made:
        assert (await failure(made)).retry_after_s == seconds


async def test_nobody_listening_is_unavailable() -> None:
    with trio.socket.socket() as free:
        await free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with provider(f"http://127.0.0.1:{port}/v1") as made:
        error = await failure(made)
    assert (type(error), error.code) == (UnavailableError, "PROVIDER_UNREACHABLE")


@pytest.mark.parametrize(
    "url", ["", "ftp://x/v1", "http://", "nonsense", "http://u:p4ss@h/v1", "http://[::1", "http://h:x"]
)
def test_a_wrong_base_url_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(InvalidError) as caught:
        OpenAIProvider(ProviderConfig(name="mine", kind="openai", base_url=url))
    assert caught.value.code == "BASE_URL_INVALID"
    assert "p4ss" not in str(caught.value)


def test_an_unknown_option_is_refused_at_the_start() -> None:
    with pytest.raises(InvalidError, match="temprature"):
        OpenAIProvider(ProviderConfig(name="openai", kind="openai", options={"temprature": 1}))
