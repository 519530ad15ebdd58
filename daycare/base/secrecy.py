"""Keeping secrets out of what is shown: what is known (`hide`), in every form, and what looks like a key."""

import re
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from daycare.base.bounded import Bounded

if TYPE_CHECKING:
    from daycare.base.secret_encodings import Needle, SecretEncodings  # late, too: most commands know no secret

SECRET: Final = "[secret]"  # noqa: S105

_SECRETS_MAX: Final = 512  # remembered; the oldest make room, and are known again when they are read
_CACHED_MAX_CHARS: Final = 200  # paths, names and ids come again and again, long texts do not
# What looks like a secret, after the lower-case word without which it need not be looked for: almost every text is
# done after a few searches for a word, which are a hundred times as fast as one expression for all.
_LOOKS: Final = tuple(
    (word, pattern)
    for word, pattern in (
        ("sk-", r"()\bsk-[\w-]{8,}"),  # OpenAI and its kin
        ("gsk_", r"()\bgsk_[\w-]{10,}"),
        ("hf_", r"()\bhf_[\w-]{10,}"),
        ("gh", r"()\b(?:gh[a-z]_|github_pat_)[\w-]{10,}"),
        ("glpat-", r"()\bglpat-[\w-]{10,}"),
        ("xox", r"()\bxox[a-z]-[\w-]{10,}"),  # Slack
        ("xapp-", r"()\bxapp-[\w-]{10,}"),
        ("aiza", r"()\bAIza[\w-]{30,}"),  # Google
        (":", r"()(?<!\d)\d{6,12}:[\w-]{30,}"),  # a Telegram bot, also in a URL
        ("eyj", r"()\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),  # a signed web token
        ("@", r"(://)[^\s/@:]*:[^\s/@]+(?=@)"),  # user and password of a URL
        ("bearer", r"(bearer\s)[\w.~+/=-]{8,}"),
        ("basic", r"(basic\s)(?=\S*[\d=])[\w.~+/=-]{8,}"),  # a digit or =: "basic" is a word of English, too
    )
)
_HEADER: Final = r"""((?:authorization|x-api-key|cookie)(?:\s*[:=]\s*|["']\s*[:,]\s*b?["']))[^\n"']+"""
_HEADERS: Final = tuple((word, _HEADER) for word in ("authorization", "api-key", "cookie"))

_known: "Bounded[str | bytes, frozenset[Needle]]" = Bounded(_SECRETS_MAX)
_forms: "SecretEncodings | None" = None
_changes = 0
_changing = threading.Lock()


def hide(secret: str | bytes) -> None:
    """Never show `secret` from now on, in whatever form. Whoever decrypts or is given a secret calls this first."""
    global _forms, _changes  # the log is the process's, and so is what it must not say
    if secret in _known:
        return
    from daycare.base.secret_encodings import needles

    with _changing:
        _known[secret] = needles(secret)
        _forms = None  # made anew when something is to be shown
        _changes += 1


def hide_key(text: str) -> None:
    """Hide a key that is written in base64, and the bytes it stands for."""
    from daycare.base.secret_encodings import key_bytes

    hide(text)
    if raw := key_bytes(text):
        hide(raw)


def forget_hidden() -> None:
    """Know of no secret any more, as at the start of the process."""
    global _forms, _changes
    with _changing:
        _known.clear()
        _forms = None
        _changes += 1


def without_known(text: str) -> str:
    """Return `text` with each secret that is known replaced by `[secret]`, in whatever form it stands there."""
    spans = _ready().spans(text) if _known else ()
    if not spans:
        return text
    pieces: list[str] = []
    done = 0
    for start, end in spans:
        pieces += (text[done:start], SECRET)
        done = end
    return "".join((*pieces, text[done:]))


def known_needles() -> tuple[Sequence[str], frozenset[str]]:
    """Return what known secrets are found by, in small letters and in order, and how that begins."""
    return _ready().needles if _known else ((), frozenset())


def names_known(name: str) -> bool:
    """Whether a secret stands in a name or an id; one of under eight characters may be there by chance."""
    return bool(_known) and bool(_ready().spans(name, short=False))


def _ready() -> "SecretEncodings":
    global _forms
    forms = _forms
    if forms is None:
        from daycare.base.secret_encodings import SecretEncodings

        with _changing:
            forms = _forms = SecretEncodings(tuple(_known.values()))
    return forms


def without_secrets(text: str) -> str:
    """Return `text` with each known secret, and what looks like one, replaced by `[secret]`."""
    return _cached(text, _changes) if len(text) <= _CACHED_MAX_CHARS else _redacted(text)


def looks_secret(text: str) -> bool:
    """Whether there is something in `text` that looks like a key, a bot token or a password in a URL."""
    lower = text.lower()
    return any(word in lower and _compiled(pattern).search(text) for word, pattern in _LOOKS)


def _redacted(text: str) -> str:
    text = without_known(text)
    lower = text.lower()
    for word, pattern in (*_HEADERS, *_LOOKS):
        if word in lower:
            text = _compiled(pattern).sub(rf"\1{SECRET}", text)
    return text


@lru_cache(4_096)
def _cached(text: str, changes: int) -> str:
    """Redact what comes again and again; what was made before a secret was known counts no more."""
    return _redacted(text)


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)  # late: most commands never need one
