"""What a failed call means: errors of the library, of HTTP and of Telegram as ours, with no token in any of them."""

import re
import warnings
from datetime import timedelta
from typing import Final

import httpx
import trio
from telegram import error as library

from daycare.base.error_boundary import causes
from daycare.base.errors import (
    BusyError,
    ConflictError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)
from daycare.messenger.http import Server, of_http

TOKEN: Final = re.compile(r"(?<!\d)\d{3,}+(?::|%3A)[\w-]{3,}", re.IGNORECASE)
DESCRIPTION_MAX_CHARS: Final = 300  # of what Telegram says; the longest known are a third of that
BOTFATHER: Final = "copy the token from @BotFather again"


class ChatMigratedError(ConflictError):
    """The group has become a supergroup: it has another id from now on."""

    def __init__(self, message: str, new_chat_id: int) -> None:
        super().__init__("CHAT_MIGRATED", message)
        self.new_chat_id = new_chat_id


class FloodError(Exception):
    """A 429. The library's own error for it warns of its next version whenever it is made."""

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"retry after {retry_after_s:g} s")
        self.retry_after_s = retry_after_s


# What Telegram says in a 400, in lower case -> code and class. The first that fits counts.
_REFUSALS: Final[tuple[tuple[str, str, type[DaycareError]], ...]] = (
    ("message is not modified", "NOT_MODIFIED", InvalidError),
    (r"repl(y|ied).*not found|quote_text_invalid", "REPLY_GONE", InvalidError),
    (r"thread not found|topic_(deleted|id_invalid)", "TOPIC_GONE", NotFoundError),
    ("topic_closed", "TOPIC_CLOSED", ForbiddenError),
    (r"message to \w+ not found|message can't be (edited|deleted)|message_id_invalid", "MESSAGE_GONE", NotFoundError),
    (r"(chat|user) not found|(peer|chat)_id_invalid|group chat was|group is deactivated", "CHAT_GONE", NotFoundError),
    (r"(message|caption|text) is too long|(message|caption)_too_long", "MESSAGE_TOO_LONG", InvalidError),
    (r"(text|message) (must be non-empty|is empty)|message_empty", "MESSAGE_EMPTY", InvalidError),
    (r"parse entities|messageentity|message entity|entity begin|entity has|entit\w+_", "TELEGRAM_MARKUP", InvalidError),
    ("effect_id_invalid", "EFFECT_REFUSED", InvalidError),
    ("no text in the message to edit", "NO_TEXT", InvalidError),
    ("reaction", "REACTION_REFUSED", InvalidError),
    (r"query is too old|query_id_invalid", "CALLBACK_OLD", InvalidError),
    ("file is too big", "FILE_TOO_LARGE", InvalidError),
    (r"wrong file|file_(reference|id)|temporarily unavailable", "FILE_GONE", NotFoundError),
    (
        r"(photo|image|video|audio|media|voice)_|voice messages|too big for a|failed to get http",
        "MEDIA_REFUSED",
        InvalidError,
    ),
    (r"not enough rights|have no rights|need administrator|_forbidden|write access", "NO_RIGHTS", ForbiddenError),
)
_SERVER: Final = Server(
    name="Telegram",
    setting="base_url in [plugins.telegram]",
    timeout="TELEGRAM_TIMEOUT",
    lost="TELEGRAM_LOST",
    url="TELEGRAM_URL",
    away="TELEGRAM_NOT_SENT",
    no_name="TELEGRAM_DNS",
    no_proof="TELEGRAM_TLS",
    unreachable="TELEGRAM_UNREACHABLE",
)


def mapped(error: Exception, doing: str) -> DaycareError:
    """Return our error for what a call raised while `doing` something.

    `AwayError` means that surely nothing has arrived; any other `UnavailableError`, that it may have.
    """
    if isinstance(error, DaycareError):
        return error
    if isinstance(error, FloodError):
        return _flood(doing, error.retry_after_s)
    if isinstance(error, library.RetryAfter):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            after = error.retry_after
        return _flood(doing, after.total_seconds() if isinstance(after, timedelta) else float(after))
    http = next((cause for cause in causes(error) if isinstance(cause, (httpx.HTTPError, httpx.InvalidURL))), None)
    if http is not None:
        if isinstance(http, httpx.DecodingError):
            return UnavailableError("TELEGRAM_DOWN", f"{doing}: the answer cannot be read")
        return of_http(http, doing, _SERVER)
    if isinstance(error, (library.TimedOut, trio.TooSlowError)):
        return UnavailableError("TELEGRAM_TIMEOUT", f"{doing}: Telegram did not answer in time")
    if any(isinstance(cause, UnicodeEncodeError) for cause in causes(error)):
        return InvalidError("TELEGRAM_REFUSED", f"{doing}: the text is not valid Unicode")
    if isinstance(error, library.TelegramError):
        return _of_telegram(error, doing)
    return UnavailableError("TELEGRAM_DOWN", f"{doing}: {type(error).__name__}")


def described(text: str) -> str:
    """Return what Telegram says, without its `Bad Request: `, without a token, and not too long."""
    text = re.sub(r"^(Bad Request|Forbidden|Conflict|Unauthorized): ", "", " ".join(text.split()))
    return TOKEN.sub("<token>", text)[:DESCRIPTION_MAX_CHARS]


def _flood(doing: str, retry_after_s: float) -> BusyError:
    wait_s = max(retry_after_s, 1.0)
    message = f"{doing}: Telegram asks to wait for {wait_s:g} s"
    return BusyError("TELEGRAM_FLOOD", message, retry_after_s=wait_s)


def _of_telegram(error: library.TelegramError, doing: str) -> DaycareError:
    said = described(error.message)
    message = f"{doing}: {said}"
    if isinstance(error, library.ChatMigrated):
        return ChatMigratedError(f"{doing}: the group is a supergroup now", error.new_chat_id)
    if isinstance(error, library.EndPointNotFound):
        return InvalidError("TELEGRAM_METHOD", f"{doing}: the server does not know this method")
    if isinstance(error, library.InvalidToken):
        return ForbiddenError("TELEGRAM_TOKEN", f"{doing}: Telegram does not know this token", hint=BOTFATHER)
    if isinstance(error, library.Forbidden):
        if "rights" in said:
            return ForbiddenError("NO_RIGHTS", message)
        return ForbiddenError("RECIPIENT_GONE", message)
    if isinstance(error, library.Conflict):
        return ConflictError("TELEGRAM_CONFLICT", message)
    if isinstance(error, library.BadRequest):
        for pattern, code, kind in _REFUSALS:
            if re.search(pattern, said.lower()):
                return kind(code, message)
        return InvalidError("TELEGRAM_REFUSED", message)
    if said.startswith("Too Many Requests"):  # without the seconds
        return _flood(doing, 1.0)
    if said.startswith("Request Entity Too Large"):
        return InvalidError("FILE_TOO_LARGE", message)
    return UnavailableError("TELEGRAM_DOWN", f"{doing}: Telegram's server is out of order")
