"""Keeping what models were shown, in the transaction that keeps what they answered.

A section is stored once for each user, until none of their prompts has it: of an agent that nobody has talked to for
as long as prompts are kept, nothing is left. What is forgotten is in no kept text: where something is forgotten of a
scope, all kept texts of its people go, as any of them may quote it.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final, NamedTuple

import msgspec

from daycare.base.bounded import Bounded
from daycare.base.tool import ToolSpec
from daycare.store.records import Commit
from daycare.store.records_prompts import PromptPart, ShownPrompt
from daycare.store.sqlite.facts import (
    AgentExpires,
    Follower,
    Heed,
    PersonPurged,
    PromptShown,
    RowsExpired,
    ScopeForgot,
    TurnsExpire,
)
from daycare.store.sqlite.sql import fetch, those
from daycare.store.sqlite.writer import Tx

LAYOUTS_REMEMBERED_MAX: Final = 4_096  # agents whose layout is known, some 200 bytes each
LAYOUT_TRUSTED_MS: Final = 3_600_000  # then it is looked for again: another node may have let it go
FORGETTING_REMEMBERED_MAX: Final = 1_024  # people of whom something was forgotten while turns ran

TOOLS: Final = "tools"
MARK: Final = "\0"  # stands in a stored text for the mark of its session
_DROP: Final = "DELETE FROM prompt_layouts WHERE no IN (SELECT l.no FROM prompt_layouts l WHERE"
# The agents of layouts whose last turn ended long ago, and of which no prompt is left.
_LEFT_ALONE: Final = (
    "SELECT DISTINCT l.agent_id FROM prompt_layouts l WHERE l.no IN (SELECT value FROM carray(?1))"
    " AND (SELECT h.ended_at FROM history h WHERE h.turn ="
    " (SELECT max(t.turn) FROM turns t WHERE t.agent_id = l.agent_id)) < ?2"
    " AND NOT EXISTS (SELECT 1 FROM turns t JOIN prompts p ON p.turn = t.turn WHERE t.agent_id = l.agent_id)"
)
_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode


class _Known(NamedTuple):
    """An agent's layout: what it was made of, and its number."""

    base: bytes
    tools: tuple[ToolSpec, ...]
    images: bool | None
    image_max_bytes: int
    no: int
    looked_at_ms: int


class PromptFollower(Follower):
    """Keeps prompts, and lets them go with what they are about."""

    def __init__(self) -> None:
        self._layouts: Bounded[str, _Known] = Bounded(LAYOUTS_REMEMBERED_MAX)
        self._forgotten: Bounded[str, int] = Bounded(FORGETTING_REMEMBERED_MAX)  # by user, when

    def distrust(self, heard: Commit | None) -> None:
        """Remember no layout: the last ones may not have come to be, or may have gone with what was forgotten."""
        if heard is None or heard.forgotten or heard.people:
            self._layouts.clear()

    def heeds(self) -> Mapping[type, Heed]:
        """Return what is done about facts, by their class."""
        return {
            PromptShown: self._keep,
            ScopeForgot: self._forget,
            RowsExpired: self._expire,
            TurnsExpire: _expire_turns,
            AgentExpires: self._expire_agent,
            PersonPurged: self._purge,
        }

    def _keep(self, tx: Tx, it: PromptShown) -> None:
        shown = it.shown
        if shown.base.at_ms <= self._forgotten.get(shown.user, -1):
            return  # it was read before something was forgotten that may stand in it
        if shown.replaces is not None:
            tx.run("DELETE FROM prompts WHERE turn = ? AND said = ?", (shown.turn, shown.replaces))
        tx.run(
            "INSERT OR REPLACE INTO prompts (turn, said, said_first, user, origin, layout, summary, first, recalled,"
            " kept, hash) VALUES (?, ?, ?, ?, 'agent', ?, ?, ?, ?, ?, ?)",
            (
                *(shown.turn, shown.said, shown.since, shown.user, self._layout(tx, shown), shown.summary),
                *(shown.first, _packed(shown.recalled), zlib.compress(shown.kept) if shown.kept else None),
                shown.digest,
            ),
        )

    def _layout(self, tx: Tx, it: ShownPrompt) -> int:
        """Return the number of the layout of a prompt, the last one of its agent wherever that is the same."""
        made_of = (it.base.digest, it.tools, it.images, it.image_max_bytes)
        known = self._layouts.get(it.agent_id)
        if known is not None and known[:-2] == made_of and tx.now - known.looked_at_ms < LAYOUT_TRUSTED_MS:
            return known.no
        tools = PromptPart(TOOLS, _encode(it.tools).decode())
        parts = [(part.name, _text(tx, it, part), part.cut) for part in (*it.base.parts, tools)]
        columns = (it.base.zone, it.base.room, it.images, it.image_max_bytes, _encode(parts).decode())
        row = tx.one(
            "SELECT no, zone, room, images, image_max_bytes, parts FROM prompt_layouts WHERE agent_id = ?"
            " ORDER BY no DESC LIMIT 1",
            (it.agent_id,),
        )
        if row is not None and row[1:] == columns:
            no = int(row[0])
        else:
            tx.run(
                "INSERT INTO prompt_layouts (agent_id, user, origin, zone, room, images, image_max_bytes, parts,"
                " created_at) VALUES (?, ?, 'agent', ?, ?, ?, ?, ?, ?)",
                (it.agent_id, it.user, *columns, tx.now),
            )
            no = tx.db.last_insert_rowid()
        self._layouts[it.agent_id] = _Known(*made_of, no, tx.now)
        return no

    def _forget(self, tx: Tx, it: ScopeForgot) -> None:
        for user in dict.fromkeys((it.scope, *it.scope.split("/"))):
            self._forgotten[user] = tx.now
            tx.run("DELETE FROM prompt_texts WHERE user = ?", (user,))
            tx.run("DELETE FROM prompt_layouts WHERE user = ?", (user,))
            tx.run("UPDATE prompts SET kept = NULL WHERE user = ? AND kept IS NOT NULL", (user,))
        self._layouts.clear()

    def _expire(self, tx: Tx, it: RowsExpired) -> None:
        """Delete prompts of turns that ended long ago, and layouts that no prompt has, with their texts.

        Those are what a later one has replaced since, and what an agent has that was not talked to for so long.
        """
        rows = fetch(
            tx.db,
            "DELETE FROM prompts WHERE turn IN (SELECT DISTINCT p.turn FROM prompts p JOIN history h USING (turn)"
            " WHERE h.ended_at < ? ORDER BY p.turn LIMIT ?) RETURNING layout",
            (it.before_ms, it.limit),
        )
        it.deleted.append(len(rows))
        left = fetch(tx.db, _LEFT_ALONE, (those(sorted({int(no) for (no,) in rows})), it.before_ms))
        for (agent_id,) in left:
            self._layouts.pop(agent_id, None)
            it.deleted.append(_drop_layouts(tx, "agent_id = ?", agent_id))
        replaced = (
            "EXISTS (SELECT 1 FROM prompt_layouts n WHERE n.agent_id = l.agent_id AND n.no > l.no AND n.created_at < ?)"
            " LIMIT ?"
        )
        it.deleted.append(_drop_layouts(tx, replaced, it.before_ms, it.limit))

    def _expire_agent(self, tx: Tx, it: AgentExpires) -> None:
        self._layouts.pop(it.agent_id, None)
        it.bite.rows += _drop_layouts(tx, "agent_id = ? LIMIT ?", it.agent_id, it.bite.limit)

    def _purge(self, tx: Tx, it: PersonPurged) -> None:
        self._layouts.clear()


