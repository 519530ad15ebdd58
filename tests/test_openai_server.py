"""The fake model server that is shipped for tests of plugins, and its demo model."""

import signal
import subprocess
import sys
from functools import partial
from typing import Any

import httpx
import trio
import trio.testing

from daycare.testing.openai_server import FakeOpenAI, demo

REMIND = {"type": "function", "function": {"name": "remind", "description": "", "parameters": {"type": "object"}}}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def ask(server: FakeOpenAI, *messages: dict[str, Any], **rest: Any) -> httpx.Response:
    body = {"model": "fake-small", "messages": messages, **rest}
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        return await client.post(server.base_url + "/chat/completions", json=body)


async def test_the_script_is_followed_in_order_then_the_default_answers() -> None:
    async with FakeOpenAI.serve() as server:
        server.enqueue("first")
        server.enqueue("slow down", status=429, headers={"Retry-After": "7"})
        first, second, third = [await ask(server, user("hi")) for _ in range(3)]
    assert first.json()["choices"][0]["message"]["content"] == "first"
    assert (second.status_code, second.headers["retry-after"]) == (429, "7")
    assert second.json()["error"]["message"] == "slow down"
    assert third.json()["choices"][0]["message"]["content"] == "echo: hi"
    assert [got.body["messages"] for got in server.history] == [[user("hi")]] * 3


async def test_a_stream_has_several_frames_and_counts_only_when_asked() -> None:
    async with FakeOpenAI.serve() as server:
        plain = await ask(server, user("one two"), stream=True)
        counted = await ask(server, user("one two"), stream=True, stream_options={"include_usage": True})
    assert plain.headers["content-type"] == "text/event-stream"
    assert plain.text.count("data: ") >= 5
    assert plain.text.endswith("data: [DONE]\n\n")
    assert "usage" not in plain.text
    assert '"prompt_tokens":2' in counted.text


async def test_it_refuses_what_the_real_server_refuses() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "remind", "arguments": "{}"}}
    calls = {"role": "assistant", "content": None, "tool_calls": [call]}
    result = {"role": "tool", "tool_call_id": "x", "content": "ok"}
    async with FakeOpenAI.serve() as server:
        refused = [(user("hi"), result), (calls, user("hi")), (calls,), (), ({"role": "cat", "content": "meow"},)]
        for messages in refused:
            assert (await ask(server, *messages)).status_code == 400
        assert (await ask(server, user("hi"), calls, result)).status_code == 200
        server.api_key = "right"
        assert (await ask(server, user("hi"))).status_code == 401


async def test_a_client_that_speaks_no_http_does_no_harm() -> None:
    async with FakeOpenAI.serve() as server:
        port = int(server.base_url.split(":")[2].split("/")[0])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"\x16\x03\x01 hello\r\n\r\n")
            assert await stream.receive_some() == b""
        assert (await ask(server, user("hi"))).status_code == 200


async def test_the_demo_model_calls_remind_and_tells_its_result(autojump_clock: trio.testing.MockClock) -> None:
    async with FakeOpenAI.serve(reply=demo) as server:
        asked = user("[09:00] remind me in 5 seconds to stretch")
        message = (await ask(server, asked, tools=[REMIND])).json()["choices"][0]["message"]
        call = message["tool_calls"][0]
        assert call["function"]["arguments"] == '{"after_s":5,"text":"stretch"}'
        result = {"role": "tool", "tool_call_id": call["id"], "content": "due soon"}
        done = (await ask(server, asked, message, result, tools=[REMIND])).json()["choices"][0]
        without = (await ask(server, asked)).json()["choices"][0]
    assert "due soon" in done["message"]["content"]
    assert without["finish_reason"] == "stop"


async def test_by_hand_it_prints_its_url_and_ends_quietly_on_interrupt() -> None:
    command = [sys.executable, "-W", "error", "-m", "daycare.testing.openai_server", "--port", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    async with trio.open_nursery() as nursery:
        process = await nursery.start(partial(trio.run_process, command, **pipes))
        with trio.fail_after(20):
            printed = bytearray()
            while not printed.endswith(b"\n"):
                printed += await process.stdout.receive_some()
            async with httpx.AsyncClient(trust_env=False, verify=False) as client:
                assert (await client.get(printed.decode().strip() + "/models")).status_code == 200
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 0
