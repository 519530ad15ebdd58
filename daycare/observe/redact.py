"""Keeping secrets out of what is shown.

Redaction works on what is known (`hide`), on what looks like a key, and on fields whose name says that they hold one.
It does not find a secret that was cut in pieces or encoded.
"""

import re
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

SECRET: Final = "[secret]"  # noqa: S105

_HIDE_MIN_CHARS: Final = 4  # hiding shorter words would garble every line
_NAMED: Final = re.compile(r"(?i)(?:.*[_-])?(?:api[_-]?key|secret|password|passwd|authorization|credentials?|token)")
_LOOKS: Final = re.compile(
    r"""
      \b sk-[\w-]{8,}                                      # OpenAI and its kin
    | \b (?:gh[a-z]_|github_pat_|xox[a-z]-|xapp-|glpat-|hf_|gsk_) [\w-]{10,}
    | \b AIza [\w-]{30,}                                   # Google
    | (?<!\d) \d{6,12} : [\w-]{30,}                        # a Telegram bot, also in a URL
    | \b eyJ[\w-]{8,} \. [\w-]{8,} \. [\w-]*               # a signed web token
    | (?<=://) [^\s/@:]* : [^\s/@]+ (?=@)                  # user and password of a URL
    | (?<=bearer\s) [\w.~+/=-]{8,}
    | (?<=basic\s)  [\w.~+/=-]{8,}
    """,
    re.VERBOSE | re.IGNORECASE,
)
_HEADER: Final = re.compile(r"""(?i)(authorization|x-api-key|cookie)(\s*[:=]\s*|["']\s*[:,]\s*b?["'])[^\n"']+""")

_hidden: tuple[str, ...] = ()  # longest first: a secret may be part of another


def hide(secret: str) -> None:
    """Never show `secret` from now on. Whoever decrypts a secret calls this before using it."""
    global _hidden  # the log is the process's, and so is what it must not say
    if len(secret) >= _HIDE_MIN_CHARS and secret not in _hidden:
        _hidden = tuple(sorted((*_hidden, secret), key=len, reverse=True))


def without_secrets(text: str) -> str:
    """Return `text` with each hidden secret, and what looks like one, replaced by `[secret]`."""
    for secret in _hidden:
        text = text.replace(secret, SECRET)
    return _LOOKS.sub(SECRET, _HEADER.sub(rf"\1\2{SECRET}", text))


def looks_secret(text: str) -> bool:
    """Whether there is something in `text` that looks like a key, a bot token or a password in a URL."""
    return _LOOKS.search(text) is not None


def names_secret(field: str) -> bool:
    """Whether a field of this name holds a secret: `api_key`, `bot_token`, `password`, ..."""
    return _NAMED.fullmatch(field) is not None


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Structlog processor: each value becomes plain data without secrets."""
    return {without_secrets(key): SECRET if names_secret(key) else _plain(value) for key, value in event.items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping):
        return redact(None, "", {str(key): inner for key, inner in value.items()})
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return without_secrets(value if isinstance(value, str) else repr(value))
