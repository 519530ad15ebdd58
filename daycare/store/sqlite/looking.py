"""Reading a few rows of a database that nobody of ours has opened, or that a running daemon has."""

from contextlib import closing
from pathlib import Path

from daycare.store.records import User
from daycare.store.sqlite.database import MEMORY, connect_reader, describing
from daycare.store.sqlite.people import operators


def tokens_in(location: str) -> dict[str, bytes]:
    """Return the encrypted secrets of a database by name; nothing of one that does not exist or is in memory."""
    if location == MEMORY or not Path(location).exists():
        return {}
    with describing(location), closing(connect_reader(location)) as reader:
        return {str(name): bytes(token) for name, token in reader.execute("SELECT name, token FROM secrets")}


def operators_in(location: str) -> list[User]:
    """Return those who own the installation; nobody of a database that does not exist or is in memory."""
    if location == MEMORY or not Path(location).exists():
        return []
    with describing(location), closing(connect_reader(location)) as reader:
        return operators(reader)
