"""What the fake model servers share: a script, a history, and every way in which an answer can go wrong.

A protocol is a subclass that says what it refuses and how an answer looks on its wire.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import trio

from daycare.testing.http_server import HttpRequest, HttpServer, ServerConnection

MODELS: Final = ("fake-large", "fake-small")
_HISTORY_MAX: Final = 10_000


class ScriptedCall(msgspec.Struct, frozen=True):
    """A tool call of a scripted answer. `arguments` may be a string, to send JSON that is broken."""

    name: str
    arguments: dict[str, Any] | str
    id: str | None = None  # None: a fresh one

    @property
    def json(self) -> str:
        """The arguments as they are sent."""
        return self.arguments if isinstance(self.arguments, str) else msgspec.json.encode(self.arguments).decode()


class ScriptedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. Seconds are trio's; `cut_after_bytes` counts bytes of the body, and then it happens what `then` says.

    `then` is `close` (as if the reply were over), `reset` (the connection is torn down) or `stall` (silence until the
    client leaves). `raw` is a body sent as it stands, whose type is a stream unless `headers` say otherwise. A status
    other than 200 sends `text` as the message of the protocol's error object. `finish` None is the protocol's word for
    tool calls if there are any, else for a plain end; "" leaves the reason and what follows it out. `thinking` are the
    thoughts before the text. `flip` is the number of a bit of the body that arrives changed.
    """

    text: str = ""
    thinking: str = ""
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish: str | None = None
    status: int = 200
    headers: Mapping[str, str] = {}
    delay_s: float = 0.0  # before the status
    piece_delay_s: float = 0.0  # before each frame
    byte_delay_s: float = 0.0  # before each byte: they come one by one
    cut_after_bytes: int | None = None
    then: Literal["close", "reset", "stall"] = "close"
    raw: bytes | None = None
    flip: int | None = None
    cached_tokens: int = 0  # of the prompt: read from the cache
    cache_write_tokens: int = 0  # of the prompt: written to it


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request, decoded. Header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]


Answering = Callable[[dict[str, Any]], ScriptedAnswer]


def web_page(status: int = 200, html: str = "<html><body>Please log in</body></html>") -> ScriptedAnswer:
    """Return what a captive portal or a broken proxy answers."""
    return ScriptedAnswer(status=status, raw=html.encode(), headers={"Content-Type": "text/html; charset=utf-8"})


