"""A Slack workspace over real sockets: strict, with people who write, Socket Mode, signed requests, faults on order.

    async with FakeWorkspace.serve() as slack:
        ann = slack.person("U1", "Ann")
        slack.say("U1", "hi")
        ...  # a connector with base_url=slack.url, and the tokens TOKEN and APP_TOKEN
        assert slack.sent("U1")[0]["text"] == "hello"
        slack.fault("chat.postMessage", lost())

It is written from Slack's published reference and refuses what that says is refused: unknown methods and arguments,
missing scopes, texts and blocks that are too long or not escaped, messages that are not the app's, a wrong token.
"""

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
import trio
from trio_websocket import HandshakeError, wrap_server_stream
from wsproto.utilities import ProtocolError

from daycare.testing.http_server import HttpRequest, HttpServer, Params, RefusedError, ServerConnection
from daycare.testing.slack_server import FakeSlack
from daycare_plugins.slack.testing.link import FakeLinks
from daycare_plugins.slack.testing.methods import SlackMethods
from daycare_plugins.slack.testing.rules import METHODS, SlackRefusedError, check_arguments
from daycare_plugins.slack.testing.world import APP_TOKEN, BOT, SIGNING_SECRET, TEAM, TOKEN

__all__ = ["APP_TOKEN", "BOT", "SIGNING_SECRET", "TEAM", "TOKEN", "FakeWorkspace", "SlackFault", "lost", "refused"]

_JSON: Final = {"Content-Type": "application/json; charset=utf-8"}
_BURST: Final = 6  # messages to one channel that Slack takes at once; then one a second


Moment = Literal["arrived", "executed", "answered"]  # nothing is done; it is done; its answer is sent


