"""The Events API: Slack posts what happens to one path of ours, and signs it. It is committed before it is answered.

Buttons and slash commands come to the same path. A request that fails is sent again by Slack, three times.
"""

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final
from urllib.parse import parse_qs

import h11
import msgspec
import trio

from daycare.base.errors import DaycareError
from daycare.messenger.door import WayIn
from daycare.messenger.json_paths import text_at
from daycare.messenger.keeping import Connection
from daycare.plugin import PluginContext
from daycare.webhook import WebhookBounds
from daycare_plugins.slack.health import SlackMonitor
from daycare_plugins.slack.intake import Payload, SlackIntake
from daycare_plugins.slack.settings import SlackWorkspaceSettings

BOUNDS: Final = WebhookBounds(body_max_bytes=1024 * 1024, connections_max=16, idle_s=60.0)
OLD_S: Final = 300.0  # an older signature may have been recorded by somebody: Slack says five minutes
CHALLENGE_MAX_CHARS: Final = 256
SIGNATURE: Final = b"x-slack-signature"
STAMP: Final = b"x-slack-request-timestamp"
_SIGNED: Final = re.compile(rb"v0=([0-9a-f]{64})")
_STAMPED: Final = re.compile(rb"\d{1,12}")


def signature(stamp: bytes, body: bytes, secret: str) -> bytes:
    """Return the header that proves a body sent at a time."""
    return b"v0=" + hmac.new(secret.encode(), b"v0:" + stamp + b":" + body, hashlib.sha256).hexdigest().encode()


class SlackHook:
    """Calls `take` with each body whose signature is right and new, and answers 200 once that has returned.

    `proof` is asked at each request; without a secret nothing is let in. `refused` counts by reason what was not.
    """

    def __init__(
        self,
        path: str,
        proof: Callable[[], str],
        take: Callable[[bytes], Awaitable[None]],
        now_s: Callable[[], float],
    ) -> None:
        self.refused: Counter[str] = Counter()
        self._path = path.encode()
        self._proof = proof
        self._take = take
        self._now_s = now_s

    def before_body(self, request: h11.Request) -> tuple[int, bytes]:
        """Return the answer to a request whose body need not be read; status 0 if it has to be."""
        if request.target.partition(b"?")[0] != self._path:
            return 404, b""
        if request.method != b"POST":
            return 405, b""
        stamp = _header(request, STAMP, _STAMPED)
        if not stamp or not _header(request, SIGNATURE, _SIGNED):
            return self._no(401, "not_signed")
        if abs(self._now_s() - int(stamp)) > OLD_S:
            return self._no(403, "too_old")
        return 0, b""

    async def after_body(self, request: h11.Request, body: bytes) -> tuple[int, bytes]:
        """Check the signature and hand the body on; return the answer."""
        secret = self._proof()
        expected = signature(_header(request, STAMP, _STAMPED), body, secret)
        if not secret or not hmac.compare_digest(_header(request, SIGNATURE, _SIGNED), expected):
            return self._no(403, "wrong_signature")
        payload = payload_of(body)
        if text_at(payload.body, "type") == "url_verification":
            challenge = text_at(payload.body, "challenge")
            fits = challenge.isascii() and challenge.isprintable() and len(challenge) <= CHALLENGE_MAX_CHARS
            return (200, challenge.encode()) if fits else self._no(400, "bad_challenge")
        try:
            await self._take(body)
        except DaycareError:
            return 503, b""
        return 200, b""

    def _no(self, status: int, why: str) -> tuple[int, bytes]:
        self.refused[why] += 1
        return status, b""


def way_in(
    context: PluginContext,
    connection: Connection,
    name: str,
    settings: SlackWorkspaceSettings,
    proof: Callable[[], str],
    told: Callable[[str], None],
) -> WayIn:
    """Return what lets Slack in, whichever node is connected; `told` is called with why it cannot come in here."""
    hook = SlackHook(settings.path, proof, partial(context.hand_on, name), lambda: context.now_ms() / 1000)
    return WayIn(context, connection, name, settings.listen, lambda _: hook, BOUNDS, told)


class SlackEvents:
    """Receives for one workspace over HTTP, until cancelled. `prepare` is done before the first request is taken."""

    def __init__(
        self,
        context: PluginContext,
        settings: SlackWorkspaceSettings,
        intake: SlackIntake,
        monitor: SlackMonitor,
        name: str,
        prepare: Callable[[], Awaitable[None]],
    ) -> None:
        self._context = context
        self._settings = settings
        self._name = name
        self._intake = intake
        self._monitor = monitor
        self._prepare = prepare

    async def run(self) -> None:
        """Take what comes in."""
        while True:
            try:
                await self._prepare()
                break
            except DaycareError as error:
                await trio.sleep(self._monitor.trouble(error))
        self._monitor.tell(
            "starting", "Slack has not called yet", f"its Request URL has the path {self._settings.path}"
        )
        with self._context.taking(self._name, self._take):
            await trio.sleep_forever()

    async def _take(self, body: bytes) -> None:
        try:
            await self._intake.take([payload_of(body)])
        except DaycareError as error:
            self._monitor.trouble(error)
            raise
        self._monitor.up()


def payload_of(body: bytes) -> Payload:
    """Return what a request holds: events are JSON, buttons JSON in a form, slash commands a form."""
    try:
        return Payload("events_api", msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=100) if body.count(b"&") < 100 else {}
    form = {name: values[0] for name, values in fields.items()}
    if "payload" not in form:
        return Payload("slash_commands" if "command" in form else "events_api", form)
    try:
        return Payload("interactive", msgspec.json.decode(form["payload"]))
    except msgspec.DecodeError:
        return Payload("interactive", form["payload"])


def _header(request: h11.Request, name: bytes, shape: re.Pattern[bytes]) -> bytes:
    given = [value for key, value in request.headers if key == name]
    return given[0] if len(given) == 1 and shape.fullmatch(given[0]) else b""
