"""The fake servers of `turn`, in processes of their own, so that what they cost is not counted.

In the child: `python -m tests.bench.turn_servers model` or `telegram PEOPLE TURNS`. It prints one line of JSON that
says where it listens. The model answers each call at once with twenty words as a stream; the model `ASKS_FOR_A_TOOL`
asks for the tool `now` first, and each for what is wanted by `use TOOL {...} please`. It counts the bodies it gets.
With Telegram's fake the people are in the same process: what is written to its standard input lets them begin, and then
it prints how long each waited.
"""

import json
import re
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

import httpx
import trio

from daycare.testing.http_server import HttpRequest, ServerConnection
from daycare.testing.model_server import ScriptedAnswer, ScriptedCall
from daycare.testing.openai_server import FakeOpenAI

if TYPE_CHECKING:
    from daycare_plugins.telegram.testing.world import FakeMessage

_ANSWER: Final = " ".join(["I", "see", "what", "you", "mean"] * 4)
_JSON: Final = {"Content-Type": "application/json"}
_DRIVE_S: Final = 300.0
FIRST_PERSON: Final = 1_000
ASKS_FOR_A_TOOL: Final = "fake-tool"
_WISH: Final = re.compile(r"use (\w+) (\{.*?\}) please")  # in JSON: what a person wants to be called, and with what


class Model:
    """A model server in another process, whose provider's address is `url`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._origin = url.removesuffix("/v1")

    async def sent(self) -> tuple[int, int]:
        """Return how many calls there were, and the bytes of their bodies."""
        found = await self._get("/bench/sent")
        return int(found["calls"]), int(found["bytes"])

    async def last(self) -> dict[str, Any]:
        """Return the last call's body."""
        return await self._get("/bench/last")

    async def _get(self, path: str) -> dict[str, Any]:
        async with httpx.AsyncClient(verify=False, trust_env=False) as client:
            found: dict[str, Any] = (await client.get(self._origin + path)).raise_for_status().json()
            return found


class Telegram:
    """Telegram's fake with its people, in another process."""

    def __init__(self, process: trio.Process, found: dict[str, str]) -> None:
        self._process = process
        self.base_url, self.base_file_url, self.token = found["url"], found["files"], found["token"]

    async def drive(self) -> list[float]:
        """Let people write and wait; return the seconds that each answer took."""
        assert self._process.stdin is not None
        await self._process.stdin.send_all(b"go\n")
        found: list[float] = await _line(self._process)
        return found


@asynccontextmanager
async def model() -> AsyncIterator[Model]:
    """Run a model server."""
    async with _child("model") as process:
        yield Model((await _line(process))["url"])


@asynccontextmanager
async def telegram(people: int, turns: int) -> AsyncIterator[Telegram]:
    """Run Telegram's fake with so many people, who will write so many messages each whenever they are driven."""
    async with _child("telegram", str(people), str(turns)) as process:
        yield Telegram(process, await _line(process))


@asynccontextmanager
async def _child(*arguments: str) -> AsyncIterator[trio.Process]:
    command = [sys.executable, "-m", f"{__package__}.turn_servers", *arguments]
    process = await trio.lowlevel.open_process(command, stdin=-1, stdout=-1)
    try:
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()


async def _line(process: trio.Process) -> Any:
    """Return the next line that a child prints, as JSON."""
    assert process.stdout is not None
    text = b""
    with trio.fail_after(_DRIVE_S):
        while not text.endswith(b"\n"):
            piece = await process.stdout.receive_some(65_536)
            if not piece:
                raise RuntimeError(f"a fake server ended early; it said {text!r}")
            text += piece
    return json.loads(text)


# -- in the child ----------------------------------------------------------------------------------------------------


class _Counting(FakeOpenAI):
    """Counts what it is sent, and says so when asked."""

    calls = 0
    bytes = 0
    last = b"{}"

    async def _answer(self, connection: ServerConnection, request: HttpRequest) -> bool:
        if request.path == "/bench/sent":
            counted = json.dumps({"calls": self.calls, "bytes": self.bytes}).encode()
            return await connection.answer(200, counted, _JSON)
        if request.path == "/bench/last":
            return await connection.answer(200, self.last, _JSON)
        if request.method == "POST":
            self.calls += 1
            self.bytes += len(request.body)
            self.last = request.body
        self.history.clear()
        return await super()._answer(connection, request)


def _reply(body: dict[str, Any]) -> ScriptedAnswer:
    last = body["messages"][-1]
    if last["role"] == "user" and body.get("tools"):
        if body["model"] == ASKS_FOR_A_TOOL:
            return ScriptedAnswer(tool_calls=(ScriptedCall("now", {}),))
        news = takewhile(lambda it: it["role"] == "user", reversed(body["messages"]))
        wishes = [found for each in news for found in _WISH.findall(json.dumps(each["content"]))[-1:]]
        if wishes:  # the newest: older ones may be among what was recalled
            name, arguments = wishes[0]
            return ScriptedAnswer(tool_calls=(ScriptedCall(name, json.loads(f'"{arguments}"')),))
    return ScriptedAnswer(text=_ANSWER)


async def _serve_model() -> None:
    async with _Counting.serve(reply=_reply) as server:
        _tell({"url": server.base_url})
        await trio.sleep_forever()


async def _serve_telegram(people: str, turns: str) -> None:
    """Serve; for each line of the standard input let all people write, one message after the other."""
    from daycare_plugins.telegram.testing.server import FakeTelegram  # late: the model's server starts without it

    from .turn_home import VARIANTS  # it needs constants of this module

    async with FakeTelegram.serve() as server:
        persons = [server.person(FIRST_PERSON + n, first_name=f"User{n}") for n in range(int(people))]
        texts = [VARIANTS["memory_1k"].texts(number) for number in range(len(persons))]
        waiting: dict[int, trio.Event] = {}

        def answered(message: "FakeMessage") -> None:
            if _ANSWER in message.text and (event := waiting.get(message.chat_id)) is not None:
                event.set()

        server.on_sent.append(answered)

        async def write(number: int, into: list[float]) -> None:
            person = persons[number]
            for turn in range(int(turns)):
                waiting[person.id] = trio.Event()
                begin = time.perf_counter()
                server.say(person, person, texts[number][turn % len(texts[number])])
                await waiting[person.id].wait()
                into.append(time.perf_counter() - begin)

        _tell({"url": server.base_url, "files": server.base_file_url, "token": server.token})
        while await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            took: list[float] = []
            async with trio.open_nursery() as nursery:
                for number in range(len(persons)):
                    nursery.start_soon(write, number, took)
            _tell(took)


def _tell(what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "model":
        trio.run(_serve_model)
    else:
        trio.run(partial(_serve_telegram, *sys.argv[2:]))
