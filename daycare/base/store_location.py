"""What `[store] location` names: a file, `memory:`, or a database on a server, whose password is nobody's to see."""

import os
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit

from daycare.base.errors import BrokenError, InvalidError

SCHEMES: Final = ("postgresql://", "postgres://")
PASSWORD: Final = "PGPASSWORD"  # noqa: S105 - the variable that libpq reads it from
_SECRET: Final = ("password", "sslpassword", "passfile")


def is_server(location: str) -> bool:
    """Whether a location names a server."""
    return location.startswith(SCHEMES)


_kept: dict[str, str] = {}


def keep_password() -> None:
    """Keep the password of the environment here: no program that is started from now on has it in its own."""
    if (password := os.environ.pop(PASSWORD, None)) is not None:
        _kept[PASSWORD] = password


def kept_password() -> str:
    """Return the password that is kept, "" for none."""
    return _kept.get(PASSWORD, "")


def give_password_back() -> None:
    """Put the password back into the environment: the next program is daycare itself."""
    os.environ.update(_kept)


def not_installed(location: str, error: ImportError) -> BrokenError:
    """Return what is wrong where a server is named and what speaks to one cannot be imported."""
    return BrokenError(
        "POSTGRES_MISSING",
        f"opening {shown(location)}: what speaks to PostgreSQL is not installed ({error.name or error})",
        hint="pip install 'daycare[postgres]'",
    )


def shown(location: str) -> str:
    """Return a location without its password, as it may be shown; one that is a file stays as it is."""
    if not is_server(location):
        return location
    try:
        parts = urlsplit(location)
        account, _, hosts = parts.netloc.rpartition("@")
        name = account.partition(":")[0]
        query = urlencode([(key, value) for key, value in parse_qsl(parts.query) if key not in _SECRET], safe="/")
        return f"{parts.scheme}://{name and f'{name}@'}{hosts}{parts.path}{query and f'?{query}'}"
    except ValueError:
        return f"{location.partition('://')[0]}://..."


def refuse_server(location: str, doing: str, hint: str) -> None:
    """Raise `InvalidError` STORE_ON_A_SERVER for what is done with a file only; `hint` says what to do instead."""
    if is_server(location):
        raise InvalidError("STORE_ON_A_SERVER", f"{doing}: the messages are in PostgreSQL", hint=hint)
