"""How receiving goes: what each trouble means for people, and how long to wait before the next try."""

import random
from collections.abc import Callable
from typing import Any, Final

from daycare.base.connector import Health
from daycare.base.errors import BusyError, DaycareError, ForbiddenError
from daycare_plugins.slack.failures import REFUSED
from daycare_plugins.slack.intake import STORE

STALLED: Final = ("SLACK_STALLED", "SLACK_TIMEOUT")  # connected, and no answer in time
AWAY_MAX_S: Final = 30.0  # so that a recovery is seen within 45 s
REFUSED_S: Final = 60.0
BUSY_MAX_S: Final = 600.0


class SlackMonitor:
    """Keeps one workspace's state and tells the host when it changes."""

    def __init__(self, report: Callable[[Health], None]) -> None:
        self.identity = ""
        self._report = report
        self._told: Health | None = None
        self._in_a_row = 0

    @property
    def state(self) -> str:
        """The state last told."""
        return self._told.state if self._told is not None else "off"

    def tell(self, state: Any, reason: str = "", hint: str = "") -> None:
        """Tell a state as it is."""
        health = Health(state=state, reason=reason, hint=hint, identity=self.identity)
        if health != self._told:
            self._told = health
            self._report(health)

    def up(self) -> None:
        """Slack has said hello, or sent something."""
        self._in_a_row = 0
        self.tell("up")

    def trouble(self, error: DaycareError) -> float:
        """Tell what is wrong; return the seconds to wait before the next try."""
        self._in_a_row += 1
        refused = error.code == REFUSED or isinstance(error, ForbiddenError)
        state = "refused" if refused else "stalled" if error.code in STALLED else "away"
        self.tell(state, error.message, error.hint)
        if refused:
            return REFUSED_S
        if isinstance(error, BusyError) and error.code != STORE:
            return min(error.retry_after_s or 1.0, BUSY_MAX_S)
        longest = min(2.0 ** (self._in_a_row - 1), AWAY_MAX_S)
        return random.uniform(longest / 2, longest)
