"""Keeping secrets out of what is shown.

Redaction works on what is known (`hide`), on what looks like a key, and on fields whose name says that they hold one.
It does not find a secret that was cut in pieces or encoded.
"""

import re
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from typing import Any, Final

SECRET: Final = "[secret]"  # noqa: S105

_HIDE_MIN_CHARS: Final = 4  # hiding shorter words would garble every line
_CACHED_MAX_CHARS: Final = 200  # paths, names and ids come again and again, long texts do not
_NAMED: Final = re.compile(r"(?i)(?:.*[_-])?(?:api[_-]?key|secret|password|passwd|authorization|credentials?|token)")
# What looks like a secret, after the lower-case word without which it need not be looked for: almost every text is
# done after a few searches for a word, which are a hundred times as fast as one expression for all.
_LOOKS: Final = tuple(
    (word, re.compile(pattern, re.IGNORECASE))
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
_HEADER: Final = re.compile(
    r"""((?:authorization|x-api-key|cookie)(?:\s*[:=]\s*|["']\s*[:,]\s*b?["']))[^\n"']+""", re.IGNORECASE
)
_HEADERS: Final = tuple((word, _HEADER) for word in ("authorization", "api-key", "cookie"))

_hidden: tuple[str, ...] = ()  # longest first: a secret may be part of another


def hide(secret: str) -> None:
    """Never show `secret` from now on. Whoever decrypts a secret calls this before using it."""
    global _hidden  # the log is the process's, and so is what it must not say
    if len(secret) >= _HIDE_MIN_CHARS and secret not in _hidden:
        _hidden = tuple(sorted((*_hidden, secret), key=len, reverse=True))
        _cached.cache_clear()


def without_secrets(text: str) -> str:
    """Return `text` with each hidden secret, and what looks like one, replaced by `[secret]`."""
    return _cached(text) if len(text) <= _CACHED_MAX_CHARS else _redacted(text)


def looks_secret(text: str) -> bool:
    """Whether there is something in `text` that looks like a key, a bot token or a password in a URL."""
    lower = text.lower()
    return any(word in lower and pattern.search(text) for word, pattern in _LOOKS)


@lru_cache(1_024)
def names_secret(field: str) -> bool:
    """Whether a field of this name holds a secret: `api_key`, `bot_token`, `password`, ..."""
    return _NAMED.fullmatch(field) is not None


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Structlog processor: each value becomes plain data without secrets."""
    return {without_secrets(key): SECRET if names_secret(key) else _plain(value) for key, value in event.items()}


def _redacted(text: str) -> str:
    for secret in _hidden:
        text = text.replace(secret, SECRET)
    lower = text.lower()
    for word, pattern in (*_HEADERS, *_LOOKS):
        if word in lower:
            text = pattern.sub(rf"\1{SECRET}", text)
    return text


_cached: Final = lru_cache(4_096)(_redacted)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return redact(None, "", {str(key): inner for key, inner in value.items()})
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return without_secrets(value if isinstance(value, str) else repr(value))
