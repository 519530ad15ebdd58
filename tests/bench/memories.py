"""Stores full of memories: made-up turns in the words of a language, as frequent as there, and vectors in groups.

They go the product's own way, `log` and `embed`; only the turns that they were said in are plain SQL.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import apsw
import numpy as np
from numpy.typing import NDArray

from daycare.base.memories import NewMemory, Tier
from daycare.base.messages import Origin
from daycare.features.memory.embed.packing import packed
from daycare.features.memory.language import analysis, thesaurus
from daycare.features.memory.language.lists import COMMON, GIVEN, PLACES
from daycare.features.memory.language.stop_words import EVERY_STOP_WORD, STOP_WORDS
from daycare.features.memory.store.records import EndedTurn, NewVector, NewVectors
from daycare.features.memory.store.rows import MemoryRows
from daycare.store.sqlite.store import Store
from daycare.store.sqlite.writer import Tx

from . import population

SCOPE = population.USER
SPEAKERS = ("Ann", "assistant")
_WORDS = 20_000  # different ones; the nth is n times rarer than the first, as in a language
_LENGTH = 26  # words of a message, on average
_ASKED = 5  # telling words of a question
_LETTERS = "etaoinshrdlu"
_GROUP = 50  # vectors of one topic
_START_MS = 1_700_000_000_000
_BETWEEN_MS = 180_000
_SESSION_TURNS = 40
PAGE = 1_000

Floats = NDArray[np.float32]

_TURN = (
    "INSERT INTO turns (turn, agent_id, session, user, origin, trace, attempt, seqs, started_at)"
    " VALUES (?1, ?2, ?3, 'bench', 'person', ?4, 1, '[]', ?5)"
)
_HISTORY = (
    "INSERT INTO history (turn, agent_id, session, user, origin, state, ended_at, messages)"
    " VALUES (?1, ?2, ?3, 'bench', 'person', 'done', ?5, '[]')"
)


def model(dimensions: int) -> str:
    """Return the name of a made-up model."""
    return f"bench/{dimensions}"


def vectors(page: int, count: int, dimensions: int) -> Floats:
    """Return the vectors of a page of `count`, of length 1: loose groups, off the centre, as embedders make them."""
    centres = _centres(max(1, count // _GROUP), dimensions)
    draw = np.random.default_rng((dimensions, page))
    rows = centres[draw.integers(0, len(centres), min(PAGE, count - page * PAGE))] + np.float32(0.2)
    rows += np.float32(0.8) * draw.standard_normal(rows.shape, dtype=np.float32)
    return _unit(rows)


def questions(rows: Floats) -> Floats:
    """Return a vector near each of these, as a question is near its answer."""
    noise = np.random.default_rng(len(rows)).standard_normal(rows.shape, dtype=np.float32)
    return _unit(rows + np.float32(0.7) * noise / np.float32(rows.shape[1] ** 0.5))


@cache
def _centres(groups: int, dimensions: int) -> Floats:
    return np.random.default_rng(dimensions).standard_normal((groups, dimensions), dtype=np.float32)


def _unit(rows: Floats) -> Floats:
    scaled: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def texts(page: int) -> list[str]:
    """Return the messages of a page."""
    words, upto = _vocabulary()
    draw = np.random.default_rng(page)
    lengths = draw.poisson(_LENGTH, PAGE) + 1
    chosen = np.searchsorted(upto, draw.random(int(lengths.sum())))
    return [" ".join(words[at] for at in part.tolist()) for part in np.split(chosen, np.cumsum(lengths)[:-1])]


def asked(place: int) -> str:
    """Return a question about a message."""
    text = texts(place // PAGE)[place % PAGE]
    return f"What did {SPEAKERS[0]} say about {' '.join(analysis.telling(text)[:_ASKED])}?"


@cache
def _vocabulary() -> tuple[list[str], "NDArray[np.float64]"]:
    """Return words, and of each the share that it and the more frequent ones have.

    First those of grammar, then those of every conversation and what is talked about, then names, then made-up ones.
    """
    grammar, meant = STOP_WORDS["en"], thesaurus._KIN_OF
    talked = (COMMON - EVERY_STOP_WORD) | {word for head, kin in meant.items() for word in (head, *kin)}
    kinds = (grammar, talked - grammar, GIVEN | PLACES)
    draw = np.random.default_rng(1)
    found: dict[str, None] = {}
    for words in kinds:
        found |= dict.fromkeys(draw.permutation(sorted(word for word in words if word.isalpha())).tolist())
    return list(found)[:_WORDS] + [_made_up(number) for number in range(len(found), _WORDS)], _shares()


def _made_up(number: int) -> str:
    word = ""
    while number:
        number, at = divmod(number, len(_LETTERS))
        word += _LETTERS[at] + "aeiou"[at % 5]
    return word


def _shares() -> "NDArray[np.float64]":
    upto = np.cumsum(1 / np.arange(1, _WORDS + 1))
    found: NDArray[np.float64] = upto / upto[-1]
    return found


def open_turns(location: Path, count: int) -> None:
    """Put an agent into a new database, with `count` turns that have ended and are not in the log."""
    population.build(location, 1)
    db = apsw.Connection(str(location))
    with db:
        for sql in (_TURN, _HISTORY):
            db.executemany(sql, (_turn_row(turn) for turn in range(1, count + 1)))
    db.close()


async def add_turns(store: Store, count: int) -> None:
    """Put an agent into an empty store, as `open_turns` does into a new file."""

    def run(tx: Tx) -> None:
        population.populate(tx.db, 1, tx.now)
        for sql in (_TURN, _HISTORY):
            tx.db.executemany(sql, [_turn_row(turn) for turn in range(1, count + 1)])

    await store._writer.write(run)


def _turn_row(turn: int) -> tuple[object, ...]:
    return turn, population.agent_id(0), _session(turn), f"{turn:016x}", _START_MS + turn * _BETWEEN_MS


def _session(turn: int) -> int:
    return 1 + turn // _SESSION_TURNS


def said(turn: int, text: str, scope: str = SCOPE) -> tuple[EndedTurn, NewMemory]:
    """Return a turn and the one message of it that is kept."""
    at_ms = _START_MS + turn * _BETWEEN_MS
    agent = population.agent_id(0)
    ended = EndedTurn(turn=turn, agent_id=agent, session=_session(turn), ended_at=at_ms, trace="", messages=())
    entry = NewMemory(
        tier=Tier.LOG,
        scope=scope,
        user=population.USER,
        agent_id=agent,
        path=population.path(0),
        origin=Origin.PERSON,
        text=text,
        at_ms=at_ms,
        session=_session(turn),
        turn=turn,
        speaker=SPEAKERS[turn % 2],
        role=("user", "assistant")[turn % 2],
    )
    return ended, entry


class Batch(NamedTuple):
    """Messages to add: their turns, entries and hashes, and by number of dimensions each one's vector."""

    turns: Sequence[EndedTurn]
    entries: Sequence[NewMemory]
    hashes: Sequence[str]
    vectors: Mapping[int, Sequence[bytes]]


