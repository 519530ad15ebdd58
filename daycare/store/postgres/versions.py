"""Which versions of daycare may work on one schema side by side, so that nodes are upgraded one after another.

A migration that nodes of the version before can work with says so in a line of its own, `-- nodes-from: 0031`: those
whose last migration is that one, or a later one. Any other waits until no older node is left.
"""

import re
from collections.abc import Iterable
from typing import Final

from daycare import __version__
from daycare.base.errors import BrokenError, StoreAwayError
from daycare.store.postgres.connection import PostgresConnection
from daycare.store.sqlite import database

# `oldest`: what a daemon has to know at least; `release`: whose functions are there.
COLUMNS: Final = """
ALTER TABLE engine ADD COLUMN IF NOT EXISTS oldest bigint NOT NULL DEFAULT 0;
ALTER TABLE engine ADD COLUMN IF NOT EXISTS release text NOT NULL DEFAULT '';
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS schema bigint NOT NULL DEFAULT 0;  -- the last migration that it knows
UPDATE engine SET oldest = version WHERE oldest = 0;
"""
_NODES_FROM: Final = re.compile(r"^-- nodes-from: (\d{4})$", re.MULTILINE)


def newest() -> int:
    """Return the number of the last migration that this daycare knows."""
    return database.migrations()[-1][0]


def nodes_from(missing: Iterable[tuple[int, str, str]]) -> int:
    """Return which migration a node has to know at least to work beside one that has applied these."""
    return max(int(found[1]) if (found := _NODES_FROM.search(sql)) else number for number, _, sql in missing)


def is_older(release: str) -> bool:
    """Whether this daycare is older than that release."""
    return _parts(__version__) < _parts(release)


def _parts(release: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", release)[:3]]


def refuse_future(db: PostgresConnection, *, as_node: bool) -> None:
    """Raise `BrokenError` STORE_FROM_FUTURE for a newer schema, if it is not one that older nodes can work with."""
    [(version, oldest)] = db.simple("SELECT version, oldest FROM engine")
    if int(str(oldest if as_node else version)) > newest():
        raise BrokenError(
            "STORE_FROM_FUTURE",
            f"opening {db.location.shown}: its schema is number {version}, this daycare knows up to {newest()}",
            hint="install the newer daycare again",
        )


def refuse_older_nodes(db: PostgresConnection, oldest: int, me: str) -> None:
    """Raise `StoreAwayError` NODE_VERSION where others work that do not know the schema which is to be made."""
    others = db.simple(
        "SELECT node, version FROM nodes WHERE state = 'alive' AND until > clock_timestamp()"
        f" AND node <> '{me}' AND schema < {oldest}"
        " AND (node <> 'main' OR EXISTS (SELECT 1 FROM pg_stat_activity WHERE pid = backend))"
    )
    if others:
        told = ", ".join(f"{node} is {version}" for node, version in others)
        raise StoreAwayError(
            "NODE_VERSION",
            f"opening {db.location.shown}: this is daycare {__version__}, and {told}: too old to work beside it",
            hint="stop those first, and start them when they are upgraded: doc/operate/several-machines.md",
        )
