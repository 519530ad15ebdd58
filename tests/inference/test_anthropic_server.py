"""The fake of Anthropic's server that is shipped for tests of plugins: as strict as the real one."""

from typing import Any

import httpx
import pytest

from daycare.testing.anthropic_server import FakeAnthropic, signature

HEADERS = {"anthropic-version": "2023-06-01"}
USE = {"type": "tool_use", "id": "t1", "name": "remind", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}
TOOL = {"name": "remind", "input_schema": {"type": "object"}}
CACHED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}
THINK = {"type": "enabled", "budget_tokens": 1024}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) if blocks else "hi"}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks) if blocks else "hello"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


async def ask(server: FakeAnthropic, *messages: dict[str, Any], **rest: Any) -> httpx.Response:
    body = {"model": "fake-small", "max_tokens": 2000, "messages": messages, **rest}
    async with httpx.AsyncClient(trust_env=False, verify=False, headers=HEADERS) as client:
        return await client.post(server.base_url + "/v1/messages", json=body)


REFUSED: dict[str, tuple[list[dict[str, Any]], dict[str, Any]]] = {
    "no max_tokens": ([user()], {"max_tokens": None}),
    "an unknown field": ([user()], {"stream_options": {}}),
    "no messages": ([], {}),
    "an assistant first": ([assistant(), user()], {}),
    "two of one side": ([user(), user()], {}),
    "an assistant last": ([user(), assistant()], {}),
    "blank text": ([user(text(" \n"))], {}),
    "a result without its call": ([user(RESULT)], {}),
    "a call without its result": ([user(), assistant(USE), user()], {}),
    "a result after words": ([user(), assistant(USE), user(text("so"), RESULT)], {}),
    "an id used twice": ([user(), assistant(USE), user(RESULT), assistant(USE), user(RESULT)], {}),
    "an id with a dot": ([user(), assistant(USE | {"id": "a.b"}), user(RESULT | {"tool_use_id": "a.b"})], {}),
    "five breakpoints": ([user(*[CACHED] * 5)], {}),
    "a broken image": ([user({"type": "image", "source": {"media_type": "image/png", "data": "%"}})], {}),
    "a call of a tool that is not declared": ([user(), assistant(USE), user(RESULT)], {}),
    "a choice among no tools": ([user()], {"tool_choice": {"type": "none"}}),
    "a tool without schema": ([user()], {"tools": [{"name": "remind"}]}),
    "a temperature for a thinker": ([user()], {"thinking": THINK, "temperature": 0.1}),
    "a budget above the limit": ([user()], {"thinking": THINK, "max_tokens": 1024}),
    "a thought that was dropped": ([user(), assistant(USE), user(RESULT)], {"thinking": THINK}),
    "a thought of another": (
        [user(), assistant({"type": "thinking", "thinking": "a", "signature": signature("b")}, USE), user(RESULT)],
        {"thinking": THINK},
    ),
    "an open schema": (
        [user()],
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}}}}},
    ),
}


@pytest.mark.parametrize("what", sorted(REFUSED))
async def test_it_refuses_what_the_real_server_refuses(what: str) -> None:
    messages, rest = REFUSED[what]
    async with FakeAnthropic.serve() as server:
        answer = await ask(server, *messages, **rest)
        assert (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")
        good = await ask(server, user(), assistant(USE), user(RESULT, text("so")), tools=[TOOL])
        assert good.status_code == 200


async def test_it_answers_whole_or_as_a_stream_of_named_events() -> None:
    async with FakeAnthropic.serve() as server:
        server.enqueue("Sure.", thinking="hm", tool_calls=[("remind", {"a": 1})])
        whole = (await ask(server, user())).json()
        streamed = await ask(server, user(text("one two")), stream=True)
        server.api_key = "right"
        assert (await ask(server, user())).status_code == 401
    assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use"]
    assert (whole["content"][2]["input"], whole["stop_reason"]) == ({"a": 1}, "tool_use")
    assert streamed.headers["content-type"] == "text/event-stream"
    names = [line.removeprefix("event: ") for line in streamed.text.splitlines() if line.startswith("event: ")]
    assert names[:3] == ["message_start", "ping", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
