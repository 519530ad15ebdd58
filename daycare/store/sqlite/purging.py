"""Removing a person from a store: every row that is theirs, in one commit, and then their words from a file's bytes.

Numbers that count on are never given again, so of some tables the newest row stays without anything in it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import apsw
import msgspec

from daycare.base.errors import ForbiddenError, NotFoundError
from daycare.store.alone import alone
from daycare.store.sqlite import scrub
from daycare.store.sqlite.database import count
from daycare.store.sqlite.facts import PersonPurged
from daycare.store.sqlite.rows import PURGED_PATH, Rows, followers_of, tables_of
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.writer import Tx, WriterCache

_TARGET_MIN_CHARS: Final = 5  # of an account, to be looked for inside of what a connector remembers
_APART: Final = ("users", "forgetting")  # not deleted like the others
_BLANKS: Final = {  # table: (its number, what is left of the newest row)
    "inbox": (
        "seq",
        "agent_id = '', key = 'purged:' || seq, state = 1, kind = 'text', path = '', user = 'system',"
        " origin = 'system', sender = '', trace = '', turn = NULL, done_at = coalesce(done_at, created_at),"
        " text = NULL, extra = NULL, result = NULL",
    ),
    "outbox": (
        "seq",
        "agent_id = '', path = '', turn = NULL, connector = '', target = NULL, user = 'system', origin = 'system',"
        " trace = '', state = 3, receipt = NULL, error = NULL, text = '', extra = NULL",
    ),
    "turns": (
        "turn",
        "agent_id = '', user = 'system', origin = 'system', trace = '', seqs = '[]', error = NULL",
    ),
    "files": (
        "id",
        "key = 'purged:' || id, user = 'system', origin = 'system', name = '', media_type = '', size = 0, data = NULL,"
        " object = NULL, sha256 = NULL, remote = NULL",
    ),
}
_COLUMNS: Final = (
    "SELECT t.name, c.name FROM pragma_table_list t JOIN pragma_table_info(t.name) c"
    " WHERE t.schema = 'main' AND t.type = 'table' AND t.name NOT LIKE 'sqlite!_%' ESCAPE '!'"
)
_NAMES: Final = {  # what people call rows of the core
    "agents": "agents",
    "inbox": "messages",
    "outbox": "replies",
    "history": "turns",
    "files": "files",
    "user_connector_keys": "accounts",
    "spend": "calls of models",
    "events": "events",
}


class PurgedPerson(msgspec.Struct, frozen=True, kw_only=True):
    """Who is to be removed, with those they have let in. `roots` are the paths above all their agents."""

    users: tuple[str, ...]
    roots: tuple[str, ...]
    accounts: tuple[str, ...]
    counts: dict[str, int]


def look(location: str, user: str, rows: Sequence[type[Rows]]) -> PurgedPerson:
    """Return what is there of a person; `rows` are those of capabilities.

    Raises `NotFoundError`, `ForbiddenError` PURGE_OPERATOR.
    """
    with alone(location) as store:
        return _person(store.db, user, _Tables(store.db, rows))


def purge(location: str, user: str, now_ms: int, rows: Sequence[type[Rows]]) -> dict[str, int]:
    """Remove a person; return how many rows went, by what they were. Nobody else has the store open.

    Raises `StoreAwayError` STORE_IN_USE where somebody has.
    """
    with alone(location) as store:
        db = store.db
        if store.leaves_pages:
            scrub.recover(db)
        tables = _Tables(db, rows)
        person = _person(db, user, tables)
        tx = Tx(db, now_ms, WriterCache(db, followers_of(rows)))
        with store.transaction():
            gone = _purge(tx, person, tables)
            if store.leaves_pages:
                scrub.begin(tx, "system")
        if store.leaves_pages:
            scrub.recover(db)  # killed before its end, the next opening does it
    return gone


class _Tables:
    """The tables that have rows of people, of the core and of capabilities."""

    def __init__(self, db: apsw.Connection, rows: Sequence[type[Rows]]) -> None:
        known = tables_of(rows)
        self.names = _NAMES | {table.name: table.called for table in known if table.called}
        self._columns: dict[str, set[str]] = {}
        for name, column in fetch(db, _COLUMNS):
            self._columns.setdefault(str(name), set()).add(str(column))
        self._declared = {table.name: table.whose for table in known if table.whose}
        self._apart = {*_APART, *(table.name for table in known if table.apart)}

    def whose(self, table: str) -> str:
        """Return what says that a row is theirs; empty for a table that has nobody's."""
        return self._declared.get(table) or self.belongs(table)

    def belongs(self, table: str) -> str:
        """Return what the columns of a table say of whose a row is; empty for a table that has nobody's."""
        columns = self._columns.get(table, set())
        found = []
        if "user" in columns:
            found.append("user IN (SELECT id FROM purged_users)")
        if "agent_id" in columns:
            found.append("agent_id IN (SELECT id FROM purged_agents)")
        found += [PURGED_PATH.format(column) for column in ("path", "payer") if column in columns]
        return " OR ".join(found)

    def plain(self) -> Iterator[str]:
        """Yield those whose rows are deleted by nothing but that condition."""
        yield from sorted(self._columns.keys() - self._apart)