def said(content: Any) -> str:
    """Return the words in a message's content, of either protocol: a string, or blocks with text in them."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, (said(block) for block in content)))
    if isinstance(content, dict):
        return said(content.get("text") or content.get("content"))
    return ""


def last_user_text(body: dict[str, Any]) -> str:
    """Return the words of the last user message, "" if there is none."""
    texts = [said(message.get("content")) for message in body["messages"] if message.get("role") == "user"]
    return texts[-1] if texts else ""


def echo(body: dict[str, Any]) -> ScriptedAnswer:
    """Answer with the last user message."""
    return ScriptedAnswer(text=f"echo: {last_user_text(body)}")


class FakeModelServer(HttpServer):
    """A server. Requests take what was enqueued, in order; then `reply` answers. `history` holds the requests.

    With `api_key` set, requests need it. A request that the real server refuses is refused, and takes nothing.
    """

    url_path = ""  # of `base_url`, after the port
    reply: Answering

    def __init__(self, port: int = 0, reply: Answering = echo) -> None:
        super().__init__(port)
        self.base_url = self.origin + self.url_path
        self.reply = reply
        self.api_key: str | None = None
        self.history: deque[Received] = deque(maxlen=_HISTORY_MAX)
        self._script: deque[ScriptedAnswer] = deque()
        self._calls = 0

    def enqueue(
        self,
        answer: str | ScriptedAnswer = "",
        *,
        tool_calls: Sequence[ScriptedCall | tuple[str, dict[str, Any] | str]] = (),
        **rest: Any,
    ) -> None:
        """Add an answer to the script: one that is ready, or its text; `rest` are fields of `ScriptedAnswer`."""
        if isinstance(answer, str):
            calls = tuple(call if isinstance(call, ScriptedCall) else ScriptedCall(*call) for call in tool_calls)
            answer = ScriptedAnswer(**{"text": answer, **rest}, tool_calls=calls)
        self._script.append(answer)

    def render(self, body: dict[str, Any], answer: ScriptedAnswer) -> bytes:
        """Return the bytes of an answer to a request, without faults: a recorded stream."""
        return b"".join(self._pieces(body, answer, streamed=bool(body.get("stream"))))

    # -- what a protocol says ----------------------------------------------------------------------------------------

    def _route(self, method: str, path: str, headers: Mapping[str, str], body: dict[str, Any]) -> ScriptedAnswer | None:
        """Return the answer to what is no call of a model, or must be refused; None for a call."""
        raise NotImplementedError

    def _error(self, answer: ScriptedAnswer) -> dict[str, Any]:
        """Return the error object of an answer with a status other than 200."""
        raise NotImplementedError

    def _whole(self, body: dict[str, Any], answer: ScriptedAnswer) -> dict[str, Any]:
        """Return the answer to a request that asks for no stream."""
        raise NotImplementedError

    def _stream(self, body: dict[str, Any], answer: ScriptedAnswer) -> Iterator[bytes]:
        """Yield the frames of a streamed answer."""
        raise NotImplementedError

    def _call_id(self, call: ScriptedCall, prefix: str) -> str:
        self._calls += 1
        return call.id if call.id is not None else f"{prefix}{self._calls:06d}"

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _answer(self, connection: ServerConnection, request: HttpRequest) -> bool:
        body, answer = self._choose(request)
        if answer.delay_s:
            await trio.sleep(answer.delay_s)
        streamed = answer.status == 200 and bool(body.get("stream")) and answer.raw is None
        kind = "text/event-stream" if streamed or answer.raw is not None else "application/json"
        await connection.begin(answer.status, {"Content-Type": kind} | dict(answer.headers))
        room = answer.cut_after_bytes
        pieces = _flipped(self._pieces(body, answer, streamed=streamed), answer.flip)
        for piece in _bytewise(pieces) if answer.byte_delay_s else pieces:
            if answer.piece_delay_s or answer.byte_delay_s:
                await trio.sleep(answer.piece_delay_s or answer.byte_delay_s)
            data = piece if room is None else piece[:room]
            if data:
                await connection.piece(data)
            if room is not None:
                room -= len(data)
                if room <= 0:
                    if answer.then == "stall":
                        await connection.gone()
                    elif answer.then == "reset":
                        connection.reset()
                    return False
        return await connection.end()

    def _choose(self, request: HttpRequest) -> tuple[dict[str, Any], ScriptedAnswer]:
        method, path, headers = request.method, request.target, request.headers
        try:
            body = msgspec.json.decode(request.body, type=dict[str, Any]) if request.body else {}
        except msgspec.DecodeError as error:
            return {}, ScriptedAnswer(status=400, text=f"The body is not a JSON object: {error}")
        self.history.append(Received(method=method, path=path, headers=headers, body=body))
        refused = self._route(method, path, headers, body)
        if refused is not None:
            return body, refused
        return body, self._script.popleft() if self._script else self.reply(body)

    def _pieces(self, body: dict[str, Any], answer: ScriptedAnswer, *, streamed: bool) -> Iterator[bytes]:
        if answer.raw is not None:
            yield answer.raw
        elif answer.status != 200:
            yield msgspec.json.encode(self._error(answer))
        elif not streamed:
            yield msgspec.json.encode(self._whole(body, answer))
        else:
            yield from self._stream(body, answer)


def _flipped(pieces: Iterator[bytes], bit: int | None) -> Iterator[bytes]:
    start = 0
    for piece in pieces:
        at = None if bit is None else bit // 8 - start
        start += len(piece)
        if at is not None and bit is not None and 0 <= at < len(piece):
            piece = piece[:at] + bytes([piece[at] ^ 1 << bit % 8]) + piece[at + 1 :]
        yield piece


def _bytewise(pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        for at in range(len(piece)):
            yield piece[at : at + 1]
