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


async def test_an_answer_that_is_late_is_an_error_and_no_empty_answer(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daycare.features.openai.talking.API_WAIT_MAX_S", 0.05)
    api.echo.hold = trio.Event()
    answer = await api.client.post(ROUTE, json=SAID)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "ANSWER_LATE")
    async with api.client.stream("POST", ROUTE, json=SAID | {"stream": True}) as stream:
        lines = [line async for line in stream.aiter_lines() if line]
    assert "ANSWER_LATE" in lines[-1] and "[DONE]" not in lines[-1]
    api.echo.hold.set()