def _text(tx: Tx, it: ShownPrompt, part: PromptPart) -> int:
    """Return the number of a text, which is stored if it is new."""
    text = part.text
    if it.base.mark and MARK not in text:
        text = text.replace(it.base.mark, MARK)
    data = text.encode(errors="surrogatepass")
    key = (it.user, blake2b(data, digest_size=16).digest())
    row = tx.one("SELECT no FROM prompt_texts WHERE user = ? AND hash = ?", key)
    if row is not None:
        return int(row[0])
    tx.run("INSERT INTO prompt_texts (user, origin, hash, body) VALUES (?, 'agent', ?, ?)", (*key, zlib.compress(data)))
    return tx.db.last_insert_rowid()


def _packed(numbers: Sequence[int]) -> bytes | None:
    """Return numbers in few bytes: in order, each as what it adds."""
    if not numbers:
        return None
    ordered = sorted(numbers)
    return _pack([ordered[0], *(after - before for before, after in pairwise(ordered))])


def _expire_turns(tx: Tx, it: TurnsExpire) -> None:
    tx.run(
        "DELETE FROM prompts WHERE turn IN (SELECT p.turn FROM turns t JOIN prompts p USING (turn)"
        " WHERE t.agent_id = ? LIMIT ?)",
        (it.agent_id, it.bite.limit),
    )
    it.bite.rows += (many := tx.db.changes())
    it.bite.more |= many >= it.bite.limit


def _drop_layouts(tx: Tx, which: str, *bindings: Any) -> int:
    """Delete layouts, and the texts that no other one of the same user has; return how many layouts."""
    rows = fetch(tx.db, f"{_DROP} {which}) RETURNING user, parts", bindings)
    texts: dict[str, set[int]] = {}
    for user, parts in rows:
        texts.setdefault(str(user), set()).update(_numbers(parts))
    for user, numbers in texts.items():
        left = fetch(tx.db, "SELECT parts FROM prompt_layouts WHERE user = ?", (user,))
        gone = numbers.difference(*(_numbers(parts) for (parts,) in left))
        tx.run("DELETE FROM prompt_texts WHERE no IN (SELECT value FROM carray(?))", (those(sorted(gone)),))
    return len(rows)


def _numbers(parts: str) -> Iterable[int]:
    return {int(no) for _, no, _ in msgspec.json.decode(parts)}
