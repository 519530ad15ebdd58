"""How receiving goes: what each trouble means for people, and how long to wait before the next try.

A bot is `up` only after a poll has completed, so that being deaf is never called healthy. Whatever goes wrong, looking
again is left to nobody else: every state is left without a restart.
"""

import random
from collections.abc import Callable
from typing import Final

from daycare.base.connector import Health
from daycare.base.errors import BusyError, ConflictError, DaycareError, ForbiddenError

STALLED: Final = ("TELEGRAM_STALLED", "TELEGRAM_TIMEOUT")  # connected, and no answer in time
WEBHOOK_SET: Final = "TELEGRAM_WEBHOOK_SET"  # a poll was refused because updates go to a webhook
LOCKED: Final = "TELEGRAM_LOCKED"
STORE: Final = "TELEGRAM_STORE"  # the store takes nothing

AWAY_MAX_S: Final = 30.0  # so that a recovery is seen within 45 s
CONFLICT_S: Final = (35.0, 60.0, 120.0, 240.0, 300.0)  # the server holds a poll for 30 s: be away for longer than that
LOCKED_S: Final = 5.0  # looking costs nothing
REFUSED_S: Final = 60.0
FLOOD_MAX_S: Final = 600.0

_OTHERS: Final = (
    "somebody else receives this bot's messages: another program or another daycare home with the same token"
)


class Monitor:
    """Keeps one bot's state and tells the host when it changes."""

    def __init__(self, report: Callable[[Health], None], secret: str) -> None:
        self.identity = ""
        self._report = report
        self._secret = secret
        self._told: Health | None = None
        self._in_a_row = 0
        self._kind = ""

    @property
    def state(self) -> str:
        """The state last told."""
        return self._told.state if self._told is not None else "off"

    def off(self, reason: str = "no token is stored") -> None:
        """There is no token."""
        self.identity = ""
        self._tell(Health(state="off", reason=reason, hint=f"daycare keys add {self._secret}"))

    def starting(self) -> None:
        """There is a token, and nothing was received yet."""
        self._in_a_row, self._kind = 0, ""
        self._tell(Health(state="starting", reason="asking Telegram for the first time"))

    def up(self, note: str = "") -> None:
        """Something was received, or a wait for it ended well."""
        self._in_a_row, self._kind = 0, ""
        self._tell(Health(state="up", reason=note, identity=self.identity))

    def trouble(self, error: DaycareError) -> float:
        """Tell what is wrong; return the seconds to wait before the next try."""
        health, kind = self._health(error)
        self._in_a_row = self._in_a_row + 1 if kind == self._kind else 1
        self._kind = kind
        self._tell(health)
        return self._delay_s(kind, error)

    def _health(self, error: DaycareError) -> tuple[Health, str]:
        if error.code == LOCKED:
            return self._made("conflict", error), "locked"
        if error.code == WEBHOOK_SET:
            return self._made(
                "conflict", error, "the bot had a webhook, which was removed: is another program setting it again?"
            ), "conflict"
        if error.code in STALLED:
            return self._made("stalled", error), "away"
        if isinstance(error, ConflictError):
            hint = "stop the other one, or make a new token with @BotFather (/revoke) and store it here: "
            return self._made("conflict", error, hint + f"daycare keys add {self._secret}", _OTHERS), "conflict"
        if isinstance(error, ForbiddenError):
            hint = f"copy the token from @BotFather again: daycare keys add {self._secret}"
            return self._made("refused", error, hint), "refused"
        if isinstance(error, BusyError) and error.code != STORE:
            return self._made("away", error), "flood"
        return self._made("away", error), "away"

    def _made(self, state: str, error: DaycareError, hint: str = "", reason: str = "") -> Health:
        return Health(
            state=state,  # type: ignore[arg-type]  # one of the literals, see above
            reason=reason or error.message,
            hint=hint or error.hint,
            identity=self.identity,
        )

    def _delay_s(self, kind: str, error: DaycareError) -> float:
        if kind == "locked":
            return LOCKED_S
        if kind == "refused":
            return REFUSED_S
        if kind == "conflict":
            return CONFLICT_S[min(self._in_a_row, len(CONFLICT_S)) - 1]
        if kind == "flood":
            return min(max(error.retry_after_s or 1.0, 1.0), FLOOD_MAX_S)
        delay_s: float = min(2.0 ** min(self._in_a_row - 1, 9), AWAY_MAX_S)  # a night's failures overflow
        return delay_s * random.uniform(0.6, 1.0)

    def _tell(self, health: Health) -> None:
        if health != self._told:
            self._told = health
            self._report(health)
