"""Strangers: a counter for each, and a pairing code that an operator may type."""

from typing import Any, Final

import apsw
from msgspec.structs import replace

from daycare.base.errors import ForbiddenError, NotFoundError
from daycare.base.events import UserPaired
from daycare.base.limits import PAIR_CODE_S, PAIR_NOTICE_S, PAIR_TRIES_MAX, STRANGERS_MAX
from daycare.base.messages import Origin
from daycare.store.records import PairingRequest, Stranger, User
from daycare.store.sqlite import people
from daycare.store.sqlite.sql import Select
from daycare.store.sqlite.writer import Tx, Writer

PAIR_NOTICES_MAX: Final = 10  # codes shown a minute by one connector to people, and to groups: a flood ends

_VALID: Final = "code_hash IS NOT NULL AND code_until > ? AND code_until <= ? AND tries < ?"
_NAME_MAX_CHARS = 100
_FLOOD_MS = 60_000  # within which PAIR_NOTICES_MAX codes are shown


class Strangers:
    """Strangers who wrote; at most `STRANGERS_MAX` a connector."""

    def __init__(self, writer: Writer, reader: apsw.Connection) -> None:
        self._write = writer.write
        self._reader = reader

    async def find(self, limit: int = 100) -> list[Stranger]:
        """Return the strangers who wrote, the last first."""
        return _STRANGERS.find(self._reader, "TRUE ORDER BY last_at DESC LIMIT ?", (limit,))

    async def by_code(self, code_hash: str) -> Stranger:
        """Return who was shown a code. Raises `ForbiddenError` PAIR_CODE: it counts against every code that is out."""
        found = await self._write(lambda tx: _by_code(tx, code_hash))
        return _must(found)

    async def get(self, key: str) -> Stranger:
        """Return the stranger of an address, if not turned away. Raises `NotFoundError` STRANGER_UNKNOWN."""
        return _waiting(self._reader, key)

    async def admit(self, key: str, user: User, origin: Origin = Origin.PERSON) -> tuple[Stranger, User]:
        """Let the stranger of this address be `user`, who is created if there is none of that id. Happens once."""

        def run(tx: Tx) -> tuple[Stranger, User]:
            return _let_in(tx, _waiting(tx.db, key), user, origin)

        return await self._write(run)

    async def approve(self, code_hash: str, user: User, origin: Origin = Origin.PERSON) -> tuple[Stranger, User]:
        """Let the one with this code be `user`, created if there is none of that id.

        Not idempotent: a code works once. Raises `ForbiddenError` PAIR_CODE as `by_code`, `ConflictError` when a
        group would become a person or the other way round.
        """

        def run(tx: Tx) -> tuple[Stranger, User] | None:
            stranger = _by_code(tx, code_hash)
            return None if stranger is None else _let_in(tx, stranger, user, origin)

        found = await self._write(run)
        if found is None:
            raise _wrong_code()
        return found

    async def deny(self, key: str) -> Stranger:
        """Show a stranger no more codes; they are only counted from now on."""

        def run(tx: Tx) -> Stranger:
            tx.run("UPDATE strangers SET denied = 1, code_hash = NULL, code_until = 0 WHERE connector_key = ?", (key,))
            stranger = _STRANGERS.one(tx.db, "connector_key = ?", (key,))
            if stranger is None:
                raise NotFoundError(
                    "STRANGER_UNKNOWN", f"denying {key}: nobody wrote from that address", hint="daycare pair list"
                )
            return stranger

        return await self._write(run)


