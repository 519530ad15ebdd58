"""Which rows count for a path: those of calls at or below it, and those of calls that somebody there has asked for."""

from typing import Final

import apsw

from daycare.base.budget import EVERYTHING
from daycare.base.path import Kind
from daycare.store.sqlite.sql import fetch

# At or below a path: what lies below begins with the path and a slash, which '0' follows in the order of characters.
WITHIN: Final = "(path = ?1 OR path > ?1 || '/' AND path < ?1 || '0') AND path >= ?1 AND path < ?1 || '0'"
# What others spend for it: below another path, but asked for at or below this one.
CHARGED: Final = (
    "(payer = ?1 OR payer > ?1 || '/' AND payer < ?1 || '0') AND payer >= ?1 AND payer < ?1 || '0' AND payer <> ''"
    f" AND NOT ({WITHIN})"
)
_BELOW: Final = (
    "WITH RECURSIVE below (id) AS (VALUES (?) UNION SELECT u.id FROM users u JOIN below b ON u.parent = b.id)"
    " SELECT id FROM below"
)


def parts_of(db: apsw.Connection, path: str) -> tuple[tuple[str, str], ...]:
    """Return (path, SQL) of the parts of all that counts for a path; nothing is in two of them.

    Of a user also what users below it spend, who are one with their address `/ann/subuser/bob`. Who asks for a task is
    of the same user, so what others spend for somebody is looked for only below a user.
    """
    if path == EVERYTHING:
        return (("", WITHIN),)  # every path begins with '' and a slash
    user, *below = path[1:].split("/")
    if below and below[0] == Kind.SUBUSER and len(below) <= 2:
        roots = [each for each in _children_of(db, user) if each in below[1:] or len(below) == 1]
        if not roots:
            return ((path, WITHIN),)
        own = path
    elif not below:
        roots = [user]
        parent = parent_of(db, user)
        own = f"/{parent}/{Kind.SUBUSER}/{user}" if parent else ""
    else:
        return (path, WITHIN), (path, CHARGED)
    users = dict.fromkeys(str(id_) for root in roots for (id_,) in fetch(db, _BELOW, (root,)))
    return tuple((each, WITHIN) for each in (*filter(None, (own,)), *(f"/{each}" for each in users)))


def parent_of(db: apsw.Connection, user: str) -> str:
    """Return the user whom one is below, "" for none."""
    row = db.execute("SELECT parent FROM users WHERE id = ?", (user,)).fetchone()
    return "" if row is None or row[0] is None else str(row[0])


def _children_of(db: apsw.Connection, user: str) -> list[str]:
    return [str(id_) for (id_,) in fetch(db, "SELECT id FROM users WHERE parent = ?", (user,))]
