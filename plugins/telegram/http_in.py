"""The small HTTP server of webhook mode: it takes POST requests of one path that know a secret, and nothing else.

It is meant to stand behind a reverse proxy that ends TLS. Everything has a bound: connections, sizes, time.
"""

import hmac
from collections.abc import Awaitable, Callable
from typing import Final

import h11
import trio

from daycare.base.errors import DaycareError

BODY_MAX_BYTES: Final = 1024 * 1024  # an update has a few kilobytes
CONNECTIONS_MAX: Final = 64  # Telegram opens as many as `setWebhook` allowed it, see webhook.py
REQUEST_S: Final = 15.0  # for a request to arrive whole
IDLE_S: Final = 90.0  # Telegram keeps connections between updates
_PIECE_BYTES: Final = 65_536
_SECRET: Final = b"x-telegram-bot-api-secret-token"

Take = Callable[[bytes], Awaitable[None]]


class HookServer:
    """Calls `take` with each body, and answers 200 once it has returned; 503 when it raised, so that it comes again."""

    def __init__(self, path: str, secret: str, take: Take) -> None:
        self._path = path.encode()
        self._secret = secret.encode()
        self._take = take
        self._connections = 0

    async def serve(self, listeners: list[trio.SocketListener]) -> None:
        """Serve until cancelled."""
        await trio.serve_listeners(self.handle, listeners)

    async def handle(self, stream: trio.abc.Stream) -> None:
        """Serve one connection."""
        if self._connections >= CONNECTIONS_MAX:
            await trio.aclose_forcefully(stream)
            return
        self._connections += 1
        try:
            await _Connection(stream, self).run()
        finally:
            self._connections -= 1
            await trio.aclose_forcefully(stream)

    def refusal(self, request: h11.Request) -> int:
        """Return the status with which a request is refused before its body is read; 0 if it may go on."""
        given = [value for name, value in request.headers if name == _SECRET]
        if not hmac.compare_digest(given[0] if len(given) == 1 else b"", self._secret):
            return 401
        if request.target.split(b"?")[0] != self._path:
            return 404
        return 0 if request.method == b"POST" else 405

    async def taken(self, body: bytes) -> int:
        """Hand a body on; return the status."""
        try:
            await self._take(body)
        except DaycareError:
            return 503
        return 200


class _Connection:
    def __init__(self, stream: trio.abc.Stream, server: HookServer) -> None:
        self._stream = stream
        self._server = server
        self._http = h11.Connection(h11.SERVER)
        self._wait_s = REQUEST_S  # whoever has not shown the secret yet has no time to rest

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
        status = self._server.refusal(request)
        if not status:
            self._wait_s = IDLE_S
            body = await self._body()
            status = 413 if body is None else await self._server.taken(body)
        with trio.fail_after(REQUEST_S):
            await self._answer(status)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(bytes(await self._stream.receive_some(_PIECE_BYTES)))
        return event

    async def _body(self) -> bytes | None:
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            await self._stream.send_all(self._http.send(go_on) or b"")
        body = bytearray()
        with trio.fail_after(REQUEST_S):
            while isinstance(event := await self._event(), h11.Data):
                body += event.data
                if len(body) > BODY_MAX_BYTES:
                    return None
        return bytes(body)

    async def _answer(self, status: int) -> None:
        headers = [("Content-Length", "0")]
        if self._http.their_state is not h11.DONE:
            headers.append(("Connection", "close"))  # nobody reads what is left of the body
        data = self._http.send(h11.Response(status_code=status, headers=headers)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        await self._stream.send_all(data)

    async def _refuse_garbage(self, error: h11.RemoteProtocolError) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            try:
                await self._answer(error.error_status_hint)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