def batch(first: int, said_: Sequence[str], rows: Sequence[Floats], scope: str = SCOPE) -> Batch:
    """Return messages from turn `first` on, with their vectors of every model."""
    turns, entries = zip(*(said(first + at, text, scope) for at, text in enumerate(said_)), strict=True)
    hashes = [sha256(text.encode()).hexdigest() for text in said_]
    return Batch(turns, entries, hashes, {each.shape[1]: packed(each) for each in rows})


async def keep(store: Store, new: Batch) -> None:
    """Add messages and their vectors: one commit for each model."""
    (dimensions, data), *others = new.vectors.items()
    numbers = await store.of(MemoryRows).log(new.turns, new.entries, NewVectors(model(dimensions), dimensions, data))
    for dimensions, data in others:
        each = [NewVector(*it) for it in zip(numbers, new.hashes, data, strict=True)]
        await store.of(MemoryRows).embed(model(dimensions), dimensions, each)


async def fill(store: Store, count: int, models: Sequence[int], scope: str = SCOPE) -> None:
    """Add `count` messages with vectors of so many dimensions each."""
    for page in range(-(-count // PAGE)):
        rows = [vectors(page, count, dimensions) for dimensions in models]
        await keep(store, batch(1 + page * PAGE, texts(page)[: len(rows[0])], rows, scope))
