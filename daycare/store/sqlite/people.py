"""Users and the connector keys that lead to them, and the operator's encrypted secrets."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import apsw
from msgspec.structs import replace

from daycare.base.errors import ConflictError, NotFoundError
from daycare.base.events import KeyRemoved, KeysResealed, KeyStored, UserAdded, UserChanged
from daycare.base.limits import TOPICS_MAX
from daycare.base.messages import Origin
from daycare.store.records import User
from daycare.store.sqlite.database import count
from daycare.store.sqlite.facts import UserPlaced
from daycare.store.sqlite.read_cache import ReadCache
from daycare.store.sqlite.sql import Select, fetch
from daycare.store.sqlite.writer import Tx, Writer

PEOPLE: Final = ("users", "user_connector_keys")
PEOPLE_REMEMBERED_MAX: Final = 1_024  # users whose rows are kept in memory, some 500 bytes each: a turn asks four times
SECRETS: Final = "secrets"
SECRETS_REMEMBERED_MAX: Final = 256  # names whose tokens are kept in memory as they are stored: a turn asks four times

Remove = Callable[[Tx, str], list[str]]


class PeopleStore:
    """Users and the connector keys that lead to them."""

    def __init__(self, writer: Writer, reader: apsw.Connection, remove: Remove) -> None:
        self._write = writer.write
        self._reader = reader
        self._remove = remove  # handed in: it concerns agents and all they have, which know people
        self._known: ReadCache[str, User | None] = ReadCache(
            writer.versions, reader, *PEOPLE, most=PEOPLE_REMEMBERED_MAX
        )
        self._known_by_key: ReadCache[str, User | None] = ReadCache(
            writer.versions, reader, *PEOPLE, most=PEOPLE_REMEMBERED_MAX
        )

    async def add(self, user: User, origin: Origin = Origin.SYSTEM) -> User:
        """Create a user with its keys, or bring back one who was removed.

        Not idempotent: raises `ConflictError` when the id or a key is taken, `NotFoundError` for an unknown parent.
        """

        def run(tx: Tx) -> User:
            if _get(tx.db, user.id) is not None:
                raise ConflictError("USER_EXISTS", f"adding user {user.id}: there is one", hint="daycare users list")
            if user.parent is not None:
                must(tx, user.parent)
            _insert(tx, user, origin)
            for key in user.keys:
                link(tx, key, user.id, origin)
            return must(tx, user.id)

        return await self._write(run)

    async def get(self, user_id: str) -> User | None:
        """Return a user who was not removed."""
        return self._known.get(user_id, lambda: _get(self._reader, user_id))

    async def by_key(self, connector_key: str) -> User | None:
        """Return the user a connector key leads to, who was not removed."""

        def read() -> User | None:
            row = self._reader.execute(
                "SELECT user FROM user_connector_keys WHERE connector_key = ?", (connector_key,)
            ).fetchone()
            return _get(self._reader, str(row[0])) if row else None

        return self._known_by_key.get(connector_key, read)

    async def find(self, *, text: str = "", after: str = "", limit: int = 1_000) -> list[User]:
        """Return users who were not removed, in order of id, from behind `after` on.

        With a text only those that have it in their id, name or an address, in small letters or large.
        """
        users = _USERS.find(
            self._reader,
            "id > ?1 AND removed_at IS NULL AND (?2 = '' OR instr(lower(id), lower(?2))"
            " OR instr(lower(name), lower(?2)) OR EXISTS (SELECT 1 FROM user_connector_keys k WHERE k.user = id"
            " AND instr(lower(k.connector_key), lower(?2)))) ORDER BY id LIMIT ?3",
            (after, text, limit),
        )
        keys: defaultdict[str, list[str]] = defaultdict(list)
        if users:
            for user, key in self._reader.execute(
                "SELECT user, connector_key FROM user_connector_keys WHERE user BETWEEN ? AND ? ORDER BY connector_key",
                (users[0].id, users[-1].id),
            ):
                keys[str(user)].append(str(key))
        return [replace(user, keys=tuple(keys[user.id])) for user in users]

    async def places(self, *, after: str = "", limit: int = 1_000) -> list[tuple[str, str | None, str]]:
        """Return (id, parent, kind) of users who were not removed, in order of id, from behind `after` on."""
        rows = self._reader.execute(
            "SELECT id, parent, kind FROM users WHERE id > ? AND removed_at IS NULL ORDER BY id LIMIT ?", (after, limit)
        )
        return [(str(id_), None if parent is None else str(parent), str(kind)) for id_, parent, kind in rows]

    async def count_below(self, user_id: str) -> int:
        """Return how many users are right below one: topics of a group, sub-users of a person."""
        return _count_below(self._reader, user_id)

    async def operators(self) -> list[User]:
        """Return those who own the installation, by id."""
        return operators(self._reader)

    async def change(self, user_id: str, *, name: str, zone: str) -> User:
        """Let a user have another name and zone; idempotent. Raises `NotFoundError` for an unknown one."""

        def run(tx: Tx) -> User:
            before = must(tx, user_id)
            changed = {"name": name != before.name, "zone": zone != before.zone}
            if any(changed.values()):
                tx.run("UPDATE users SET name = ?, zone = ? WHERE id = ?", (name, zone, user_id))
                _tell_changed(tx, user_id, *(field for field, other in changed.items() if other))
            return must(tx, user_id)

        return await self._write(run)

    async def link(self, connector_key: str, user_id: str, origin: Origin = Origin.SYSTEM) -> User:
        """Let a key lead to a user; idempotent. Raises `ConflictError` when it leads to another one."""

        def run(tx: Tx) -> User:
            must(tx, user_id)
            if link(tx, connector_key, user_id, origin):
                _tell_changed(tx, user_id, "keys")
            return must(tx, user_id)

        return await self._write(run)

    async def unlink(self, connector_key: str) -> None:
        """Forget a key, with the keys below it (`key:topic`): the doors of a chat close together.

        Raises `NotFoundError` when nobody has it, so also on a repeat.
        """

        def run(tx: Tx) -> None:
            row = tx.one("DELETE FROM user_connector_keys WHERE connector_key = ? RETURNING user", (connector_key,))
            if row is None:
                raise NotFoundError(
                    "KEY_UNKNOWN", f"unlinking {connector_key}: nobody has it", hint="daycare users list"
                )
            below = fetch(
                tx.db,
                "DELETE FROM user_connector_keys WHERE substr(connector_key, 1, length(?1) + 1) = ?1 || ':'"
                " RETURNING user",
                (connector_key,),
            )
            for (user_id,) in dict.fromkeys([row, *below]):
                _tell_changed(tx, str(user_id), "keys")

        await self._write(run)

    async def move(self, connector: str, old: str, new: str) -> bool:
        """Let a chat's key be another one, with the keys below it (`old:topic`) and its waiting replies; idempotent.

        Keys are whole, `telegram:-42`. Where the new key leads to somebody already, that stays and the old one is
        forgotten. Returns whether anything changed.
        """
        return await self._write(lambda tx: _move(tx, connector, old, new))

    async def remove(self, user_id: str) -> list[str]:
        """Remove a user and everybody below, all or nothing; return their ids, the user's first. The rows stay.

        With them end their keys, agents, turns, jobs, tasks, timers, subscriptions, open requests (also those they were
        to decide), undelivered replies, reservations and what was set as their budgets. Waiting messages become dead
        letters; an agent of somebody else that asked one of theirs is answered. No agent of theirs comes into being
        until they are let in again (`ForbiddenError` USER_REMOVED). Raises `ConflictError` for the last operator.
        """
        return await self._write(lambda tx: self._remove(tx, user_id))


class Secrets:
    """Tokens as the vault encrypted them; the store never sees a plain one."""

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader
        self._all: ReadCache[None, dict[str, bytes]] = ReadCache(writer.versions, reader, SECRETS, most=1)
        self._known: ReadCache[str, bytes | None] = ReadCache(
            writer.versions, reader, SECRETS, most=SECRETS_REMEMBERED_MAX
        )

    async def put(self, name: str, user: str, token: bytes) -> None:
        """Store a token or replace it; idempotent."""

        def run(tx: Tx) -> None:
            put_secret(tx, name, user, token)
            tx.commit.secrets = True
            tx.commit.events.append(KeyStored(at_ms=tx.now, user=user, name=name))

        await self._write(run)

    def get(self, name: str) -> bytes | None:
        """Return a token. Not async: providers read their key at each call, from the loop's own connection.

        All are read with the first that is asked for since one has changed: on a server that holds the loop up.
        """
        known = self._all.get(None, self._get_all)
        if name in known or len(known) <= SECRETS_REMEMBERED_MAX:
            return known.get(name)
        return self._known.get(name, lambda: self._get(name))

    def _get_all(self) -> dict[str, bytes]:
        rows = self._reader.execute("SELECT name, token FROM secrets LIMIT ?", (SECRETS_REMEMBERED_MAX + 1,))
        return {str(name): bytes(token) for name, token in rows}

    def _get(self, name: str) -> bytes | None:
        row = self._reader.execute("SELECT token FROM secrets WHERE name = ?", (name,)).fetchone()
        return bytes(row[0]) if row else None

    async def find(self) -> list[tuple[str, int]]:
        """Return (name, wall time in ms it was stored) of every token, by name."""
        rows = self._reader.execute("SELECT name, created_at FROM secrets ORDER BY name")
        return [(str(name), int(str(stored_at))) for name, stored_at in rows]

    async def remove(self, name: str) -> bool:
        """Delete a token; idempotent, returns whether there was one."""

        def run(tx: Tx) -> bool:
            row = tx.one("DELETE FROM secrets WHERE name = ? RETURNING user", (name,))
            if row is None:
                return False
            tx.commit.events.append(KeyRemoved(at_ms=tx.now, user=str(row[0]), name=name))
            return True

        return await self._write(run)

    async def reseal(self, seal: Callable[[bytes], bytes]) -> None:
        """Replace every token by what `seal` makes of it, all of them or, if it raises, none."""

        def run(tx: Tx) -> None:
            rows = tx.db.execute("SELECT name, token FROM secrets").fetchall()
            for name, token in rows:
                assert isinstance(token, bytes)
                tx.run("UPDATE secrets SET token = ? WHERE name = ?", (seal(token), name))
            tx.commit.events.append(KeysResealed(at_ms=tx.now, keys=len(rows)))

        await self._write(run)


def put_secret(tx: Tx, name: str, user: str, token: bytes) -> None:
    """Store a token or replace it. Names of capabilities' own have a colon: people can neither list nor remove them."""
    tx.run(
        "INSERT INTO secrets (name, user, origin, token, created_at) VALUES (?, ?, 'person', ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET token = excluded.token, created_at = excluded.created_at",
        (name, user, token, tx.now),
    )


