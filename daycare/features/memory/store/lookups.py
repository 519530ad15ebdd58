"""Turns that have read what is being forgotten: a tool of memory has told it to them, so their words go as well."""

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final

import msgspec

from daycare.base.errors import ConflictError
from daycare.base.messages import Message, ToolResult
from daycare.base.scope import scope_of
from daycare.features.memory.store.records import EVERYBODY
from daycare.features.memory.store.stored import SCOPE_BITS
from daycare.store.sqlite import journal
from daycare.store.sqlite.sql import fetch, those
from daycare.store.sqlite.stems import stemmer
from daycare.store.sqlite.writer import Tx

_TELLS: Final = '"name":"memory_'  # how the name of such a tool stands in a stored result
_PREFIX: Final = "memory_"
_LOOKED_FOR_CHARS: Final = 150  # of a text: no less of it is ever told
_TELLING_CHARS: Final = 12  # of its words: shorter ones are known by their number
_NUMBER: Final = re.compile(r"^\[(\d+)\] ", re.MULTILINE)
_decode = msgspec.json.Decoder(tuple[Message, ...]).decode


def lookups_of(tx: Tx, scope: str, numbers: Iterable[int], texts: Sequence[str]) -> list[tuple[str, int]]:
    """Return the turns (agent id, turn) of a scope's agents that were told any of these memories or texts.

    Raises `ConflictError` TURN_OPEN if one of them has not ended.
    """
    short = {str(no & (1 << SCOPE_BITS) - 1) for no in numbers}
    looked_for = {words for text in texts if len(words := _beginning(text)) >= _TELLING_CHARS}
    brief = len(looked_for) < len({_beginning(text) for text in texts})

    def was_told(results: Iterable[str]) -> bool:
        for text in results:
            if brief and not short.isdisjoint(_NUMBER.findall(text)):
                return True
            told = _words(text)
            if any(words in told for words in looked_for):
                return True
        return False

    found: list[tuple[str, int]] = []
    if not looked_for and not brief:
        return found
    rows = fetch(
        tx.db,
        "SELECT t.turn, t.agent_id, a.path, unpacked(h.messages) FROM agents a"
        " JOIN turns t ON t.agent_id = a.id LEFT JOIN history h ON h.turn = t.turn"
        " WHERE substr(a.path, 1, length(?1)) = ?1 AND (h.turn IS NULL OR instr(unpacked(h.messages), ?2) > 0)"
        " AND NOT EXISTS (SELECT 1 FROM forgotten_turns f WHERE f.turn = t.turn) ORDER BY t.turn",
        (f"/{scope}/".replace("//", "/"), _TELLS),
    )
    for turn, agent_id, path, messages in rows:
        if scope != EVERYBODY and scope_of(path) != scope:
            continue
        if messages is None:
            said = (step.message for step in journal.steps_of(tx, turn) if step.message is not None)
            if was_told(_results(said)):
                what = f"forgetting: turn {turn} of {path} has read some of it, and has not ended"
                raise ConflictError("TURN_OPEN", what, hint="try it again when it has")
        elif was_told(_results(_decode(messages))):
            found.append((str(agent_id), int(turn)))
    return found


def notes_since(tx: Tx, turns: Iterable[int], words: Set[str]) -> list[tuple[str, int]]:
    """Return turns of memory workers and searches of the same users since the first of these: working notes.

    Those that have any of the words, which are stems.
    """
    rows = fetch(
        tx.db,
        "SELECT t.agent_id, t.turn, unpacked(h.messages),"
        " (SELECT group_concat(body, ',') FROM steps s WHERE s.turn = t.turn)"
        " FROM agents a JOIN turns t ON t.agent_id = a.id JOIN history h USING (turn)"
        " WHERE a.kind IN ('memory', 'search')"
        " AND a.user IN (SELECT user FROM turns WHERE turn IN (SELECT value FROM carray(?1)))"
        " AND t.turn >= (SELECT min(value) FROM carray(?1))"
        " AND NOT EXISTS (SELECT 1 FROM forgotten_turns f WHERE f.turn = t.turn) ORDER BY t.turn",
        (those(turns),),
    )
    stems = stemmer(tx.db)
    return [
        (str(agent_id), int(turn))
        for agent_id, turn, messages, bodies in rows
        if not words.isdisjoint(stems(f"{messages} {bodies or ''}"))
    ]


def _results(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolResult) and part.name.startswith(_PREFIX):
                yield part.text


def _beginning(text: str) -> str:
    """Return the words that a text begins with, without the last one, which may have been cut."""
    if len(text) <= _LOOKED_FOR_CHARS:
        return _words(text)
    return _words(text[:_LOOKED_FOR_CHARS]).rpartition(" ")[0]


def _words(text: str) -> str:
    return " ".join("".join(char if char.isalnum() else " " for char in text.casefold()).split())
