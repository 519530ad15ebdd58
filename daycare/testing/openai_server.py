"""A model server that speaks OpenAI's Chat Completions over a real socket, and says what a test tells it to.

    async with FakeOpenAI.serve() as server:
        server.enqueue(text="Hello.")
        server.enqueue(status=429, headers={"Retry-After": "7"})
        ...  # a provider with base_url=server.base_url
        assert server.history[0].body["messages"][-1]["content"] == "hi"

It is as strict as the real one about the order of tool calls and results. By hand, with a small model that streams
and sets reminders: `python -m daycare.testing.openai_server --port 8123`.
"""

import argparse
import re
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import h11
import msgspec
import trio

from daycare.base.messages import REMINDER

MODELS: Final = ("fake-large", "fake-small")
_BODY_MAX_BYTES: Final = 16 * 1024 * 1024
_HISTORY_MAX: Final = 10_000
_IDLE_S: Final = 300.0


class Call(msgspec.Struct, frozen=True):
    """A tool call of a scripted answer. `arguments` may be a string, to send JSON that is broken."""

    name: str
    arguments: dict[str, Any] | str
    id: str | None = None  # None: a fresh one


class Scripted(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. Seconds are trio's; `cut_after_bytes` counts bytes of the body, then the connection is closed.

    `raw` is a body sent as it stands. A status other than 200 sends `text` as the message of OpenAI's error object.
    `finish` None is `tool_calls` if there are any, else `stop`; "" leaves the reason and `[DONE]` out.
    """

    text: str = ""
    tool_calls: tuple[Call, ...] = ()
    finish: str | None = None
    status: int = 200
    headers: Mapping[str, str] = {}
    delay_s: float = 0.0  # before the status
    piece_delay_s: float = 0.0  # before each frame
    cut_after_bytes: int | None = None
    raw: bytes | None = None


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request, decoded. Header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


def echo(body: dict[str, Any]) -> Scripted:
    """Answer with the last user message."""
    return Scripted(text=f"echo: {_last_user_text(body)}")


class FakeOpenAI:
    """The server. Requests take what was enqueued, in order; then `reply` answers.

    With `api_key` set, requests need it. `with_usage` False leaves the counts of tokens out, as some servers do.
    """

    def __init__(self, port: int, reply: Callable[[dict[str, Any]], Scripted] = echo) -> None:
        self.base_url = f"http://127.0.0.1:{port}/v1"
        self.reply = reply
        self.api_key: str | None = None
        self.with_usage = True
        self.connections = 0  # accepted since the start
        self.history: deque[Received] = deque(maxlen=_HISTORY_MAX)
        self._script: deque[Scripted] = deque()
        self._calls = 0

    @classmethod
    @asynccontextmanager
    async def serve(
        cls,
        nursery: trio.Nursery | None = None,
        *,
        port: int = 0,
        reply: Callable[[dict[str, Any]], Scripted] = echo,
    ) -> AsyncGenerator["FakeOpenAI", None]:
        """Serve on loopback until the block ends; port 0 is a free one. Without `nursery` it opens one of its own."""
        if nursery is None:
            async with trio.open_nursery() as own, cls.serve(own, port=port, reply=reply) as server:
                yield server
            return
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        server = cls(listeners[0].socket.getsockname()[1], reply)
        scope = await nursery.start(server._run, listeners)
        try:
            yield server
        finally:
            scope.cancel()

    def enqueue(
        self, text: str = "", *, tool_calls: Sequence[Call | tuple[str, dict[str, Any] | str]] = (), **rest: Any
    ) -> None:
        """Add an answer to the script; `rest` are fields of `Scripted`."""
        calls = tuple(call if isinstance(call, Call) else Call(*call) for call in tool_calls)
        self._script.append(Scripted(text=text, tool_calls=calls, **rest))

    # -- connections -------------------------------------------------------------------------------------------------

    async def _run(self, listeners: list[trio.SocketListener], task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(trio.serve_listeners, self._connection, listeners)
                task_status.started(scope)

    async def _connection(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        connection = h11.Connection(h11.SERVER)
        try:
            while True:
                request, body = await _receive(connection, stream)
                if request is None or not await self._answer(connection, stream, request, body):
                    return
                connection.start_next_cycle()
        except (trio.BrokenResourceError, trio.TooSlowError, h11.ProtocolError):
            return  # the client went away, or speaks no HTTP

    async def _answer(
        self, connection: h11.Connection, stream: trio.SocketStream, request: h11.Request, raw: bytes
    ) -> bool:
        """Answer one request; return whether the connection can be used again."""
        body, answer = self._choose(request, raw)
        if answer.delay_s:
            await trio.sleep(answer.delay_s)
        streamed = answer.status == 200 and body.get("stream", False) and answer.raw is None
        kind = "text/event-stream" if streamed or answer.raw is not None else "application/json"
        headers = {"Content-Type": kind} | dict(answer.headers)
        head = h11.Response(status_code=answer.status, headers=list(headers.items()))
        await stream.send_all(connection.send(head))
        room = answer.cut_after_bytes
        for piece in self._pieces(body, answer, streamed):
            if answer.piece_delay_s:
                await trio.sleep(answer.piece_delay_s)
            data = piece if room is None else piece[:room]
            if data:
                await stream.send_all(connection.send(h11.Data(data=data)))
            if room is not None:
                room -= len(data)
                if room <= 0:
                    return False
        await stream.send_all(connection.send(h11.EndOfMessage()))
        return connection.our_state is h11.DONE and connection.their_state is h11.DONE

    def _choose(self, request: h11.Request, raw: bytes) -> tuple[dict[str, Any], Scripted]:
        method, path = request.method.decode(), request.target.decode()
        headers = {name.decode(): value.decode() for name, value in request.headers}
        try:
            body = msgspec.json.decode(raw, type=dict[str, Any]) if raw else {}
        except msgspec.DecodeError as error:
            return {}, Scripted(status=400, text=f"The body is not a JSON object: {error}")
        self.history.append(Received(method=method, path=path, headers=headers, body=body))
        if self.api_key is not None and headers.get("authorization") != f"Bearer {self.api_key}":
            return body, Scripted(status=401, text="Incorrect API key provided")
        if (method, path) == ("GET", "/v1/models"):
            data = [{"id": model, "object": "model"} for model in MODELS]
            kind = {"Content-Type": "application/json"}
            return body, Scripted(raw=msgspec.json.encode({"object": "list", "data": data}), headers=kind)
        if (method, path) != ("POST", "/v1/chat/completions"):
            return body, Scripted(status=404, text=f"Unknown request: {method} {path}")
        wrong = _wrong(body)
        if wrong:
            return body, Scripted(status=400, text=wrong)
        return body, self._script.popleft() if self._script else self.reply(body)

    # -- bodies ------------------------------------------------------------------------------------------------------

    def _pieces(self, body: dict[str, Any], answer: Scripted, streamed: bool) -> Iterator[bytes]:
        if answer.raw is not None:
            yield answer.raw
        elif answer.status != 200:
            error = {"message": answer.text, "type": "error", "code": str(answer.status)}
            yield msgspec.json.encode({"error": error})
        elif not streamed:
            yield msgspec.json.encode(self._whole(body, answer))
        else:
            for frame in self._frames(body, answer):
                yield b"data: " + msgspec.json.encode(frame) + b"\n\n"
            if answer.finish != "":
                yield b"data: [DONE]\n\n"

    def _whole(self, body: dict[str, Any], answer: Scripted) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
        if answer.tool_calls:
            message["tool_calls"] = [self._call(call) for call in answer.tool_calls]
        choice = {"index": 0, "message": message, "finish_reason": _finish(answer)}
        return _head(body) | {"object": "chat.completion", "choices": [choice], "usage": _usage(body, answer)}

    def _frames(self, body: dict[str, Any], answer: Scripted) -> Iterator[dict[str, Any]]:
        def frame(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
            return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

        head = _head(body) | {"object": "chat.completion.chunk"}
        yield frame({"role": "assistant", "content": ""})
        for word in re.findall(r"\S+\s*|\s+", answer.text):
            yield frame({"content": word})
        calls = [self._call(call) for call in answer.tool_calls]
        for index, call in enumerate(calls):
            function = call["function"] | {"arguments": ""}
            yield frame({"tool_calls": [call | {"index": index, "function": function}]})
        longest = max((len(call["function"]["arguments"]) for call in calls), default=0)
        for start in range(0, longest, 7):  # the arguments of parallel calls come interleaved
            for index, call in enumerate(calls):
                piece = call["function"]["arguments"][start : start + 7]
                if piece:
                    yield frame({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        if answer.finish != "":
            yield frame({}, _finish(answer))
        if self.with_usage and (body.get("stream_options") or {}).get("include_usage"):
            yield head | {"choices": [], "usage": _usage(body, answer)}

    def _call(self, call: Call) -> dict[str, Any]:
        self._calls += 1
        arguments = call.arguments
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        name = call.id if call.id is not None else f"call_{self._calls:06d}"
        return {"id": name, "type": "function", "function": {"name": call.name, "arguments": arguments}}


async def _receive(connection: h11.Connection, stream: trio.SocketStream) -> tuple[h11.Request | None, bytes]:
    """Return the next request with its body; None if the client is done."""
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            with trio.fail_after(_IDLE_S):
                connection.receive_data(await stream.receive_some())
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > _BODY_MAX_BYTES:
                return None, b""
        elif isinstance(event, h11.EndOfMessage):
            return request, bytes(body)
        else:
            return None, b""


def _head(body: dict[str, Any]) -> dict[str, Any]:
    return {"id": "chatcmpl-fake", "created": 0, "model": body.get("model", "")}


def _finish(answer: Scripted) -> str:
    return answer.finish or ("tool_calls" if answer.tool_calls else "stop")


def _usage(body: dict[str, Any], answer: Scripted) -> dict[str, Any]:
    """Count words as tokens."""
    read = sum(len(str(message.get("content") or "").split()) for message in body["messages"])
    said = len(answer.text.split())
    return {"prompt_tokens": read, "completion_tokens": said, "total_tokens": read + said}


def _wrong(body: dict[str, Any]) -> str:
    """Return what the real server would refuse in a request, "" for nothing."""
    messages = body.get("messages")
    if not isinstance(body.get("model"), str):
        return "you must provide a model parameter"
    if not isinstance(messages, list) or not messages:
        return "'messages' must be a list that is not empty"
    waiting: set[str] = set()
    for number, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            if message.get("tool_call_id") not in waiting:
                return f"messages[{number}] of role 'tool' must answer a preceding message with 'tool_calls'"
            waiting.discard(message["tool_call_id"])
            continue
        if waiting:
            return f"'tool_calls' must be followed by tool messages for each id; missing: {sorted(waiting)}"
        if role not in ("system", "developer", "user", "assistant"):
            return f"messages[{number}] has the unknown role {role!r}"
        calls = message.get("tool_calls") or []
        if not isinstance(message.get("content"), str) and not calls:
            return f"messages[{number}] has no content"
        waiting = {call["id"] for call in calls}
        if len(waiting) < len(calls):
            return f"messages[{number}] has two tool calls of one id"
    return f"'tool_calls' must be followed by tool messages; missing: {sorted(waiting)}" if waiting else ""


def _last_user_text(body: dict[str, Any]) -> str:
    texts = [str(message["content"]) for message in body["messages"] if message["role"] == "user"]
    return texts[-1] if texts else ""


# -- by hand ---------------------------------------------------------------------------------------------------------

_STAMP = re.compile(r"\A\[[^\]\n]{1,60}\] ")  # the local time that prompts put before a message
_REMIND = re.compile(r"remind me in (\d{1,6}) ?s(?:econds?)? to ([^\n]+)", re.IGNORECASE)


def demo(body: dict[str, Any]) -> Scripted:
    """Answer as the demo model: streams slowly, and calls the tool `remind` when it is asked for a reminder."""
    last = body["messages"][-1]
    asked = _REMIND.search(str(last.get("content") or ""))
    tools = {tool["function"]["name"] for tool in body.get("tools") or ()}
    if last["role"] == "tool":
        return Scripted(text=f"The tool answered: {last['content']}", piece_delay_s=0.05)
    if asked and "remind" in tools:
        arguments = {"after_s": int(asked[1]), "text": asked[2].strip()}
        return Scripted(tool_calls=(Call("remind", arguments),), piece_delay_s=0.05)
    words = _STAMP.sub("", _last_user_text(body))
    if words.startswith(REMINDER):
        return Scripted(text=f"Time to {words.removeprefix(REMINDER)}!", piece_delay_s=0.05)
    text = f'I am the demo model of daycare\'s fake server and read: {words}\nTry "remind me in 5 seconds to stretch".'
    return Scripted(text=text, piece_delay_s=0.05)


async def _serve_demo(port: int) -> None:
    async with FakeOpenAI.serve(port=port, reply=demo) as server:
        sys.stdout.write(f"{server.base_url}\n")
        sys.stdout.flush()
        await trio.sleep_forever()


def main() -> None:
    """Serve the demo model until interrupted."""
    parser = argparse.ArgumentParser(description="A small model server for trying daycare by hand.")
    parser.add_argument("--port", type=int, default=8123, help="port on 127.0.0.1; 0 for a free one")
    try:
        trio.run(_serve_demo, parser.parse_args().port)
    except* KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
