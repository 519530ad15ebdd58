"""Who may post to the webhook: Meta, which signs what it sends, to one path and nothing else."""

import hashlib
import hmac
import math
import re
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final
from urllib.parse import parse_qs

import h11
import trio

from daycare.base.errors import DaycareError
from daycare.messenger.door import WayIn
from daycare.messenger.keeping import Connection, stored
from daycare.plugin import PluginContext
from daycare.webhook import WebhookBounds
from daycare_plugins.whatsapp_cloud.settings import APP_SECRET, CONNECTOR, VERIFY_TOKEN, CloudSettings

BOUNDS: Final = WebhookBounds(
    body_max_bytes=3 * 1024 * 1024,  # what Meta says that a request may have; usual are a few kilobytes
    connections_max=16,  # so that full ones take 48 MB at most
    idle_s=60.0,  # a proxy keeps connections between requests
)
CHALLENGE_MAX_CHARS: Final = 256  # Meta's is a number of ten digits
SIGNATURE: Final = b"x-hub-signature-256"
_SIGNED: Final = re.compile(rb"sha256=([0-9a-fA-F]{64})")

REFUSED_LOG_S: Final = 60.0  # between two lines about requests that were not let in

Take = Callable[[bytes], Awaitable[None]]


def signature(body: bytes, secret: str) -> str:
    """Return the header that proves a body."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"


class CloudHook:
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

    async def after_body(self, request: h11.Request, body: bytes) -> tuple[int, bytes]:
        """Check the signature and hand the body on; return the answer."""
        secret = self._app_secret()
        expected = signature(body, secret).removeprefix("sha256=").encode()
        if not secret or not hmac.compare_digest((_signature(request) or b"").lower(), expected):
            return self._no(403, "wrong_signature")
        try:
            await self._take(body)
        except DaycareError:
            return 503, b""
        return 200, b""

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


def way_in(
    context: PluginContext,
    connection: Connection,
    settings: CloudSettings,
    told: Callable[[str], None],
) -> tuple[WayIn, CloudHook]:
    """Return what lets Meta in, whichever node is connected; `told` is called with why it cannot come in here."""
    logged_at = -math.inf

    def refused(why: str) -> None:
        nonlocal logged_at
        now = trio.current_time()
        if now - logged_at >= REFUSED_LOG_S:
            logged_at = now
            context.log.warning("whatsapp_request_refused", why=why, so_far=hook.refused.total())

    hook = CloudHook(
        settings.path,
        lambda: stored(context, APP_SECRET)[0],
        lambda: stored(context, VERIFY_TOKEN)[0],
        partial(context.hand_on, CONNECTOR),
        refused,
    )
    return WayIn(context, connection, CONNECTOR, settings.listen, lambda _: hook, BOUNDS, told), hook


def _signature(request: h11.Request) -> bytes | None:
    given = [value for name, value in request.headers if name == SIGNATURE]
    found = _SIGNED.fullmatch(given[0]) if len(given) == 1 else None
    return found[1] if found is not None else None
