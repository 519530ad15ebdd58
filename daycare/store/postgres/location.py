"""Where the server is, as libpq is told, with what a session needs."""

import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from daycare.base.errors import InvalidError
from daycare.base.secrecy import hide
from daycare.base.store_location import PASSWORD, kept_password, shown

_DEFAULTS: Final = {
    "connect_timeout": "5",
    "application_name": "daycare",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "target_session_attrs": "read-write",  # of several hosts, the one that takes writes
    "client_encoding": "UTF8",
}
# A plan that was made while a table was empty would read all of it for ever: therefore none of whole tables.
_SESSION: Final = {
    "search_path": "daycare,pg_catalog",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "client_min_messages": "error",
    "standard_conforming_strings": "on",
    "timezone": "UTC",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "30s",
}
_NOTHING: Final[Mapping[str, str]] = {}


class ServerLocation:
    """A server's location, as libpq takes it; `more` are settings of its sessions."""

    def __init__(self, location: str, more: Mapping[str, str] = _NOTHING) -> None:
        try:
            parts = urlsplit(location)
            database = unquote(parts.path.lstrip("/"))
            given = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
        except ValueError as error:
            raise InvalidError(
                "STORE_LOCATION",
                f"reading [store] location: it is no address of a server ({error})",
                hint="postgresql://NAME:PASSWORD@HOST:PORT/DATABASE",
            ) from None
        if not database and "dbname" not in given:
            raise InvalidError(
                "STORE_LOCATION",
                f"reading [store] location: {shown(location)} names no database",
                hint="postgresql://NAME:PASSWORD@HOST:PORT/DATABASE",
            )
        self.shown = shown(location)
        own = given.get("password") or unquote(parts.password or "")
        self._has_password = bool(own)
        for password in (own, os.environ.get(PASSWORD), kept_password()):
            if password:
                hide(password)
        session = " ".join(f"-c {name}={value}" for name, value in {**_SESSION, **more}.items())
        unset = {key: value for key, value in (_DEFAULTS | {"options": session}).items() if key not in given}
        self._uri = f"{location.removesuffix('?')}{'&' if parts.query else '?'}{urlencode(unset, quote_via=quote)}"

    def conninfo(self) -> bytes:
        """Return what libpq is given. It has the password."""
        password = kept_password()
        if not password or self._has_password:
            return self._uri.encode()
        return f"{self._uri}&{urlencode({'password': password}, quote_via=quote)}".encode()

    def __repr__(self) -> str:
        return f"ServerLocation({self.shown!r})"
