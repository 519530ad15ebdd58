"""Who may post to the webhook: Telegram, which knows a secret, to one path and nothing else."""

import hmac
from collections.abc import Awaitable, Callable
from typing import Final

import h11

from daycare.base.errors import DaycareError
from daycare.webhook import WebhookBounds

BOUNDS: Final = WebhookBounds(
    body_max_bytes=1024 * 1024,  # an update has a few kilobytes
    connections_max=64,  # Telegram opens as many as `setWebhook` allowed it, see webhook.py
    idle_s=90.0,  # Telegram keeps connections between updates
)
_SECRET: Final = b"x-telegram-bot-api-secret-token"

Take = Callable[[bytes], Awaitable[None]]


class TelegramHook:
    """Calls `take` with each body, and answers 200 once it has returned; 503 when it raised, so that it comes again."""

    def __init__(self, path: str, secret: str, take: Take) -> None:
        self._path = path.encode()
        self._secret = secret.encode()
        self._take = take

    def before_body(self, request: h11.Request) -> tuple[int, bytes]:
        """Refuse a request before its body is read."""
        given = [value for name, value in request.headers if name == _SECRET]
        if not hmac.compare_digest(given[0] if len(given) == 1 else b"", self._secret):
            return 401, b""
        if request.target.split(b"?")[0] != self._path:
            return 404, b""
        return (0 if request.method == b"POST" else 405), b""

    async def after_body(self, _: h11.Request, body: bytes) -> tuple[int, bytes]:
        """Hand a body on; return the answer."""
        try:
            await self._take(body)
        except DaycareError:
            return 503, b""
        return 200, b""
