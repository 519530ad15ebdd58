"""A home as large as a big installation's: people with agents, long conversations, and requests that wait."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec
import trio

from daycare.base.budget import day_of
from daycare.base.clock import SystemClock
from daycare.base.documents import Layer, Place
from daycare.base.memories import NewMemory, Tier
from daycare.base.messages import Message, Origin, Text
from daycare.features import open_store
from daycare.features.approvals.records import DocumentAction
from daycare.features.memory.store.records import EndedTurn
from daycare.features.memory.store.rows import MemoryRows
from daycare.ops.setup import initialise
from daycare.store.sqlite.database import open_writer
from tests.store import counting

from . import crowd

LONG: Final = f"/{crowd.OWNER}/direct"  # the agent with the long conversation
_LONG_MESSAGES: Final = 10_000
_BATCH: Final = 500
_SECONDS: Final = 60_000  # between two turns, in ms
_TURN: Final = "turn, agent_id, session, user, origin, trace, attempt, seqs, started_at"
_TOLD: Final = "turn, agent_id, session, user, origin, state, ended_at, messages"
_ASKED: Final = (
    "key, kind, agent_id, path, root, user, origin, decider, state, revision, content_hash, salt, base_hash, reason,"
    " provenance, findings, trace, session, created_at, expires_at, action"
)
_SPENT: Final = "key, path, payer, provider, model, user, calls, input_tokens, output_tokens, cost_micros, wall_ms"
_SPENT_DAYS: Final = 90
_TASKS: Final = 5_000
_TASK: Final = (
    "path, user, origin, asker, prompt, parameters, deliver, connector, waits, state, reason, after_turn, agent_id,"
    " seq, trace, created_at, deadline_at, started_at, ended_at, key, settled"
)
_encode = msgspec.json.Encoder().encode


def make(home: Path, address: str, *, agents: int, messages: int, approvals: int) -> None:
    """Fill a home that listens at an address: so many living agents, messages in conversations, and requests."""
    home.mkdir(mode=0o700)
    now = SystemClock().now_ms()
    crowd.build(home / "daycare.db", 2 * agents, now, busy=0)  # half of a person's agents have ended
    db: apsw.Connection = open_writer(str(home / "daycare.db"))
    try:
        db.execute("BEGIN IMMEDIATE")
        users = agents // (crowd.AGENTS_EACH // 2)
        _fill(db, "turns", _TURN, (turn for turn, _ in _turns(users, messages, now)))
        _fill(db, "history", _TOLD, (told for _, told in _turns(users, messages, now)))
        db.execute("DELETE FROM approvals")  # those have no action
        _fill(db, "spending", _SPENT, _spent(users, now))
        for table in ("budget_sums", "model_sums"):
            db.execute(f"DELETE FROM {table}; {counting.filling(table)}").fetchall()
        _fill(db, "tasks", _TASK, (_task(number, crowd.user_of(number % users), now) for number in range(_TASKS)))
        _fill(db, "approvals", _ASKED, (_approval(number, number % users, now) for number in range(approvals)))
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        db.close()
    initialise(home, user_id=crowd.OWNER)
    trio.run(_remember, str(home / "daycare.db"), min(_LONG_MESSAGES, messages) // 2, now)
    config = home / "config.toml"
    kept = "daily_logs = false\nfacts = false\nentities = false\n"  # else it learns from them for an hour
    quiet = f"[memory.ingestion]\nbackground = false\n{kept}"
    config.write_text(f'{config.read_text()}\n[api]\nlisten = "{address}"\n\n{quiet}')


async def _remember(location: str, turns: int, now: int) -> None:
    """Keep what was said in the long conversation, so that it is found."""
    async with open_store(location) as store:
        for first in range(1, turns + 1, _BATCH):
            said = range(first, min(first + _BATCH, turns + 1))
            ended = [
                EndedTurn(turn=turn, agent_id="a0-0", session=1, ended_at=now, trace="", messages=()) for turn in said
            ]
            entries = [
                NewMemory(
                    tier=Tier.LOG,
                    scope=crowd.OWNER,
                    user=crowd.OWNER,
                    agent_id="a0-0",
                    path=LONG,
                    origin=Origin.PERSON,
                    text=f"Plant {turn} wants water, and the cat has hidden behind book {turn % 97}.",
                    at_ms=now - turn * _SECONDS,
                    session=1,
                    turn=turn,
                    speaker="Ann",
                    role="user",
                )
                for turn in said
            ]
            await store.of(MemoryRows).log(ended, entries)


def _fill(db: apsw.Connection, table: str, columns: str, rows: Iterator[tuple[Any, ...]]) -> None:
    db.executemany(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(columns.split(', ')))})", rows)


def _turns(users: int, messages: int, now: int) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield turns of two messages each: a long conversation of the first user, and short ones of the others."""
    count = messages // 2
    for turn in range(1, count + 1):
        number = 0 if turn <= _LONG_MESSAGES // 2 else 1 + turn % (users - 1)
        at, user = now - (count - turn) * _SECONDS, crowd.user_of(number)
        of = turn, f"a{number}-0", 1, user, "person"
        said = f"Message {turn}: is there anything that I have to think of today, besides the cat?"
        answer = f"Answer {turn}: **nothing** is due.\n\n- the cat was fed\n- the plants were not\n\n`plants --water`"
        words = (
            Message("user", (Text(said),), at, sender=f"direct:{user}"),
            Message("assistant", (Text(answer),), at),
        )
        yield (*of, f"{turn:016x}", 1, "[]", at), (*of, "done", at, _encode(words).decode())


def _spent(users: int, now: int) -> Iterator[tuple[Any, ...]]:
    """Yield what each person's agent has spent on the days before those of the crowd."""
    for back in range(3, _SPENT_DAYS):
        day = day_of(now - back * 86_400_000, "UTC")
        for number in range(users):
            user = crowd.user_of(number)
            yield day, f"/{user}/direct", "", "p", f"m{number % 5}", user, 1, 100, 10, 7 + number, 50


def _task(number: int, user: str, now: int) -> tuple[Any, ...]:
    at = now - number * _SECONDS
    asked = f"/{user}/task/old-{number}", user, "person", "", f"Look after plant {number}", "{}", "", "", 0
    ended = "done", "the plants were watered", 0, f"t{number}", -1 - number, f"{number:016x}"
    return (*asked, *ended, at, at + 3_600_000, at, at + 60_000, f"bench:{number}", 1)


def _approval(number: int, whose: int, now: int) -> tuple[Any, ...]:
    user = crowd.user_of(whose)
    path = f"/{user}/direct"
    place = Place(Layer.AGENT, f"a{whose}-0", f"note-{number}.md")
    action = DocumentAction(verb="write", place=place, text=f"# Note {number}\n\nThe plants want water.\n" * 5)
    return (
        *(f"bench:{number}", "memory", f"a{whose}-0", path, path, user, "agent", crowd.OWNER, "pending", 1),
        *(f"{number:064x}", "", "", "it was asked for", "[]", "[]", f"{number:016x}", 1, now),
        *(now + 86_400_000, _encode(action).decode()),
    )