def drop_secret(tx: Tx, name: str) -> None:
    """Delete a token, if there is one."""
    tx.run("DELETE FROM secrets WHERE name = ?", (name,))


def ensure(tx: Tx, user: User, origin: Origin) -> User:
    """Return the user of this id, created if there is none. Raises `ConflictError` for one of the other kind."""
    known = _get(tx.db, user.id)
    if known is None:
        _insert(tx, user, origin)
        return must(tx, user.id)
    if known.kind != user.kind:
        raise ConflictError(
            "USER_KIND", f"using {user.id} as a {user.kind}: it is a {known.kind}", hint="choose another id"
        )
    return known


def add_part(tx: Tx, user: User, origin: Origin) -> None:
    """Create the user of a part of a chat with its keys, if there is none yet.

    Raises `ConflictError`, and has changed nothing then, when the id or a key is somebody else's by now.
    """
    known = _get(tx.db, user.id)
    if known is not None:
        if not set(user.keys) <= set(known.keys):
            raise ConflictError("USER_EXISTS", f"adding {user.id} for {user.keys[0]}: that is somebody else")
        return
    for key in user.keys:
        _refuse_taken(tx, key, user.id)
    if user.parent is not None and _count_below(tx.db, user.parent) >= TOPICS_MAX:  # two batches at the same time
        raise ConflictError("TOPICS_MAX", f"adding {user.id}: {user.parent} has {TOPICS_MAX} topics", hint="try again")
    removed = tx.one("SELECT parent FROM users WHERE id = ?", (user.id,))
    if removed is not None and removed[0] != user.parent:
        raise ConflictError("USER_EXISTS", f"adding {user.id} for {user.keys[0]}: that was somebody else")
    _insert(tx, user, origin)
    for key in user.keys:
        link(tx, key, user.id, origin)


