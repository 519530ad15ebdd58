"""Reading a few rows of a store that nobody of ours has opened, or that a running daemon has."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from daycare.base.store_location import is_server, not_installed
from daycare.store.records import User
from daycare.store.sqlite.database import MEMORY, connect_reader, describing
from daycare.store.sqlite.people import operators
from daycare.store.sqlite.sql import fetch


@contextmanager
def looking(location: str) -> Iterator[apsw.Connection | None]:
    """Give a connection that reads a store; None where there is none yet, or one in memory.

    Raises `BrokenError` or `StoreAwayError` for one that cannot be read.
    """
    db = _opened(location)
    if db is None:
        yield None
        return
    with describing(location), closing(db):
        yield db


def tokens_in(location: str) -> dict[str, bytes]:
    """Return the encrypted secrets of a store by name; nothing where there is none."""
    with looking(location) as db:
        rows = [] if db is None else fetch(db, "SELECT name, token FROM secrets")
        return {str(name): bytes(token) for name, token in rows}


def operators_in(location: str) -> list[User]:
    """Return those who own the installation; nobody where there is no store."""
    with looking(location) as db:
        return [] if db is None else operators(db)


def _opened(location: str) -> apsw.Connection | None:
    if is_server(location):
        try:
            from daycare.store.postgres.looking import open_look
        except ImportError as error:
            raise not_installed(location, error) from None
        return open_look(location)
    if location == MEMORY or not Path(location).exists():
        return None
    return connect_reader(location)
