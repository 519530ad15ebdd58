"""The small HTTP server that a platform's webhooks reach, for plugins: it knows who asks before it reads much.

It is meant to stand behind a reverse proxy or tunnel that ends TLS. Everything has a bound: connections, sizes, time.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

import h11
import trio

REQUEST_S: Final = 15.0  # for a request to arrive whole, and for an answer to be taken
_PIECE_BYTES: Final = 65_536
_LINGER_S: Final = 1.0


class Door(Protocol):
    """Who may come in, and what becomes of what they bring."""

    def before_body(self, request: h11.Request) -> tuple[int, bytes]:
        """Return the answer to a request whose body need not be looked at; status 0 if it has to be."""
        ...

    async def after_body(self, request: h11.Request, body: bytes) -> tuple[int, bytes]:
        """Return the answer to a body. 200 says that the sender is known; it may rest before its next request."""
        ...


class WebhookBounds(NamedTuple):
    """What a platform may use: the size of a body, connections at the same time, seconds between two requests."""

    body_max_bytes: int
    connections_max: int
    idle_s: float


async def listening(address: str, deaf: Callable[[str], float]) -> list[trio.SocketListener]:
    """Listen on `host:port`. While that fails `deaf` is told why, and returns the seconds until the next try."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            return await trio.open_tcp_listeners(int(port), host=host.strip("[]"))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            await trio.sleep(deaf(f"listening on {address} for the webhook: {why}"))


class WebhookServer:
    """Serves the requests that a door lets in; `handle` serves one connection.

    When all connections are in use, a new one takes the place of the one that has kept us waiting longest without
    showing who it is: whoever sends bodies slowly, or none, keeps nobody else out.
    """

    def __init__(self, door: Door, bounds: WebhookBounds) -> None:
        self._door = door
        self._bounds = bounds
        self._open: list[_Connection] = []  # the one that began its request first stands first

    async def serve(self, listeners: list[trio.SocketListener]) -> None:
        """Serve until cancelled."""
        await trio.serve_listeners(self.handle, listeners)

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Serve one connection."""
        if len(self._open) >= self._bounds.connections_max:
            slowest = next((each for each in self._open if not each.known), None)
            if slowest is None:
                await trio.aclose_forcefully(stream)
                return
            self._open.remove(slowest)
            slowest.scope.cancel()
        connection = _Connection(stream, self._door, self._bounds, self._begun)
        self._open.append(connection)
        try:
            with connection.scope:
                await connection.run()
        finally:
            if connection in self._open:
                self._open.remove(connection)
            await trio.aclose_forcefully(stream)

    def _begun(self, connection: "_Connection") -> None:
        """Put a connection that begins another request behind those that began theirs earlier."""
        if connection in self._open:
            self._open.remove(connection)
            self._open.append(connection)


class _Connection:
    def __init__(
        self, stream: trio.abc.Stream, door: Door, bounds: WebhookBounds, begun: Callable[["_Connection"], None]
    ) -> None:
        self.known = False  # its last request showed who sends it, and it has not begun another
        self.scope = trio.CancelScope()
        self._begun = begun
        self._stream = stream
        self._door = door
        self._bounds = bounds
        self._http = h11.Connection(h11.SERVER)
        self._wait_s = REQUEST_S  # whoever has not shown yet who they are has no time to rest

    async def run(self) -> None:
        try:
            while await self._exchange():
                self._http.start_next_cycle()
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError):
            pass  # the other side left, or is asleep
        except h11.RemoteProtocolError as error:
            with trio.move_on_after(1.0):
                await self._refuse_garbage(error)

    async def _exchange(self) -> bool:
        """Answer one request; return whether another may follow."""
        with trio.fail_after(self._wait_s):
            request = await self._event()
        if not isinstance(request, h11.Request):
            return False
        if self.known:
            self.known = False
            self._begun(self)
        status, answer = self._door.before_body(request)
        if _announced(request) > self._bounds.body_max_bytes:
            status = status if status >= 400 else 413
        if not status:
            body = await self._body()
            status, answer = (413, b"") if body is None else await self._door.after_body(request, body)
            if status == 200:
                self.known = True
                self._wait_s = self._bounds.idle_s
        elif status < 400:
            await self._body()
        with trio.fail_after(REQUEST_S):
            await self._answer(status, answer)
        if self._http.their_state is h11.SEND_BODY:
            await self._linger()
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(bytes(await self._stream.receive_some(_PIECE_BYTES)))
        return event

    async def _body(self) -> bytes | None:
        """Return the body, None if it is too large."""
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await self._stream.send_all(self._http.send(go_on) or b"")
        body = bytearray()
        with trio.fail_after(REQUEST_S):
            while isinstance(event := await self._event(), h11.Data):
                body += event.data
                if len(body) > self._bounds.body_max_bytes:
                    return None
        return bytes(body)

    async def _answer(self, status: int, body: bytes = b"") -> None:
        headers = [("Content-Length", str(len(body))), ("Content-Type", "text/plain")]
        if self._http.their_state is not h11.DONE:
            headers.append(("Connection", "close"))  # nobody reads what is left of the body
        data = self._http.send(h11.Response(status_code=status, headers=headers)) or b""
        data += self._http.send(h11.Data(data=body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        await self._stream.send_all(data)

    async def _linger(self) -> None:
        """Let somebody whose body nobody wants see the answer: closed at once, the connection would lose it."""
        with trio.move_on_after(_LINGER_S):
            while await self._stream.receive_some(_PIECE_BYTES):
                pass

    async def _refuse_garbage(self, error: h11.RemoteProtocolError) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            try:
                await self._answer(error.error_status_hint)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass


def _announced(request: h11.Request) -> int:
    """Return how long a body is said to be; h11 has refused what is no number."""
    return next((int(value) for name, value in request.headers if name == b"content-length"), 0)
