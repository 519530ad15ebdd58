"""Telegram's flood control: how often a bot may send, and who comes back too early."""

import math
from collections import deque
from typing import Any, Final

import msgspec

from daycare.testing.http_server import RefusedError

_TOLERANCE_S: Final = 1e-6  # of clocks that are sums of floats
_IMPATIENT_MAX: Final = 10_000
EVERYWHERE: Final = "*"


class FloodLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages may be sent or edited; None is no limit. What is over it is refused with 429."""

    chat_per_s: int | None = 1
    group_per_min: int | None = 20
    global_per_s: int | None = 30


class Impatient(msgspec.Struct, frozen=True, kw_only=True):
    """A call that came `early_s` before the time that a 429 had announced for `scope`: a chat, `*` or a method.

    It came `since_s` after the announcement: one that was on its way already could not know.
    """

    method: str
    params: dict[str, Any]
    at: float
    early_s: float
    since_s: float
    scope: int | str


class FloodControl:
    """Counts messages, and keeps its word: until an announced time is over, calls of that scope are refused again."""

    def __init__(self) -> None:
        self.limits: FloodLimits | None = None
        self.impatient: deque[Impatient] = deque(maxlen=_IMPATIENT_MAX)
        self._until: dict[int | str, tuple[float, float]] = {}  # when it was announced, and until when
        self._sent: dict[tuple[int | str, float], deque[float]] = {}

    def forgive(self) -> None:
        """Forget all announced times."""
        self._until.clear()

    def announce(self, scope: int | str, retry_after: float, now: float) -> None:
        """Refuse calls of this scope for so many seconds."""
        announced, until = self._until.get(scope, (now, now))
        self._until[scope] = (announced if until > now else now, max(until, now + retry_after))

    def check(self, method: str, params: dict[str, Any], chat: int | None, now: float) -> None:
        """Refuse a call that comes too early."""
        scopes: list[int | str] = [method] if chat is None else [chat, EVERYWHERE, method]
        for scope in scopes:
            announced, until = self._until.get(scope, (now, now))
            left = until - now
            if left > _TOLERANCE_S:
                since = now - announced
                self.impatient.append(
                    Impatient(method=method, params=params, at=now, early_s=left, since_s=since, scope=scope)
                )
                raise too_many(left)
            self._until.pop(scope, None)

    def count(self, chat: int, is_group: bool, messages: int, now: float) -> None:
        """Count messages to a chat, or refuse them."""
        limits = self.limits
        if limits is None:
            return
        windows: list[tuple[int | str, float, int | None]] = [
            (chat, 1.0, limits.chat_per_s),
            (chat, 60.0, limits.group_per_min if is_group else None),
            (EVERYWHERE, 1.0, limits.global_per_s),
        ]
        for scope, length_s, most in windows:
            if most is None:
                continue
            sent = self._sent.setdefault((scope, length_s), deque())
            while sent and sent[0] <= now - length_s + _TOLERANCE_S:
                sent.popleft()
            if len(sent) >= most:
                wait_s = math.ceil(sent[0] + length_s - now - _TOLERANCE_S)
                self.announce(chat, wait_s, now)  # no client is told which limit it was
                raise too_many(wait_s)
        for scope, length_s, most in windows:
            if most is not None:
                self._sent[scope, length_s].extend([now] * messages)


def too_many(seconds: float) -> RefusedError:
    """Return the refusal of a call that comes too early."""
    whole = max(math.ceil(seconds - _TOLERANCE_S), 1)
    return RefusedError(429, f"Too Many Requests: retry after {whole}", retry_after=whole)
