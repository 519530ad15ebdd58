"""Exchanges with programs in the store. What an agent answered stands with the message, and is read from there."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec

from daycare.base.causes import ClientSaid
from daycare.features.openai.records import ProgramExchange
from daycare.store.sqlite.facts import Follower, Heed, TracesForgotten
from daycare.store.sqlite.mailbox import DEAD, DONE
from daycare.store.sqlite.rows import Rows, Table
from daycare.store.sqlite.sql import fetch
from daycare.store.sqlite.writer import Tx

EXCHANGES_MAX_PER_USER: Final = 10_000  # the oldest go: some 100 a day for as long as they are kept

_encode = msgspec.json.Encoder().encode
_decode_said = msgspec.json.Decoder(tuple[ClientSaid, ...]).decode
_SELECT: Final = (
    "SELECT e.no, e.ref, e.user, e.path, e.agent_id, e.seq, e.model, e.conversation, e.previous, e.instructions,"
    f" e.said, e.created_at, CASE WHEN i.state = {DONE} THEN coalesce(unpacked(i.result), '') END,"
    f" i.state = {DEAD}, i.turn"
    " FROM openai_exchanges e JOIN inbox i ON i.seq = e.seq JOIN agents a ON a.id = e.agent_id AND a.state <> 'dead'"
)


class ForgottenExchanges(Follower):
    """Exchanges go with the turns that answered them: a conversation goes on as if they had not been."""

    def heeds(self) -> Mapping[type, Heed]:
        """Return what it is told."""
        return {TracesForgotten: _forget}


def _forget(tx: Tx, it: TracesForgotten) -> None:
    gone = fetch(
        tx.db,
        "DELETE FROM openai_exchanges WHERE ref IN (SELECT value FROM json_each(?)) RETURNING said, instructions",
        (_encode(list(it.began)).decode(),),
    )
    for said, instructions in gone:
        it.shreds.extend((instructions, *(each.text for each in _decode_said(said))))


class ExchangeRows(Rows):
    """Those that programs may go on from, until they are swept, or their agent ends."""

    tables: ClassVar = (
        Table(
            "openai_exchanges",
            called="exchanges with programs",
            why="programs go on from them where they took place",
            what="exchanges with programs",
            query="SELECT count(*) FROM openai_exchanges WHERE agent_id IN (SELECT id FROM exported)",
            own="agent_id = ?1",
            number="no",
        ),
    )

    followers: ClassVar = (ForgottenExchanges,)

    async def add(self, new: ProgramExchange) -> None:
        """Keep an exchange; a repeat of its `ref` changes nothing. The oldest of too many of its user go."""

        def run(tx: Tx) -> None:
            tx.run(
                "INSERT INTO openai_exchanges (ref, user, origin, path, agent_id, seq, model, conversation, previous,"
                " instructions, said, created_at) VALUES (?, ?, 'person', ?, ?, ?, ?, ?, ?, ?, ?, ?)"
                " ON CONFLICT DO NOTHING",
                (
                    new.ref,
                    new.user,
                    new.path,
                    new.agent_id,
                    new.seq,
                    new.model,
                    new.conversation,
                    new.previous,
                    new.instructions,
                    _encode(new.said).decode(),
                    tx.now,
                ),
            )
            tx.run(
                "DELETE FROM openai_exchanges WHERE no <= (SELECT no FROM openai_exchanges WHERE user = ?"
                " ORDER BY no DESC LIMIT 1 OFFSET ?) AND user = ?",
                (new.user, EXCHANGES_MAX_PER_USER, new.user),
            )

        await self._write(run, sum(len(each.text) for each in new.said))

    async def get(self, ref: str, user: str) -> ProgramExchange | None:
        """Return an exchange of a user."""
        found = fetch(self._reader, f"{_SELECT} WHERE e.ref = ? AND e.user = ?", (ref, user))
        return _exchange(found[0]) if found else None

    async def newest(self, user: str, model: str, conversation: str, limit: int) -> list[ProgramExchange]:
        """Return the newest exchanges of a conversation, oldest first."""
        rows = fetch(
            self._reader,
            f"{_SELECT} WHERE e.user = ? AND e.model = ? AND e.conversation = ? ORDER BY e.no DESC LIMIT ?",
            (user, model, conversation, limit),
        )
        return [_exchange(row) for row in reversed(rows)]

    async def delete(self, ref: str, user: str) -> bool:
        """Delete an exchange of a user; return whether there was one."""

        def run(tx: Tx) -> bool:
            tx.run("DELETE FROM openai_exchanges WHERE ref = ? AND user = ?", (ref, user))
            return tx.db.changes() > 0

        return await self._write(run)

    async def expire(self, before_ms: int, limit: int) -> int:
        """Delete some exchanges from before a time; return how many."""

        def run(tx: Tx) -> int:
            tx.run(
                "DELETE FROM openai_exchanges WHERE no IN (SELECT no FROM openai_exchanges WHERE created_at < ?"
                " ORDER BY no LIMIT ?)",
                (before_ms, limit),
            )
            return tx.db.changes()

        return await self._write(run)


def _exchange(row: tuple[Any, ...]) -> ProgramExchange:
    names = ProgramExchange.__struct_fields__
    return ProgramExchange(**dict(zip(names, row, strict=True)) | {"said": _decode_said(row[names.index("said")])})
