"""What a model server's error means, in any of the shapes and words that are in use. Does no I/O."""

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any, Final

import msgspec

from daycare.base.errors import DaycareError, InvalidError, SetupError, UnavailableError

SHOWN_MAX_CHARS: Final = 300  # of a server's own words in an error
_RETRY_LATER: Final = {408, 409, 425}
_RETRY_AFTER_MAX_S: Final = 86_400.0  # a server that asks for more is broken or means "never"

# OpenAI, llama.cpp and Anthropic have a code for it; all others, and their older versions, only words.
_OVERFLOW: Final = re.compile(
    r"context_length_exceeded|exceed_context_size|request_too_large"
    r"|(?:prompt|input) is too long|too many (?:input |prompt )?tokens"
    r"|reduce the length of the (?:messages|prompt|input)"
    r"|(?:exceed|maximum|longer|larger|too large|greater|overflow)[^\n]{0,120}context (?:length|size|window|limit)"
    r"|context (?:length|size|window|limit)[^\n]{0,120}(?:exceed|too small|full|overflow|longer|larger)"
    r"|maximum (?:prompt|model) length|input token(?:s| count)[^\n]{0,60}exceed|context the overflows",
    re.IGNORECASE,
)
_NO_CREDIT: Final = re.compile(r"insufficient_quota|credit balance is too low|insufficient credits", re.IGNORECASE)


class Refused(Exception):  # noqa: N818 - not an error of ours: what `explain` makes of it is
    """A server reported an error within a reply; `error` is the object that it sent."""

    def __init__(self, error: Any) -> None:
        super().__init__("the server reported an error")
        self.error = error


class Refusal(msgspec.Struct, frozen=True):
    """An error's class, code and words; the words are the server's and not yet scrubbed."""

    kind: type[DaycareError]
    code: str
    words: str
    hint: str = ""
    points_at_url: bool = False


def explain(status: int | None, error: Any) -> Refusal:
    """Return what an error means that came with a status, or None: within a reply."""
    words = _words(error)
    told = f"{_codes(error)} {words}"
    if _NO_CREDIT.search(told) or status == 402:
        hint = "add credit at the provider, or choose another model"
        return Refusal(SetupError, "CREDIT_EXHAUSTED", words, hint)
    if status == 429 or (status is None and "rate_limit" in told):
        return Refusal(UnavailableError, "RATE_LIMITED", words)
    if _OVERFLOW.search(told) or status == 413:
        hint = "shorten the conversation (/reset starts a new one), or choose a model that reads more"
        return Refusal(InvalidError, "CONTEXT_OVERFLOW", words, hint)
    if status is None:
        return Refusal(UnavailableError, "MODEL_FAILED", words)
    if status >= 500 or status in _RETRY_LATER:
        return Refusal(UnavailableError, "PROVIDER_FAILED", words)
    if status == 404:
        return Refusal(SetupError, "MODEL_NOT_FOUND", words, "check the model's name", points_at_url=True)
    if status < 400:
        return Refusal(SetupError, "BASE_URL_INVALID", words or "the server redirects", points_at_url=True)
    return Refusal(InvalidError, "REQUEST_REFUSED", words, "correct the request: trying again is no use")


def scrub(words: str, key: str) -> str:
    """Take out the key, which some servers repeat, and what could forge lines of a log."""
    words = words.replace(key, "***") if key else words
    return re.sub(r"[\x00-\x1f\x7f-\x9f\s]+", " ", words)[:SHOWN_MAX_CHARS].strip()


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return how long the server asks to wait. A date is compared with the server's own clock."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), _RETRY_AFTER_MAX_S) if seconds == seconds else None


def _words(error: Any) -> str:
    """Return the message in an error's JSON."""
    for field in ("error", "message", "detail"):
        if isinstance(error, dict) and error.get(field):
            return _words(error[field])
    return error if isinstance(error, str) else ""


def _codes(error: Any) -> str:
    """Return its machine-readable names."""
    if not isinstance(error, dict):
        return ""
    inner = error.get("error", error)
    return " ".join(str(inner.get(field) or "") for field in ("code", "type")) if isinstance(inner, dict) else ""
