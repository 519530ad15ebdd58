"""HTTP as the fake servers speak it, over any stream: requests with parameters in four encodings, answers in pieces."""

import email.parser
import email.policy
import math
import socket
import struct
import urllib.parse
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import h11
import msgspec
import trio

_BODY_MAX_BYTES: Final = 64 * 1024 * 1024  # the real server takes files of 50 MB
_IDLE_S: Final = 3600.0  # a kept connection of a test on virtual time may rest for long
_PIECE_BYTES: Final = 65536


class RefusedError(Exception):
    """What a server answers instead of a result; `parameters` are what it adds, such as the seconds to wait."""

    def __init__(self, status: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.parameters = parameters


def bad(description: str) -> RefusedError:
    """Return a refusal as 400 Bad Request."""
    return RefusedError(400, f"Bad Request: {description}")


class UploadedFile(msgspec.Struct, frozen=True):
    """A file in a multipart body."""

    filename: str
    content_type: str
    content: bytes

    def __repr__(self) -> str:
        return f"Upload({self.filename!r}, {self.content_type!r}, {len(self.content)} bytes)"


class Params:
    """The parameters of a call, whatever their encoding: a form's strings or JSON."""

    def __init__(self, values: dict[str, Any], uploads: dict[str, UploadedFile] | None = None) -> None:
        self.values = values
        self.uploads = uploads or {}

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) not in (None, "")

    def text(self, name: str) -> str:
        """Return a string, "" if it is missing."""
        value = self.values.get(name)
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, dict | list):
            return msgspec.json.encode(value).decode()
        return str(value)

    def integer(self, name: str, default: int = 0) -> int:
        """Return a whole number; refuse what is none."""
        value = self.text(name).strip()
        if not value:
            return default
        try:
            return int(value)
        except ValueError:
            raise bad(f"parameter {name} must be an integer, not {value[:40]!r}") from None

    def flag(self, name: str) -> bool:
        """Return whether it is said to be true."""
        value = self.text(name).strip().lower()
        if value not in ("", "true", "false", "yes", "no", "1", "0"):
            raise bad(f"parameter {name} must be a boolean, not {value[:40]!r}")
        return value in ("true", "yes", "1")

    def number(self, name: str) -> float:
        """Return a finite number, 0 if it is missing."""
        try:
            value = float(self.text(name) or 0)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise bad(f"parameter {name} must be a number")
        return value

    def json(self, name: str, kind: type, what: str) -> Any:
        """Return an object or an array, None if it is missing."""
        value = self.values.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, str):
            try:
                value = msgspec.json.decode(value)
            except msgspec.DecodeError:
                raise bad(f"can't parse {what} JSON object") from None
        if value is None:
            return None
        if not isinstance(value, kind):
            raise bad(f"object expected as {what}" if kind is dict else f"expected an Array of {what}")
        return value


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request, whole. `target` is path and query as they were sent. Header names are in lower case."""

    method: str
    target: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    def params(self) -> Params:
        """Decode the parameters of the query and the body."""
        values: dict[str, Any] = dict(urllib.parse.parse_qsl(self.query, keep_blank_values=True))
        header = self.headers.get("content-type", "")
        kind = header.split(";")[0].strip().lower()
        if not self.body:
            return Params(values)
        if kind == "application/json":
            try:
                return Params(values | msgspec.json.decode(self.body, type=dict[str, Any]))
            except msgspec.DecodeError:
                raise bad("can't parse JSON object") from None
        if kind == "application/x-www-form-urlencoded":
            try:
                return Params(values | dict(urllib.parse.parse_qsl(self.body.decode(), keep_blank_values=True)))
            except UnicodeDecodeError:
                raise bad("strings must be encoded in UTF-8") from None
        if kind == "multipart/form-data":
            fields, uploads = _multipart(header, self.body)
            return Params(values | fields, uploads)
        raise RefusedError(400, "Bad Request: unsupported content type specified")


def _multipart(header: str, body: bytes) -> tuple[dict[str, str], dict[str, UploadedFile]]:
    """Split a multipart body at its boundary; the parts' own headers are those of a mail."""
    boundary = email.parser.HeaderParser(policy=email.policy.HTTP).parsestr(f"Content-Type: {header}\n\n")
    mark = boundary.get_boundary("")
    if not mark:
        raise bad("can't parse multipart body: no boundary")
    fields: dict[str, str] = {}
    uploads: dict[str, UploadedFile] = {}
    parts = (b"\r\n" + body).split(b"\r\n--" + mark.encode())
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise bad("can't parse multipart body: it is cut off")
    for part in parts[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        message = email.parser.HeaderParser(policy=email.policy.HTTP).parsestr(head.strip().decode("utf-8", "replace"))
        name = message.get_param("name", header="content-disposition")
        filename = message.get_filename()
        if not isinstance(name, str):
            raise bad("can't parse multipart body: a part has no name")
        if filename is not None:
            uploads[name] = UploadedFile(filename, message.get_content_type(), content)
        else:
            fields[name] = content.decode("utf-8", "replace")
    return fields, uploads


class ServerConnection:
    """The server's side of a connection."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._http = h11.Connection(h11.SERVER)

    async def request(self) -> HttpRequest | None:
        """Return the next request, None if the client is done."""
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                with trio.fail_after(_IDLE_S):
                    self._http.receive_data(bytes(await self._stream.receive_some(_PIECE_BYTES)))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > _BODY_MAX_BYTES:
                    return None
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                target = head.target.decode("latin-1")
                path, _, query = target.partition("?")
                return HttpRequest(
                    method=head.method.decode(),
                    target=target,
                    path=urllib.parse.unquote(path),
                    query=query,
                    headers={name.decode(): value.decode("latin-1") for name, value in head.headers},
                    body=bytes(body),
                )
            else:
                return None

    async def answer(
        self, status: int, body: bytes, headers: Mapping[str, str], cut_after_bytes: int | None = None
    ) -> bool:
        """Answer the request; return whether the connection can take another."""
        lines = [*headers.items(), ("Content-Length", str(len(body)))]
        data = self._http.send(h11.Response(status_code=status, headers=lines)) or b""
        if cut_after_bytes is not None:
            await self._stream.send_all(data + body[:cut_after_bytes])
            return False
        await self._stream.send_all(data + (self._http.send(h11.Data(data=body)) or b""))
        return await self.end()

    async def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Begin an answer that comes in pieces, as a stream of events does."""
        await self._stream.send_all(
            self._http.send(h11.Response(status_code=status, headers=[*headers.items()])) or b""
        )

    async def piece(self, data: bytes) -> None:
        """Send a piece of the answer's body."""
        await self._stream.send_all(self._http.send(h11.Data(data=data)) or b"")

    async def end(self) -> bool:
        """End the answer; return whether the connection can take another request."""
        if last := self._http.send(h11.EndOfMessage()):
            await self._stream.send_all(last)
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def reset(self) -> None:
        """Have the connection torn down where it ends, as by a host that crashed."""
        assert isinstance(self._stream, trio.SocketStream)
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def gone(self) -> None:
        """Return when the client has left. Only while a request waits for its answer."""
        while data := await self._stream.receive_some(_PIECE_BYTES):
            self._http.receive_data(bytes(data))
        self._http.receive_data(b"")

    async def unless_gone(self, work: Callable[[], Awaitable[Any]]) -> bool:
        """Run `work` until it is done, or the client has left; return whether it was done."""
        done = False
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                try:
                    await self.gone()
                except trio.BrokenResourceError:
                    pass
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            await work()
            done = True
            nursery.cancel_scope.cancel()
        return done


class HttpServer:
    """A server on loopback. A fake one says in `_answer` what it answers; `connections` counts all that were opened."""

    def __init__(self, port: int = 0) -> None:
        self.origin = f"http://127.0.0.1:{port}"
        self.connections = 0

    @classmethod
    @asynccontextmanager
    async def serve(
        cls, nursery: trio.Nursery | None = None, *, port: int = 0, **options: Any
    ) -> AsyncGenerator[Self, None]:
        """Serve until the block ends; port 0 is a free one. `options` are those of the constructor."""
        if nursery is None:
            async with trio.open_nursery() as own, cls.serve(own, port=port, **options) as server:
                yield server
            return
        listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        server = cls(listeners[0].socket.getsockname()[1], **options)
        scope = await nursery.start(server._run, listeners)
        try:
            yield server
        finally:
            scope.cancel()

    async def serve_stream(self, stream: trio.abc.Stream) -> None:
        """Serve one connection over any stream until it ends."""
        self.connections += 1
        connection = ServerConnection(stream)
        try:
            async with stream:
                while (request := await connection.request()) is not None:
                    if not await self._answer(connection, request):
                        return
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, h11.ProtocolError):
            return  # the client went away, or speaks no HTTP

    async def _answer(self, connection: ServerConnection, request: HttpRequest) -> bool:
        """Answer one request; return whether the connection can be used again."""
        raise NotImplementedError

    async def _run(self, listeners: list[trio.SocketListener], task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(trio.serve_listeners, self.serve_stream, listeners)
            task_status.started(nursery.cancel_scope)