def link(tx: Tx, key: str, user_id: str, origin: Origin) -> bool:
    """Let a key lead to a user, who is no stranger from then on; return whether it did not before.

    Raises `ConflictError` when it leads to another.
    """
    _refuse_taken(tx, key, user_id)
    tx.run(
        "INSERT INTO user_connector_keys (connector_key, user, origin, created_at) VALUES (?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (key, user_id, str(origin), tx.now),
    )
    new = tx.db.changes() > 0
    tx.run("DELETE FROM strangers WHERE connector_key = ?", (key,))
    return new


def _refuse_taken(tx: Tx, key: str, user_id: str) -> None:
    row = tx.one("SELECT user FROM user_connector_keys WHERE connector_key = ?", (key,))
    if row is not None and row[0] != user_id:
        raise ConflictError(
            "KEY_TAKEN", f"linking {key} to {user_id}: it belongs to {row[0]}", hint=f"daycare users unlink {key}"
        )


def _insert(tx: Tx, user: User, origin: Origin) -> None:
    """Write a user's row; one who was removed comes back."""
    tx.tell(UserPlaced(user.id, user.parent))
    tx.run(
        "INSERT INTO users (id, name, zone, kind, operator, parent, origin, created_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name,"
        " zone = excluded.zone, kind = excluded.kind, operator = excluded.operator,"
        " parent = excluded.parent, removed_at = NULL",
        (user.id, user.name, user.zone, user.kind, user.operator, user.parent, str(origin), tx.now),
    )
    tx.commit.events.append(UserAdded(at_ms=tx.now, user=user.id, kind=user.kind, parent=user.parent or ""))


