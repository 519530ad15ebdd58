"""The provider of Anthropic's protocol against the fake server, over real sockets."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from daycare.base.errors import DaycareError, InvalidError, SetupError, UnavailableError
from daycare.base.limits import MODEL_FIRST_TOKEN_S, MODEL_OUTPUT_TOKENS, MODEL_THOUGHT_MAX_CHARS, REPLY_MAX_CHARS
from daycare.base.messages import File, Image, Message, Text, Thinking, ToolCall, ToolResult
from daycare.inference.anthropic import AnthropicProvider, plugin
from daycare.plugin import OutputSpec, ProviderConfig
from daycare.testing.anthropic_server import FakeAnthropic, signature
from daycare.testing.model_server import ScriptedAnswer, ScriptedCall, web_page
from tests.inference.wire import REMIND, config, failure, request, run, user

SECRET = "sk-very-secret-123"
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 2048}}


@pytest.fixture
async def server(nursery: trio.Nursery) -> AsyncIterator[FakeAnthropic]:
    async with FakeAnthropic.serve(nursery) as server:
        yield server


@asynccontextmanager
async def provider(server: FakeAnthropic, key: str | None = SECRET, **options: Any) -> AsyncIterator[AnthropicProvider]:
    made = AnthropicProvider(config("anthropic", server.base_url, key, **options))
    try:
        yield made
    finally:
        await made.aclose()


def thought(words: str) -> Thinking:
    return Thinking("anthropic", {"type": "thinking", "thinking": words, "signature": signature(words)})


def called(*ids: str, name: str = "remind") -> tuple[ToolCall, ...]:
    return tuple(ToolCall(id_, name, {"after_s": 1}) for id_ in ids)


def results(*ids: str) -> Message:
    return Message("tool", tuple(ToolResult(call_id=id_, name="remind", text=f"ok {id_}") for id_ in ids))


def stream(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def ended(reason: str | None = "end_turn") -> list[dict[str, Any]]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}}, {"type": "message_stop"}]


def words(text: str, index: int = 0) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": text})


def tool(raw: str, index: int = 0) -> list[dict[str, Any]]:
    start = {"type": "tool_use", "id": f"t{index}", "name": "remind", "input": {}}
    return block(index, start, {"type": "input_json_delta", "partial_json": raw})


# -- what is sent ----------------------------------------------------------------------------------------------------


def test_plugin_offers_the_kind_anthropic_and_knows_its_server() -> None:
    made = plugin.providers["anthropic"](ProviderConfig(name="anthropic", kind="anthropic"))
    here = AnthropicProvider(config("anthropic", "http://127.0.0.1:9/v1/"))
    assert (made.name, made.needs_key, here.needs_key) == ("anthropic", True, False)
    assert here.server.url == "http://127.0.0.1:9"


async def test_a_conversation_is_what_a_strict_server_accepts(server: FakeAnthropic) -> None:
    """Consecutive messages of one side are merged, results come first, blank texts are left out."""
    asked = request(
        Message("assistant", (Text("hello again"),)),
        user("go"),
        user("now"),
        Message("assistant", (Text(" \n"), *called("a", "b"))),
        Message("tool", (ToolResult(call_id="a", name="remind", text="no such time", status="error"),)),
        user("wait"),
        Message("tool", (ToolResult(call_id="b", name="remind", text="", status="uncertain"),)),
        user("hurry"),
        Message("assistant", ()),
        user(" "),
        tools=(REMIND,),
    )
    async with provider(server, body={"metadata": {"user_id": "u"}}) as made:
        await run(made, asked)
    got = server.history[0]
    assert (got.headers["x-api-key"], got.headers["anthropic-version"]) == (SECRET, "2023-06-01")
    assert [message["role"] for message in got.body["messages"]] == ["user", "assistant", "user", "assistant", "user"]
    last = got.body["messages"][-1]["content"]
    assert [part["type"] for part in last] == ["tool_result", "tool_result", "text", "text", "text"]
    assert (last[0]["content"], last[0]["is_error"]) == ("no such time", True)
    assert last[1]["content"].startswith("Uncertain: ")
    assert got.body["tools"][0]["input_schema"] == {"type": "object"}
    assert (got.body["max_tokens"], got.body["metadata"]) == (MODEL_OUTPUT_TOKENS, {"user_id": "u"})


async def test_ids_of_other_servers_become_plain_and_unique(server: FakeAnthropic) -> None:
    asked = request(
        user("go"),
        Message("assistant", called("functions.x:0", "functions.x_0")),
        results("functions.x:0", "functions.x_0"),
        Message("assistant", called("functions.x:0")),
        results("functions.x:0"),
    )
    async with provider(server) as made:
        await run(made, asked)
    assert len(server.history) == 1


async def test_the_prompt_is_cached_in_three_pieces(server: FakeAnthropic) -> None:
    asked = request(user("go"), Message("assistant", called("a")), results("a"), tools=(REMIND, REMIND_TOO))
    async with provider(server) as made:
        await run(made, asked)
        await run(made, request(Message("user", ())))
    body = server.history[0].body
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
    assert body["system"][-1]["cache_control"] == {"type": "ephemeral"}
    assert str(body).count("cache_control") == 3
    assert "cache_control" in body["messages"][-1]["content"][-1]


REMIND_TOO = type(REMIND)(name="remind_too", description="", schema={"type": "object"})


async def test_images_are_sent_and_files_that_nobody_resolved_are_not(server: FakeAnthropic) -> None:
    file = File(id=1, name="a.pdf", media_type="application/pdf", size=3)
    async with provider(server) as made:
        await run(made, request(Message("user", (Text("look"), Image("image/png", b"\x89PNG"), file))))
    picture = server.history[0].body["messages"][0]["content"][1]
    data = b64encode(b"\x89PNG").decode()
    assert picture["source"] == {"type": "base64", "media_type": "image/png", "data": data}
    assert len(server.history[0].body["messages"][0]["content"]) == 2


async def test_structured_output_asks_for_a_schema_that_the_api_takes(server: FakeAnthropic) -> None:
    inner = {"type": "object", "properties": {"minimum": {"type": "integer", "minimum": 1}}, "required": ["minimum"]}
    output = OutputSpec(name="facts", schema={"type": "object", "properties": {"a": inner}, "required": ["a"]})
    server.enqueue('{"a": {"minimum": 2}}')
    async with provider(server, body={"output_config": {"effort": "low"}}) as made:
        _, done = await run(made, request(output=output))
    config = server.history[0].body["output_config"]
    assert config["effort"] == "low"
    assert config["format"]["schema"]["properties"]["a"] == {
        "type": "object",
        "properties": {"minimum": {"type": "integer"}},
        "required": ["minimum"],
        "additionalProperties": False,
    }
    assert json.loads(done.message.text) == {"a": {"minimum": 2}}


async def test_thinking_makes_room_for_itself(server: FakeAnthropic) -> None:
    async with provider(server, body=THINKS) as made:
        await run(made, request(temperature=0.5, max_output_tokens=1000))
    body = server.history[0].body
    assert (body["max_tokens"], "temperature" in body) == (3048, False)


async def test_thoughts_of_this_turn_come_back_as_they_were_and_older_ones_do_not(server: FakeAnthropic) -> None:
    server.enqueue("", thinking="a tool would help", tool_calls=[("remind", {"after_s": 1})])
    async with provider(server, body=THINKS) as made:
        _, first = await run(made, request(user("go"), tools=(REMIND,)))
        assert first.message.parts[0] == thought("a tool would help")
        call = first.message.tool_calls[0]
        redacted = Thinking("anthropic", {"type": "redacted_thinking", "data": "xyz"})
        foreign = Thinking("openai", {"reasoning_content": "?"})
        turn = [
            user("go"),
            Message("assistant", (thought("old"), Text("done"))),
            Message("assistant", (thought("nothing else"),)),
            user("again"),
            Message("assistant", (foreign, first.message.parts[0], redacted, *called(call.id))),
            results(call.id),
            user("this came while the turn ran"),
        ]
        await run(made, request(*turn, tools=(REMIND,)))
    sent = server.history[1].body["messages"]
    assert sent[1]["content"] == [{"type": "text", "text": "done"}]
    assert sent[3]["content"][:2] == [thought("a tool would help").data, redacted.data]
    assert sent[3]["content"][2]["type"] == "tool_use"


# -- what comes back -------------------------------------------------------------------------------------------------


async def test_text_comes_in_pieces_and_counts_hold_the_whole_prompt(
    server: FakeAnthropic, autojump_clock: trio.testing.MockClock
) -> None:
    server.enqueue(
        "Grüße aus Málaga, 你好!", thinking="Hm, well", cached_tokens=700, cache_write_tokens=30, piece_delay_s=1.0
    )
    async with provider(server) as made:
        pieces, done = await run(made, request(now_ms=42))
    assert len(pieces) > 2
    assert "".join(pieces) == done.message.text == "Grüße aus Málaga, 你好!"
    assert (done.finish, done.model, done.message.at_ms) == ("stop", "fake-small", 42)
    assert (done.usage.input_tokens, done.usage.cached_tokens, done.usage.cache_write_tokens) == (730, 700, 30)
    assert done.usage.output_tokens == 4


async def test_parallel_calls_are_whole_and_in_order(server: FakeAnthropic) -> None:
    first, second = {"after_s": 600, "text": "Tee, heiß"}, {"after_s": 1.5, "text": "x" * 100}
    server.enqueue("Sure.", tool_calls=[("remind", first), ("remind", second), ("remind", {})])
    async with provider(server) as made:
        pieces, done = await run(made)
    assert (pieces, done.finish) == (["Sure."], "tools")
    assert [call.arguments for call in done.message.tool_calls] == [first, second, {}]


async def test_several_texts_are_told_as_the_message_joins_them(server: FakeAnthropic) -> None:
    server.enqueue(raw=stream(*words("one"), *words("", 1), *words("two", 2), *ended()))
    async with provider(server) as made:
        pieces, done = await run(made)
    assert "".join(pieces) == done.message.text == "one\ntwo"


@pytest.mark.parametrize(
    ("reason", "finish", "calls"),
    [
        ("end_turn", "tools", 1),
        ("stop_sequence", "tools", 1),
        ("tool_use", "tools", 1),
        ("pause_turn", "tools", 1),
        ("never_seen", "tools", 1),
        (None, "tools", 1),
        ("max_tokens", "length", 0),
        ("model_context_window_exceeded", "length", 0),
        ("refusal", "refused", 0),
    ],
)
async def test_each_reason_is_one_of_ours(server: FakeAnthropic, reason: str | None, finish: str, calls: int) -> None:
    server.enqueue(raw=stream(*words("so far"), *tool("{}", 1), *ended(reason)))
    server.enqueue(raw=stream(*words("so far"), *ended(reason)))
    async with provider(server) as made:
        _, done = await run(made)
        _, plain = await run(made)
    assert (done.finish, len(done.message.tool_calls)) == (finish, calls)
    assert plain.finish == ("stop" if finish == "tools" else finish)


async def test_what_may_be_new_is_left_out(server: FakeAnthropic) -> None:
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    cited = {"type": "citations_delta", "citation": {}}
    server.enqueue(
        raw=stream(
            {"type": "message_start", "message": {"model": "other", "usage": {"input_tokens": 5}}},
            {"type": "fireworks", "colour": "red"},
            *block(0, searched, {"type": "input_json_delta", "partial_json": "{}"}),
            *block(1, {"type": "web_search_tool_result", "content": []}),
            *block(2, {"type": "text", "text": "fo"}, cited, {"type": "text_delta", "text": "und"}),
            *ended(),
        )
    )
    async with provider(server) as made:
        _, done = await run(made)
    assert (done.message.parts, done.model, done.usage.input_tokens) == ((Text("found"),), "other", 5)


THOUGHT = {"type": "thinking", "thinking": "", "signature": ""}
BROKEN: dict[str, bytes] = {
    "arguments are no JSON": stream(*tool('{"after_s": 1'), *ended("tool_use")),
    "arguments are a list": stream(*tool("[1]"), *ended("tool_use")),
    "arguments of the wrong type": stream(
        *block(0, {"type": "tool_use", "id": "t", "name": "n", "input": [1]}), *ended("tool_use")
    ),
    "tool calls announced and none sent": stream(*ended("tool_use")),
    "a piece without a block": stream({"type": "content_block_delta", "index": 0, "delta": {}}, *ended()),
    "a piece of another block": stream(
        *words("a")[:1], {"type": "content_block_stop", "index": 1}, *words("b")[1:], *ended()
    ),
    "words of another block": stream(words("a")[0], words("b", 1)[1], *words("a")[1:], *ended()),
    "a block within a block": stream(*words("a")[:1], *words("b", 1), *ended()),
    "an end within a block": stream(*words("a")[:2], *ended()),
    "a call without a name": stream(*block(0, {"type": "tool_use", "id": "t", "input": {}}), *ended()),
    "what may be a call": stream(
        *block(0, {"type": "tool_use_2", "id": "t", "name": "n", "input": {}}), *ended("tool_use")
    ),
    "an unknown piece of a call": stream(*block(0, tool("")[0]["content_block"], {"type": "patch"}), *ended()),
    "words in a thought": stream(*block(0, THOUGHT, {"type": "text_delta", "text": "a"}), *ended()),
    "a name that lies": b'event: ping\ndata: {"type":"message_stop"}\n\n',
    "no JSON": b"event: ping\ndata: <html>\n\n",
    "a wrong type": b'data: {"type": 7}\n\n',
    "no UTF-8": b"data: \xff\xfe\n\n",
    "too deep": b"data: " + b"[" * 5000 + b"\n\n",
    "a frame too large": b"data: " + b"x" * 3_000_000,
}


@pytest.mark.parametrize("what", sorted(BROKEN))
async def test_garbage_is_an_error_of_ours(server: FakeAnthropic, what: str) -> None:
    server.enqueue(raw=BROKEN[what])
    async with provider(server) as made:
        error = await failure(made)
        assert (type(error), error.code) == (UnavailableError, "MODEL_GARBLED")
        _, done = await run(made)  # and the provider is as good as before
    assert done.message.text == "echo: hi"


@pytest.mark.parametrize("raw", [b"", stream(*words("all but the end")), stream(*words("a"), ended()[0])])
async def test_a_stream_without_its_end_is_cut(server: FakeAnthropic, raw: bytes) -> None:
    server.enqueue(raw=raw)
    async with provider(server) as made:
        assert (await failure(made)).code == "STREAM_CUT"


async def test_ten_megabytes_of_text_end_at_the_bound_and_half_a_call_is_dropped(server: FakeAnthropic) -> None:
    start, delta, _ = words("y" * 10_000)
    server.enqueue(raw=stream(start) + stream(delta) * 1_000)
    server.enqueue(raw=stream(*words("I call"), *tool('{"text": "' + "z" * REPLY_MAX_CHARS, 1)[:2]))
    async with provider(server) as made:
        pieces, done = await run(made)
        _, cut = await run(made)
    assert done.finish == cut.finish == "length"
    assert len("".join(pieces)) == len(done.message.text) == REPLY_MAX_CHARS
    assert (cut.message.text, cut.message.tool_calls) == ("I call", ())


async def test_a_thought_without_end_ends(server: FakeAnthropic) -> None:
    delta = {"type": "thinking_delta", "thinking": "hm " * 50_000}
    start, piece, _ = block(0, THOUGHT, delta)
    server.enqueue(raw=stream(start) + stream(piece) * (MODEL_THOUGHT_MAX_CHARS // 100_000))
    server.enqueue(raw=stream(start) + stream({"type": "ping"}) * 20_000)
    async with provider(server) as made:
        for _ in range(2):
            _, done = await run(made)
            assert (done.finish, done.message.parts) == ("length", ())


async def test_pings_do_not_keep_a_silent_model_alive(
    server: FakeAnthropic, autojump_clock: trio.testing.MockClock
) -> None:
    server.enqueue(raw=stream({"type": "ping"}) * 10_000, byte_delay_s=1.0)
    async with provider(server) as made:
        error = await failure(made)
    assert error.code == "MODEL_SILENT"
    assert trio.current_time() == pytest.approx(MODEL_FIRST_TOKEN_S, abs=1.0)


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (
            ScriptedAnswer(status=400, text="prompt is too long: 210000 tokens > 200000"),
            InvalidError,
            "CONTEXT_OVERFLOW",
        ),
        (ScriptedAnswer(status=400, text="Your credit balance is too low"), SetupError, "CREDIT_EXHAUSTED"),
        (ScriptedAnswer(status=400, text="tools.0: wrong"), InvalidError, "REQUEST_REFUSED"),
        (ScriptedAnswer(status=401, text="invalid x-api-key"), SetupError, "KEY_REFUSED"),
        (ScriptedAnswer(status=404, text="model: nope"), SetupError, "MODEL_NOT_FOUND"),
        (ScriptedAnswer(status=413, text="Request exceeds the maximum size"), InvalidError, "CONTEXT_OVERFLOW"),
        (ScriptedAnswer(status=429, text="slow down"), UnavailableError, "RATE_LIMITED"),
        (ScriptedAnswer(status=500, text="oops"), UnavailableError, "PROVIDER_FAILED"),
        (ScriptedAnswer(status=529, text="Overloaded"), UnavailableError, "PROVIDER_FAILED"),
        (web_page(), UnavailableError, "MODEL_GARBLED"),
        (web_page(502), UnavailableError, "PROVIDER_FAILED"),
    ],
)
async def test_each_refusal_is_a_decision(
    server: FakeAnthropic, answer: ScriptedAnswer, kind: type[DaycareError], code: str
) -> None:
    server.enqueue(answer)
    async with provider(server) as made:
        error = await failure(made)
    assert (type(error), error.code) == (kind, code)


@pytest.mark.parametrize(
    ("kind", "message", "code"),
    [
        ("overloaded_error", "Overloaded", "MODEL_FAILED"),
        ("rate_limit_error", "slow down", "RATE_LIMITED"),
        ("invalid_request_error", "prompt is too long", "CONTEXT_OVERFLOW"),
    ],
)
async def test_an_error_within_the_reply_is_one(server: FakeAnthropic, kind: str, message: str, code: str) -> None:
    error = {"type": "error", "error": {"type": kind, "message": f"{message} {SECRET}"}}
    server.enqueue(raw=stream(*words("half"), error))
    async with provider(server) as made:
        failed = await failure(made)
    assert failed.code == code
    assert message in failed.message
    assert SECRET not in failed.message


async def test_models_are_listed_page_by_page(server: FakeAnthropic) -> None:
    server.models = tuple(f"claude-{number:04}" for number in range(2_345))
    async with provider(server) as made:
        assert await made.models() == list(server.models)
    assert len(server.history) == 3


async def test_a_list_of_models_without_end_ends(server: FakeAnthropic) -> None:
    page = {"data": [{"id": "same"}], "has_more": True, "last_id": "same"}
    server._list = lambda query: ScriptedAnswer(  # type: ignore[method-assign]
        raw=json.dumps(page).encode(), headers={"Content-Type": "application/json"}
    )
    async with provider(server) as made:
        assert await made.models() == ["same"]


async def test_ids_that_the_request_knows_are_made_new(server: FakeAnthropic) -> None:
    server.enqueue(
        tool_calls=[
            ScriptedCall("remind", {}, id="a"),
            ScriptedCall("remind", {}, id="b"),
            ScriptedCall("remind", {}, id="b"),
        ]
    )
    async with provider(server) as made:
        _, done = await run(made, request(user("go"), Message("assistant", called("a")), results("a")))
    assert len({"a", *(call.id for call in done.message.tool_calls)}) == 4
