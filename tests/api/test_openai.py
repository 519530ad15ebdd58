"""Who speaks OpenAI's protocol and does not get the answer: it is neither lost nor made up."""

import json
from typing import Any

import pytest
import trio

from tests.api.conftest import ANN, Api

ROUTE = "/openai/v1/chat/completions"
SAID = {"model": "daycare", "messages": [{"role": "user", "content": "hi"}]}


async def test_who_goes_away_in_the_midst_of_a_stream_finds_the_answer_later(api: Api) -> None:
    api.echo.hold = trio.Event()
    wish = json.dumps(SAID | {"stream": True}).encode()
    head = f"POST {ROUTE} HTTP/1.1\r\nHost: daycare\r\nContent-Length: {len(wish)}\r\n\r\n".encode()
    async with await trio.open_unix_socket(str(api.socket)) as client:
        await client.send_all(head + wish)
        came = b""
        while b'"role":"assistant"' not in came:
            came += await client.receive_some()
        await api.echo.started.wait()
    api.echo.hold.set()
    replies: list[Any] = []
    while not replies:
        replies = (await api.call("GET", "/v1/replies", path=ANN))["replies"]
    assert [each["text"] for each in replies] == ["echo: hi"]


async def test_a_retry_with_the_same_key_gets_the_answer_and_asks_nobody_again(api: Api) -> None:
    for stream in (True, False):
        api.echo.hold, api.echo.started = trio.Event(), trio.Event()
        headers = {"Idempotency-Key": f"key-{stream}"}
        with trio.CancelScope() as impatient:
            async with trio.open_nursery() as nursery:

                async def ask(headers: dict[str, str] = headers, stream: bool = stream) -> None:
                    await api.client.post(ROUTE, json=SAID | {"stream": stream}, headers=headers)

                nursery.start_soon(ask)
                await api.echo.started.wait()
                impatient.cancel()
        api.echo.hold.set()
        answer = await api.client.post(ROUTE, json=SAID, headers=headers)
        assert answer.json()["choices"][0]["message"]["content"] == "echo: hi"
    turns = api.store._reader.execute("SELECT count(*) FROM turns").fetchall()
    assert turns == [(2,)]


async def test_who_goes_away_from_a_response_finds_it_by_its_id(api: Api) -> None:
    api.echo.hold = trio.Event()
    wish = json.dumps({"model": "daycare", "input": "hi", "stream": True}).encode()
    head = f"POST /openai/v1/responses HTTP/1.1\r\nHost: daycare\r\nContent-Length: {len(wish)}\r\n\r\n".encode()
    async with await trio.open_unix_socket(str(api.socket)) as client:
        await client.send_all(head + wish)
        came = b""
        while b"response.content_part.added" not in came:
            came += await client.receive_some()
    response_id = came.partition(b'"id":"resp_')[2].partition(b'"')[0].decode()
    route = f"/openai/v1/responses/resp_{response_id}"
    assert (await api.call("GET", route))["status"] == "in_progress"
    api.echo.hold.set()
    while (found := await api.call("GET", route))["status"] == "in_progress":
        await trio.lowlevel.checkpoint()
    assert found["output"][0]["content"][0]["text"] == "echo: hi"


async def test_an_answer_that_is_late_is_an_error_and_no_empty_answer(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for waits in ("daycare.features.openai.talking", "daycare.api.following"):
        monkeypatch.setattr(f"{waits}.API_WAIT_MAX_S", 0.05)
    api.echo.hold = trio.Event()
    answer = await api.client.post(ROUTE, json=SAID)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ANSWER_LATE")
    async with api.client.stream("POST", ROUTE, json=SAID | {"stream": True}) as stream:
        lines = [line async for line in stream.aiter_lines() if line]
    assert "ANSWER_LATE" in lines[-1] and "[DONE]" not in lines[-1]
    api.echo.hold.set()