class SlackFault(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong with a call: it is refused with `error`, or has to wait, or its connection is dropped.

    That happens `before` or `after` it had its effect; with `stall` it stands still after that.
    """

    error: str = ""
    retry_after_s: int = 0
    status: int = 200
    drop: Literal["", "before", "after"] = ""
    stall: bool = False


def lost() -> SlackFault:
    """Return a lost answer: the call has its effect, and the connection breaks."""
    return SlackFault(drop="after")


def unreached() -> SlackFault:
    """Return a connection that breaks before the call had any effect."""
    return SlackFault(drop="before")


def stalled() -> SlackFault:
    """Return an answer that never comes: the call has its effect, and the connection stands still."""
    return SlackFault(stall=True)


def busy(seconds: int = 1) -> SlackFault:
    """Return a 429."""
    return SlackFault(status=429, retry_after_s=seconds)


def refused(error: str) -> SlackFault:
    """Return a refusal by its name."""
    return SlackFault(error=error)


class FakeWorkspace(SlackMethods, FakeSlack):
    """The server; see `SlackWorld` for people and channels, `FakeLinks` for Socket Mode.

    `calls` are (method, parameters) of all that was asked; `on_call` are told of each moment of a call, in order.
    `missing_scopes` are those that the app lacks. With `pace` a channel takes no more messages than Slack allows.
    """

    def __init__(self, port: int = 0) -> None:
        FakeSlack.__init__(self, port)
        SlackMethods.__init__(self)
        self.tokens = {TOKEN: ""}
        self.links = FakeLinks()
        self.calls: list[tuple[str, Params]] = []
        self.on_call: list[Callable[[str, Params, Moment], None]] = []
        self.missing_scopes: set[str] = set()
        self.pace = True
        self.paced = 0  # messages refused for that
        self.over_http = False  # events are not delivered by Socket Mode
        self.outbox: list[tuple[str, dict[str, Any]]] = []  # what is to be posted then
        self._faults: list[tuple[str, SlackFault]] = []
        self._due: dict[str, float] = {}
        self._link_url = ""
        self._methods = self.methods()

    def push(self, kind: str, payload: dict[str, Any]) -> None:
        """Tell the app of something."""
        if self.over_http:
            self.outbox.append((kind, payload))
        else:
            self.links.push(kind, payload)

    def fault(self, method: str, fault: SlackFault, times: int = 1) -> None:
        """Let the next calls of a method go wrong."""
        self._faults += [(method, fault)] * times

    def no_more_faults(self) -> None:
        """Let every call go well from now on."""
        self._faults.clear()

    def asked_for(self, method: str) -> list[Params]:
        """Return the parameters of each call of a method."""
        return [params for name, params in self.calls if name == method]

    async def _run(self, listeners: list[trio.SocketListener], task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        async with trio.open_nursery() as nursery:
            [link] = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, self._link, [link])
            self._link_url = f"ws://127.0.0.1:{link.socket.getsockname()[1]}/link/?ticket="
            await nursery.start(HttpServer._run.__get__(self), listeners)
            task_status.started(nursery.cancel_scope)

    async def _link(self, stream: trio.SocketStream) -> None:
        """Serve one connection of Socket Mode; one that breaks ends no other."""
        try:
            async with stream, trio.open_nursery() as nursery:
                await self.links.handle(await wrap_server_stream(nursery, stream))
                nursery.cancel_scope.cancel()
        except* (HandshakeError, ProtocolError):
            pass

    async def _answer(self, connection: ServerConnection, request: HttpRequest) -> bool:
        if request.path.startswith(("/upload/", "/files/")):
            return await self._bytes(connection, request)
        method = request.path.removeprefix("/api/")
        params = request.params()
        self._tell(method, params, "arrived")
        fault = self._fault(method)
        if fault.drop == "before":
            return False
        if fault.retry_after_s:
            return await connection.answer(
                429, b'{"ok":false,"error":"ratelimited"}', _JSON | {"Retry-After": str(fault.retry_after_s)}
            )
        try:
            answer, headers = {"ok": True} | self._called(method, request, fault), _JSON | self._scopes()
        except SlackRefusedError as error:
            answer, headers = error.answer, _JSON
        except RefusedError:
            answer, headers = {"ok": False, "error": "invalid_arguments"}, _JSON
        self._tell(method, params, "executed")
        if wait := answer.pop("retry_after_s", 0):
            return await connection.answer(429, msgspec.json.encode(answer), headers | {"Retry-After": str(wait)})
        if fault.stall:
            await trio.sleep_forever()
        if fault.drop:
            return False
        more = await connection.answer(fault.status, msgspec.json.encode(answer), headers)
        self._tell(method, params, "answered")
        return more

    def _scopes(self) -> dict[str, str]:
        """Return the header with what the app may do."""
        scopes = {scope for scope, _ in METHODS.values() if scope} - self.missing_scopes
        return {"X-OAuth-Scopes": ",".join(sorted(scopes | {"groups:read"} - self.missing_scopes))}

    def _tell(self, method: str, params: Params, moment: Moment) -> None:
        for told in self.on_call:
            told(method, params, moment)

    def _called(self, method: str, request: HttpRequest, fault: SlackFault) -> dict[str, Any]:
        if fault.error:
            raise SlackRefusedError(fault.error)
        known = METHODS.get(method)
        if known is None or request.method != "POST":
            raise SlackRefusedError("unknown_method")
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or not token:
            raise SlackRefusedError("not_authed")
        params = request.params()
        self.calls.append((method, params))
        if method == "apps.connections.open":
            if token != APP_TOKEN:
                raise SlackRefusedError("not_allowed_token_type" if token in self.tokens else "invalid_auth")
            return {"url": self._link_url + self.links.ticket()}
        if error := self.tokens.get(token, "invalid_auth"):
            raise SlackRefusedError(error)
        if known[0] in self.missing_scopes:
            raise SlackRefusedError("missing_scope", needed=known[0], provided="chat:write")
        if method == "auth.test":
            return {"url": "https://acme.slack.com/", "team": "Acme", "user": "daycare", "team_id": TEAM,
                    "user_id": BOT, "bot_id": "B0BOT", "is_enterprise_install": False}  # fmt: skip
        check_arguments(method, params)
        if method == "chat.postMessage":
            self._check_pace(params.text("channel"))
        return self._methods[method](params)

    def _check_pace(self, channel: str) -> None:
        now = trio.current_time()
        due = max(self._due.get(channel, now), now)
        if self.pace and due - now > _BURST - 1:
            self.paced += 1
            raise SlackRefusedError("ratelimited", retry_after_s=1)
        self._due[channel] = due + 1.0

    def _fault(self, method: str) -> SlackFault:
        for number, (name, fault) in enumerate(self._faults):
            if name == method:
                del self._faults[number]
                return fault
        return SlackFault()

    async def _bytes(self, connection: ServerConnection, request: HttpRequest) -> bool:
        number = request.path.rpartition("/")[2]
        if request.path.startswith("/upload/"):
            content, media_type = _sent(request)
            status = self.uploaded(number, content, media_type)
            return await connection.answer(status, b"OK", {"Content-Type": "text/plain"})
        file = self.files.get(number)
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return await connection.answer(200, b"<html>log in</html>", {"Content-Type": "text/html"})
        if file is None:
            return await connection.answer(404, b"", {})
        return await connection.answer(200, file.content, {"Content-Type": file.media_type or "text/plain"})


def _sent(request: HttpRequest) -> tuple[bytes, str]:
    """Return the bytes of an upload and their type: Slack takes a form, or the bytes as they are."""
    kind = request.headers.get("content-type", "")
    if not kind.startswith("multipart/"):
        return request.body, kind
    [sent] = request.params().uploads.values() or [None]
    return (b"", "") if sent is None else (sent.content, sent.content_type)
