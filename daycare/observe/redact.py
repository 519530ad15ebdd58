"""Redaction in the log: no value, key or traceback of a line holds a secret (`base.secrecy`)."""

import re
from collections.abc import Mapping, MutableMapping
from functools import lru_cache
from typing import Any, Final

from daycare.base.secrecy import SECRET as SECRET
from daycare.base.secrecy import hide as hide
from daycare.base.secrecy import looks_secret as looks_secret
from daycare.base.secrecy import without_known as without_known
from daycare.base.secrecy import without_secrets as without_secrets

_NAMED: Final = re.compile(r"(?i)(?:.*[_-])?(?:api[_-]?key|secret|password|passwd|authorization|credentials?|token)")


@lru_cache(1_024)
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
