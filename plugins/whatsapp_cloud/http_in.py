"""The small HTTP server that Meta's webhooks reach: it proves who asks before it believes a word.

It is meant to stand behind a reverse proxy or tunnel that ends TLS. Everything has a bound: connections, sizes, time.
"""

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import parse_qs

import h11
import trio

from daycare.base.errors import DaycareError

BODY_MAX_BYTES: Final = 3 * 1024 * 1024  # what Meta says that a request may have; usual are a few kilobytes
CONNECTIONS_MAX: Final = 16  # so that full ones take 48 MB at most
REQUEST_S: Final = 15.0  # for a request to arrive whole
IDLE_S: Final = 60.0  # a proxy keeps connections between requests
CHALLENGE_MAX_CHARS: Final = 256  # Meta's is a number of ten digits
_PIECE_BYTES: Final = 65_536
SIGNATURE: Final = b"x-hub-signature-256"
_SIGNED: Final = re.compile(rb"sha256=([0-9a-fA-F]{64})")

Take = Callable[[bytes], Awaitable[None]]


def signature(body: bytes, secret: str) -> str:
    """Return the header that proves a body."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


class HookServer:
    """Calls `take` with each body whose signature is right, and answers 200 once that has returned; 503 if it raised.

    `app_secret` and `verify_token` are asked at each request; where one is empty, all that needs it is refused.
    `refused` counts by reason what was not let in; `on_refused` is told of each.
    """

    def __init__(
        self,
        path: str,
        app_secret: Callable[[], str],
        verify_token: Callable[[], str],
        take: Take,
        on_refused: Callable[[str], None],
    ) -> None:
        self.refused: Counter[str] = Counter()
        self._path = path.encode()
        self._app_secret = app_secret
        self._verify_token = verify_token
        self._take = take
        self._on_refused = on_refused
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

    # -- what is answered --------------------------------------------------------------------------------------------

    def before_body(self, request: h11.Request) -> tuple[int, bytes]:
        """Return the answer to a request whose body need not be read; status 0 if it has to be."""
        path, _, query = request.target.partition(b"?")
        if path != self._path:
            return 404, b""
        if request.method == b"GET":
            return self._verified(query)
        if request.method != b"POST":
            return 405, b""
        if _signature(request) is None:
            return self._no(401, "not_signed")
        return 0, b""

    async def after_body(self, request: h11.Request, body: bytes) -> int:
        """Check the signature and hand the body on; return the status."""
        secret = self._app_secret()
        expected = signature(body, secret).removeprefix("sha256=").encode()
        if not secret or not hmac.compare_digest((_signature(request) or b"").lower(), expected):
            return self._no(403, "wrong_signature")[0]
        try:
            await self._take(body)
        except DaycareError:
            return 503
        return 200

    def _verified(self, query: bytes) -> tuple[int, bytes]:
        asked = parse_qs(query.decode("ascii", "replace"), max_num_fields=20) if query.count(b"&") < 20 else {}
        mode, token, challenge = (asked.get(f"hub.{name}", [""])[0] for name in ("mode", "verify_token", "challenge"))
        ours = self._verify_token()
        right = hmac.compare_digest(token.encode("utf-8", "replace"), ours.encode()) and ours != ""
        if mode != "subscribe" or not right:
            return self._no(403, "wrong_verify_token")
        if not challenge.isascii() or not challenge.isprintable() or len(challenge) > CHALLENGE_MAX_CHARS:
            return self._no(400, "bad_challenge")
        return 200, challenge.encode()

    def _no(self, status: int, why: str) -> tuple[int, bytes]:
        self.refused[why] += 1
        self._on_refused(why)
        return status, b""


def _signature(request: h11.Request) -> bytes | None:
    given = [value for name, value in request.headers if name == SIGNATURE]
    found = _SIGNED.fullmatch(given[0]) if len(given) == 1 else None
    return found[1] if found is not None else None


class _Connection:
    def __init__(self, stream: trio.abc.Stream, server: HookServer) -> None:
        self._stream = stream
        self._server = server
        self._http = h11.Connection(h11.SERVER)
        self._wait_s = REQUEST_S  # whoever has not proved to be Meta yet has no time to rest

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
        status, answer = self._server.before_body(request)
        if not status:
            body = await self._body()
            status = 413 if body is None else await self._server.after_body(request, body)
            if status == 200:
                self._wait_s = IDLE_S
        elif status < 400:
            await self._body()
        with trio.fail_after(REQUEST_S):
            await self._answer(status, answer)
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

    async def _answer(self, status: int, body: bytes = b"") -> None:
        headers = [("Content-Length", str(len(body))), ("Content-Type", "text/plain")]
        if self._http.their_state is not h11.DONE:
            headers.append(("Connection", "close"))  # nobody reads what is left of the body
        data = self._http.send(h11.Response(status_code=status, headers=headers)) or b""
        data += self._http.send(h11.Data(data=body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        await self._stream.send_all(data)

    async def _refuse_garbage(self, error: h11.RemoteProtocolError) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            try:
                await self._answer(error.error_status_hint)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass
