"""A Graph API for WhatsApp over a real socket: strict, with people who write, signed webhooks, and faults on order.

    async with FakeGraph.serve() as graph:
        graph.webhook_url = "http://127.0.0.1:8444/whatsapp"
        graph.say("4915112345678", "hi")
        ...  # a connector with base_url=graph.base_url, phone_number_id=graph.number_id and graph.token
        assert graph.sent("4915112345678")[0].text == "hello"
        graph.fault("messages", lost())

It is written from Meta's published reference and refuses what that says is refused: lengths, unknown fields, media of
other types, what comes after the 24-hour window, a wrong token.
"""

import hashlib
import re
from typing import Any, Final, Literal

import msgspec
import trio

from daycare.testing.http_server import HttpRequest, HttpServer, RefusedError, ServerConnection
from daycare_plugins.whatsapp_cloud.testing.rules import MEDIA_MAX_BYTES, MEDIA_TYPES, GraphRefusedError, check
from daycare_plugins.whatsapp_cloud.testing.world import TOKEN, CloudWorld, Sent

__all__ = ["TOKEN", "CloudFault", "FakeGraph", "Sent", "error", "garbage", "lost", "stalled", "unreached"]

What = Literal["messages", "media", "number", "download", "read", "*"]
_JSON: Final = {"Content-Type": "application/json"}


class CloudFault(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong with a call.

    After `delay_s` it is refused with the Graph error `code`, or answered with `raw` and `status`; or its connection is
    dropped, `before` or `after` it had its effect; with `stall` it stands still after that. `silent` also keeps the
    statuses of the message back.
    """

    code: int = 0
    status: int = 400
    details: str = "on order"
    raw: bytes | None = None
    drop: Literal["before", "after"] | None = None
    stall: bool = False
    delay_s: float = 0.0
    silent: bool = False
    headers: dict[str, str] = {}


def lost(*, silent: bool = False) -> CloudFault:
    """Return a lost answer: the call has its effect, and the connection breaks."""
    return CloudFault(drop="after", silent=silent)


def stalled() -> CloudFault:
    """Return an answer that never comes: the call has its effect, and the connection stands still."""
    return CloudFault(stall=True)


def unreached() -> CloudFault:
    """Return a connection that breaks before the call had any effect."""
    return CloudFault(drop="before")


def error(code: int, status: int = 400, details: str = "on order") -> CloudFault:
    """Return a refusal with a code of Meta's: 131056 for the pace to one person, 190 for the token, ..."""
    return CloudFault(code=code, status=status, details=details)


def garbage(status: int = 502) -> CloudFault:
    """Return the page of a proxy; the call had no effect."""
    return CloudFault(raw=b"<html>bad gateway</html>", status=status)


class _Planned(msgspec.Struct):
    what: str
    fault: CloudFault
    times: int
    to: str | None


class FakeGraph(CloudWorld, HttpServer):
    """The server; see `CloudWorld` for people and webhooks.

    `calls` are (method, path) of all requests. Each message that is taken is told of with `statuses`; with `reversed_`
    the latest status comes first. `window` says how a message past the window is refused: in the `answer`, or by a
    `status` after it was taken, as both happen.
    """

    def __init__(self, port: int = 0, **options: Any) -> None:
        CloudWorld.__init__(self, **options)
        HttpServer.__init__(self, port)
        self.base_url = self.origin
        self.calls: list[tuple[str, str]] = []
        self.files: dict[str, tuple[str, bytes]] = {}  # media type and content
        self.templates: dict[str, set[str]] = {"please_write": {"en_US"}}
        self.statuses: tuple[str, ...] = ("sent", "delivered")
        self.reversed_ = False
        self.window: Literal["answer", "status"] = "answer"
        self.media_origin = self.origin
        self._faults: list[_Planned] = []

    async def _run(self, listeners: list[trio.SocketListener], task_status: trio.TaskStatus[trio.CancelScope]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.deliver_for_ever)
            await nursery.start(super()._run, listeners)
            task_status.started(nursery.cancel_scope)

    def fault(self, what: What, fault: CloudFault, *, times: int = 1, to: str | None = None) -> None:
        """Let the next `times` calls of a kind, or those to somebody, go wrong."""
        self._faults.append(_Planned(what, fault, times, to))

    def no_more_faults(self) -> None:
        """Forget the faults that did not happen yet."""
        self._faults.clear()

    def file(self, media_type: str, content: bytes) -> dict[str, str]:
        """Let there be a file of somebody; return what a message says of it."""
        number = str(1_000_000 + len(self.files))
        self.files[number] = (media_type, content)
        return {"id": number, "mime_type": media_type, "sha256": hashlib.sha256(content).hexdigest()}

    # == calls =========================================================================================================

    async def _answer(self, connection: ServerConnection, request: HttpRequest) -> bool:
        self.calls.append((request.method, request.path))
        payload: dict[str, Any] = {}
        fault: CloudFault | None = None
        try:
            what, payload = self._known(request)
            fault = self._next_fault(what, str(payload.get("to", "")))
            if fault is not None:
                await trio.sleep(fault.delay_s)
                if fault.drop == "before":
                    return False
                if fault.raw is not None:
                    return await connection.answer(fault.status, fault.raw, {"Content-Type": "text/html"})
                if fault.code:
                    raise GraphRefusedError(fault.code, fault.details, fault.status)
            status, body, headers = self._done(what, request, payload, silent=fault is not None and fault.silent)
        except GraphRefusedError as refused:
            status, body, headers = refused.status, msgspec.json.encode(refused.tree), _JSON
        except RefusedError as refused:
            status, body, headers = 400, msgspec.json.encode(GraphRefusedError(100, str(refused)).tree), _JSON
        if fault is not None and fault.stall:
            await connection.gone()
        if fault is not None and (fault.drop == "after" or fault.stall):
            return False
        return await connection.answer(status, body, headers | (fault.headers if fault is not None else {}))

    def _known(self, request: HttpRequest) -> tuple[str, dict[str, Any]]:
        """Return which call it is, and its JSON."""
        if request.headers.get("authorization") != f"Bearer {self.token}":
            raise GraphRefusedError(190, "Error validating access token", 401)
        if self.token in request.path + request.query:
            raise AssertionError("the token stands in an address")
        path = request.path
        if path.startswith("/file/"):
            return "download", {}
        found = re.fullmatch(r"/v[0-9]+\.[0-9]+/([0-9]+)(/messages|/media)?", path)
        if found is None:
            raise GraphRefusedError(2500, f"Unknown path components: {path}")
        node, edge = found.groups()
        if edge is None and request.method == "GET":
            return ("number" if node == self.number_id else "media"), {"id": node}
        if node != self.number_id or request.method != "POST" or edge is None:
            raise GraphRefusedError(33, f"Unsupported {request.method.lower()} request. Object with ID '{node}' ...")
        if edge == "/media":
            return "media", {}
        try:
            payload = msgspec.json.decode(request.body, type=dict[str, Any])
        except msgspec.DecodeError:
            raise GraphRefusedError(100, "Invalid parameter: no JSON") from None
        if payload.get("messaging_product") != "whatsapp":
            raise GraphRefusedError(100, "The parameter messaging_product is required.")
        return ("read" if "status" in payload else "messages"), payload

    def _next_fault(self, what: str, to: str) -> CloudFault | None:
        for planned in self._faults:
            if planned.what in ("*", what) and planned.to in (None, to):
                planned.times -= 1
                if planned.times <= 0:
                    self._faults.remove(planned)
                return planned.fault
        return None

    def _done(
        self, what: str, request: HttpRequest, payload: dict[str, Any], *, silent: bool
    ) -> tuple[int, bytes, dict[str, str]]:
        if what == "download":
            media_type, content = self._file(request.path.removeprefix("/file/"))
            return 200, content, {"Content-Type": media_type}
        if what == "number":
            tree: dict[str, Any] = {"id": self.number_id, "display_phone_number": "+1 555-078-3881"}
            tree["verified_name"] = "Fake Business"
        elif what == "media" and request.method == "GET":
            tree = self._about(str(payload["id"]))
        elif what == "media":
            tree = self._uploaded(request)
        elif what == "read":
            tree = self._marked(payload)
        else:
            tree = self._message(payload, silent=silent)
        return 200, msgspec.json.encode(tree), _JSON

    def _file(self, number: str) -> tuple[str, bytes]:
        if number not in self.files:
            raise GraphRefusedError(100, "Unsupported get request.", 404)
        return self.files[number]

    def _about(self, number: str) -> dict[str, Any]:
        media_type, content = self._file(number)
        return {
            "url": f"{self.media_origin}/file/{number}",
            "mime_type": media_type,
            "sha256": hashlib.sha256(content).hexdigest(),
            "file_size": len(content),
            "id": number,
            "messaging_product": "whatsapp",
        }

    def _uploaded(self, request: HttpRequest) -> dict[str, Any]:
        params = request.params()
        if params.text("messaging_product") != "whatsapp" or "file" not in params.uploads:
            raise GraphRefusedError(100, "(#100) The parameter messaging_product is required.")
        upload = params.uploads["file"]
        kind = MEDIA_TYPES.get(upload.content_type)
        if kind is None or params.text("type") != upload.content_type:
            raise GraphRefusedError(100, f"Param file must be a file with one of the following types: {[*MEDIA_TYPES]}")
        if len(upload.content) > MEDIA_MAX_BYTES[kind] and kind != "image":
            raise GraphRefusedError(131053, "Media upload error: too large", 400)
        return {"id": self.file(upload.content_type, upload.content)["id"]}

    def _marked(self, payload: dict[str, Any]) -> dict[str, Any]:
        if payload["status"] != "read" or payload.get("message_id") not in self.heard:
            raise GraphRefusedError(131009, "Parameter value is not valid: message_id")
        if payload.get("typing_indicator", {"type": "text"}) != {"type": "text"}:
            raise GraphRefusedError(131009, "Parameter value is not valid: typing_indicator")
        self.read.append(payload)
        return {"success": True}

    def _message(self, payload: dict[str, Any], *, silent: bool) -> dict[str, Any]:
        kind = check(payload, {number: media[0] for number, media in self.files.items()}, self.templates)
        to = str(payload.get("to") or payload.get("recipient")).removeprefix("+")
        if to not in self.names:
            raise GraphRefusedError(131026, "Message undeliverable.")
        late = kind not in ("template", "reaction") and not self.window_open(to)
        details = "Message failed to send because more than 24 hours have passed since the customer last replied"
        if late and self.window == "answer":
            raise GraphRefusedError(131047, details)
        message = Sent(id=self.wamid(), to=to, kind=kind, payload=payload)
        if late:
            self.post(statuses=[self.status(message, "failed", 131047, details)])
        else:
            self.messages.append(message)
            if not silent and kind != "reaction":
                for state in reversed(self.statuses) if self.reversed_ else self.statuses:
                    self.post(statuses=[self.status(message, state)])
        contacts = [{"input": payload.get("to"), "wa_id": to}]
        return {"messaging_product": "whatsapp", "contacts": contacts, "messages": [{"id": message.id}]}