def pairing_request(tx: Tx, who: PairingRequest) -> bool:
    """Count a stranger's message; True if they are to be shown the code now."""
    name = "".join(char if char.isprintable() else " " for char in who.name)[:_NAME_MAX_CHARS]
    since = tx.now - int(PAIR_NOTICE_S * 1000)  # those shown a code since then are counted, so they are remembered
    new = tx.one("SELECT 1 FROM strangers WHERE connector_key = ?", (who.key,)) is None
    tx.run(
        "INSERT INTO strangers (connector_key, connector, origin, kind, name, knocks, first_at, last_at, noticed_at)"
        " VALUES (?, ?, ?, ?, ?, 1, ?, ?, 0) ON CONFLICT (connector_key) DO UPDATE SET knocks = knocks + 1,"
        " last_at = excluded.last_at, name = excluded.name, kind = excluded.kind",
        (who.key, who.connector, "group" if who.kind == "group" else "person", who.kind, name, tx.now, tx.now),
    )
    if new:
        tx.run(
            "DELETE FROM strangers WHERE connector_key IN (SELECT connector_key FROM strangers WHERE connector = ?"
            " ORDER BY noticed_at > ? AND noticed_at <= ? DESC, denied DESC, last_at DESC LIMIT -1 OFFSET ?)",
            (who.connector, since, tx.now, STRANGERS_MAX),
        )
    row = tx.one("SELECT noticed_at, denied FROM strangers WHERE connector_key = ?", (who.key,))
    if row is None or row[1] or since < row[0] <= tx.now:
        return False
    shown = tx.one(
        "SELECT count(*) FROM strangers WHERE connector = ? AND kind = ? AND noticed_at > ? AND noticed_at <= ?",
        (who.connector, who.kind, tx.now - _FLOOD_MS, tx.now),
    )
    assert shown is not None
    if shown[0] >= PAIR_NOTICES_MAX:
        return False
    tx.run(
        "UPDATE strangers SET noticed_at = ?, code_hash = ?, code_until = ?, tries = 0 WHERE connector_key = ?",
        (tx.now, who.code_hash, tx.now + int(PAIR_CODE_S * 1000), who.key),
    )
    return True


def _let_in(tx: Tx, stranger: Stranger, user: User, origin: Origin) -> tuple[Stranger, User]:
    person = people.ensure(tx, replace(user, kind=stranger.kind, keys=()), origin)
    people.link(tx, stranger.key, person.id, origin)
    tx.commit.events.append(UserPaired(at_ms=tx.now, user=person.id, key=stranger.key))
    return stranger, people.must(tx, person.id)


def _waiting(db: apsw.Connection, key: str) -> Stranger:
    stranger = _STRANGERS.one(db, "connector_key = ? AND denied = 0", (key,))
    if stranger is None:
        raise NotFoundError(
            "STRANGER_UNKNOWN", f"letting {key} in: nobody waits at that address", hint="daycare pair list"
        )
    return stranger


def _by_code(tx: Tx, code_hash: str) -> Stranger | None:
    now = (tx.now, tx.now + int(PAIR_CODE_S * 1000), PAIR_TRIES_MAX)
    stranger = _STRANGERS.one(tx.db, f"code_hash = ? AND {_VALID}", (code_hash, *now))
    if stranger is None:
        tx.run(f"UPDATE strangers SET tries = tries + 1 WHERE {_VALID}", now)
    return stranger


def _must(stranger: Stranger | None) -> Stranger:
    if stranger is None:
        raise _wrong_code()
    return stranger


def _wrong_code() -> ForbiddenError:
    return ForbiddenError(
        "PAIR_CODE",
        f"pairing: no such code is valid now. A code holds for {PAIR_CODE_S / 60:g} minutes and works once; after"
        f" {PAIR_TRIES_MAX} wrong ones those that are out are void",
        hint="daycare pair list",
    )


def _stranger(row: tuple[Any, ...]) -> Stranger:
    key, connector, kind, name, knocks, first_at, last_at, denied, code_until, tries = row
    return Stranger(
        key=key,
        connector=connector,
        kind=kind,
        name=name,
        knocks=knocks,
        first_at=first_at,
        last_at=last_at,
        denied=bool(denied),
        code_until=code_until,
        tries=tries,
    )


_STRANGERS: Final = Select(
    "connector_key, connector, kind, name, knocks, first_at, last_at, denied, code_until, tries", "strangers", _stranger
)