def _person(db: apsw.Connection, user: str, tables: _Tables) -> PurgedPerson:
    rows = fetch(
        db,
        "WITH RECURSIVE those (id) AS (SELECT id FROM users WHERE id = ?1 UNION SELECT u.id FROM users u"
        " JOIN those ON u.parent = those.id)"
        " SELECT id, parent, operator FROM users WHERE id IN (SELECT id FROM those) ORDER BY id <> ?1, id",
        (user,),
    )
    if not rows:
        raise NotFoundError("USER_UNKNOWN", f"purging {user}: no such user", hint="daycare users list")
    if any(operator for *_, operator in rows):
        raise ForbiddenError(
            "PURGE_OPERATOR",
            f"purging {user}: an operator cannot be removed from their own installation",
            hint="to remove all of it, delete the home",
        )
    users = tuple(str(id_) for id_, *_ in rows)
    under = (f"/{parent}/subuser/{id_}" for id_, parent, _ in rows if parent)
    keys = [
        str(key)
        for id_ in users
        for (key,) in fetch(db, "SELECT connector_key FROM user_connector_keys WHERE user = ?", (id_,))
    ]
    roots = (*(f"/{id_}" for id_ in users), *under)
    _choose(db, users, roots)
    counts = {}
    for name, called in tables.names.items():
        theirs = tables.whose(name)
        if theirs and (many := count(db, f"SELECT count(*) FROM {name} WHERE {theirs}")):
            counts[called] = many
    return PurgedPerson(users=users, roots=roots, accounts=tuple(keys), counts=counts)


def _choose(db: apsw.Connection, users: tuple[str, ...], roots: tuple[str, ...]) -> None:
    """Fill tables of this connection with who and what is meant."""
    db.execute(
        "PRAGMA temp_store = MEMORY; DROP TABLE IF EXISTS purged_users; DROP TABLE IF EXISTS purged_roots;"
        " DROP TABLE IF EXISTS purged_agents; CREATE TEMP TABLE purged_users (id TEXT PRIMARY KEY);"
        " CREATE TEMP TABLE purged_roots (root TEXT PRIMARY KEY); CREATE TEMP TABLE purged_agents (id TEXT PRIMARY KEY)"
    ).fetchall()
    db.executemany("INSERT INTO purged_users VALUES (?)", [(user,) for user in users])
    db.executemany("INSERT INTO purged_roots VALUES (?)", [(root,) for root in roots])
    db.execute(
        f"INSERT INTO purged_agents SELECT id FROM agents WHERE user IN (SELECT id FROM purged_users)"
        f" OR {PURGED_PATH.format('path')}"
    )


def _purge(tx: Tx, person: PurgedPerson, tables: _Tables) -> dict[str, int]:
    db = tx.db
    gone: dict[str, int] = {}
    tx.tell(PersonPurged(person.users, person.roots, gone))
    for table, (number, blank) in _BLANKS.items():
        theirs = tables.belongs(table)
        tx.run(f"UPDATE {table} SET {blank} WHERE {number} = (SELECT max({number}) FROM {table}) AND ({theirs})")
        gone[table] = db.changes()
    for table in tables.plain():
        if theirs := tables.whose(table):
            tx.run(f"DELETE FROM {table} WHERE {theirs}")
            gone[table] = gone.get(table, 0) + db.changes()
    tx.run("DELETE FROM events WHERE EXISTS (SELECT 1 FROM purged_roots r WHERE instr(event, '\"' || r.root || '/'))")
    gone["events"] += db.changes()
    _accounts(tx, person)
    tx.run("DELETE FROM users WHERE id IN (SELECT id FROM purged_users)")
    found: dict[str, int] = {}
    for table, many in gone.items():
        name = tables.names.get(table, "other rows")
        found[name] = found.get(name, 0) + many
    return {name: many for name, many in found.items() if many}


def _accounts(tx: Tx, person: PurgedPerson) -> None:
    """Forget what connectors know of their accounts."""
    for key in person.accounts:
        connector, _, target = key.partition(":")
        tx.run(
            "DELETE FROM strangers WHERE connector_key = ?1 OR substr(connector_key, 1, length(?1) + 1) = ?1 || ':'",
            (key,),
        )
        how = "instr(name, ?2) OR instr(value, ?2)" if len(target) >= _TARGET_MIN_CHARS else "name = ?2 OR value = ?2"
        tx.run(
            f"DELETE FROM connector_memory WHERE connector = ?1 AND name <> 'cursor' AND ({how})",
            (connector, target),
        )
