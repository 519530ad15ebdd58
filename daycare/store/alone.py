"""Opening a store for a command that has it to itself."""

from contextlib import AbstractContextManager

from daycare.base.store_location import is_server, not_installed
from daycare.store.sqlite.lone import LoneStore, lone_file


def alone(location: str) -> AbstractContextManager[LoneStore]:
    """Open a file, whose home the caller has locked, or a database on a server; its schema is brought up to date.

    Raises `StoreAwayError` STORE_IN_USE where a daemon works on a server's, and what opening a store does.
    """
    if not is_server(location):
        return lone_file(location)
    try:
        from daycare.store.postgres.lone import lone_server
    except ImportError as error:
        raise not_installed(location, error) from None
    return lone_server(location)
