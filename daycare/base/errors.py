"""One tree of errors. The class is the decision the caller can take; `code` is stable; `hint` is the next step.

what was tried, on what, why.  Hint: the command that repairs it
"""

import math
from typing import Final

from daycare.base.limits import OUTAGE_MAX_S
from daycare.base.secrecy import without_secrets
from daycare.base.wellformed import well_formed

_WORDS_MAX_CHARS: Final = 16_000  # a list of all that is wrong with a large config.toml fits


class DaycareError(Exception):
    """Base of every error that daycare raises on purpose.

    `message` says what was tried, on what, and why it failed. `hint` is the next command or edit. `code` is a stable
    upper-case name that programs may match on. Neither ever contains a secret: errors are shown, logged, stored and
    sent to people, so what a platform, a library or a plugin said in them is redacted where the error is made, and made
    text that can be stored. `retry_after_s` is finite and not negative, at most a day, or None for unsaid.
    """

    exit_code = 1
    http_status = 500

    def __init__(self, code: str, message: str, *, hint: str = "", retry_after_s: float | None = None) -> None:
        message, hint = _words(message), _words(hint)
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.retry_after_s = retry_after_s

    @property
    def retry_after_s(self) -> float | None:
        """Seconds after which another try may succeed, where that is known."""
        return self._retry_after_s

    @retry_after_s.setter
    def retry_after_s(self, seconds: float | None) -> None:
        known = isinstance(seconds, int | float) and math.isfinite(seconds) and seconds >= 0
        self._retry_after_s = min(seconds, OUTAGE_MAX_S) if known and seconds is not None else None

    def __str__(self) -> str:
        return f"{self.message}. Hint: {self.hint}" if self.hint else self.message


def _words(said: object) -> str:
    """Return what plugins and platforms said as text without secrets, bounded, that every store and socket takes."""
    text = said if isinstance(said, str) else repr(said)
    # Twice as much is read as is kept: what looks like a secret must not be cut before it is seen.
    return without_secrets(well_formed(text[: 2 * _WORDS_MAX_CHARS]))[:_WORDS_MAX_CHARS]


class InvalidError(DaycareError):
    """The input is wrong and stays wrong: correct it before trying again."""

    exit_code = 2
    http_status = 400


class NotFoundError(DaycareError):
    """What was named does not exist, or no longer: check its name or number."""

    exit_code = 3
    http_status = 404


class ForbiddenError(DaycareError):
    """The caller may not do this: somebody else has to, or permission has to be given."""

    exit_code = 4
    http_status = 403


class SetupError(ForbiddenError):
    """A key, credit or the name of a model is missing or wrong: a person has to set it right first. `hint` says how.

    What needs it waits: nothing is wrong with what was asked, and asking again before that is no use.
    """


class ConflictError(DaycareError):
    """The state of the thing forbids it now: look at it first."""

    exit_code = 5
    http_status = 409


class StoppedError(DaycareError):
    """Somebody stopped it before it was done: what it did until then stands."""

    exit_code = 6


class BusyError(DaycareError):
    """A bound is reached or a holder is in the way: try again after `retry_after_s` seconds."""

    exit_code = 75
    http_status = 429


class BudgetError(BusyError):
    """A budget is used up: wait until it renews, or have it raised. Asking again before that is no use.

    `brief` says it in a few words to who has heard it before.
    """

    def __init__(
        self, code: str, message: str, *, hint: str = "", retry_after_s: float | None = None, brief: str = ""
    ) -> None:
        super().__init__(code, message, hint=hint, retry_after_s=retry_after_s)
        self.brief = brief


class UnavailableError(DaycareError):
    """Something outside (a provider, a platform, the disk) failed: retrying later may help."""

    exit_code = 69
    http_status = 503


class UncertainError(UnavailableError):
    """Something outside was asked to do it and did not say whether it has: look before asking for it again."""


class AwayError(UnavailableError):
    """A whole service is away, for everybody: wait until it is back; what waits for it has done nothing wrong."""


class StoreAwayError(UnavailableError):
    """The store neither reads nor writes for now: what needs it waits, and nothing of it counts as a failure."""


class BrokenError(DaycareError):
    """Configuration or stored data cannot be used: an operator has to repair it before the daemon can start."""

    exit_code = 78
    http_status = 500