def _tell_changed(tx: Tx, user_id: str, *fields: str) -> None:
    tx.commit.events.append(UserChanged(at_ms=tx.now, user=user_id, fields=fields))


def _move(tx: Tx, connector: str, old: str, new: str) -> bool:
    if old == new:
        return False
    rows = tx.db.execute(
        "SELECT connector_key, user FROM user_connector_keys WHERE connector_key = ?1"
        " OR substr(connector_key, 1, length(?1) + 1) = ?1 || ':'",
        (old,),
    ).fetchall()
    keys = [str(row[0]) for row in rows]
    for key in keys:
        to = new + key.removeprefix(old)
        taken = tx.one("SELECT 1 FROM user_connector_keys WHERE connector_key = ?", (to,))
        if taken is None:
            tx.run("UPDATE user_connector_keys SET connector_key = ? WHERE connector_key = ?", (to, key))
        else:
            tx.run("DELETE FROM user_connector_keys WHERE connector_key = ?", (key,))
    for user_id in dict.fromkeys(str(row[1]) for row in rows):
        _tell_changed(tx, user_id, "keys")
    tx.run("DELETE FROM strangers WHERE connector_key = ?", (new if keys else old,))
    prefix = f"{connector}:"
    was, now = old.removeprefix(prefix), new.removeprefix(prefix)
    tx.run(
        "UPDATE outbox SET target = ?1 || substr(target, length(?2) + 1) WHERE connector = ?3 AND state < 2"
        " AND (target = ?2 OR substr(target, 1, length(?2) + 1) = ?2 || ':')",
        (now, was, connector),
    )
    tx.commit.connectors.add(connector)
    return bool(keys)


def is_removed(tx: Tx, user_id: str) -> bool:
    """Return whether there was a user of this id who was removed and did not come back."""
    return tx.one("SELECT 1 FROM users WHERE id = ? AND removed_at IS NOT NULL", (user_id,)) is not None


def must(tx: Tx, user_id: str) -> User:
    """Return a user who was not removed. Raises `NotFoundError`."""
    user = _get(tx.db, user_id)
    if user is None:
        raise NotFoundError("USER_UNKNOWN", f"no user has the id {user_id}", hint="daycare users list")
    return user


def operators(db: apsw.Connection) -> list[User]:
    """Return those who own the installation, by id."""
    ids = db.execute("SELECT id FROM users WHERE operator AND removed_at IS NULL ORDER BY id").fetchall()
    return [user for (user_id,) in ids if (user := _get(db, str(user_id))) is not None]


def _count_below(db: apsw.Connection, user_id: str) -> int:
    return count(db, "SELECT count(*) FROM users WHERE parent = ? AND removed_at IS NULL", (user_id,))


def _get(db: apsw.Connection, user_id: str) -> User | None:
    user = _USERS.one(db, "id = ? AND removed_at IS NULL", (user_id,))
    if user is None:
        return None
    keys = db.execute(
        "SELECT connector_key FROM user_connector_keys WHERE user = ? ORDER BY connector_key", (user_id,)
    ).fetchall()
    return replace(user, keys=tuple(str(key) for (key,) in keys))


def _user(row: tuple[Any, ...]) -> User:
    id_, name, zone, kind, operator, parent = row
    return User(id=id_, name=name, zone=zone, kind=kind, operator=bool(operator), parent=parent)


_USERS: Final = Select("id, name, zone, kind, operator, parent", "users", _user)
