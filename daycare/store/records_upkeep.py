"""What a store hands out of its own state: how full it is, and what in it is in a bad way."""

from typing import Any

import msgspec


class Kept(msgspec.Struct, frozen=True):
    """What an agent with a behaviour keeps, as JSON, and when it was written (wall ms)."""

    text: str
    at_ms: int
    turn: int

    def value(self) -> Any:
        """Return what it keeps, decoded anew."""
        return msgspec.json.decode(self.text)


class Space(msgspec.Struct, frozen=True):
    """How large the database is, how much of it is free for new rows, and whether it can give that back by itself."""

    bytes: int
    free_bytes: int
    shrinks: bool


class UnreadMessage(msgspec.Struct, frozen=True):
    """A message that nobody has answered yet."""

    path: str
    at_ms: int


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """What rows tell of how things are; times since when are the asker's.

    `parked` are paths; `failed` are (path, reason) of scheduled runs, the newest first, both a few of `failures`;
    `letters` are dead letters that wait for a decision, `new_letters` those of late; `stops` how often a budget was
    used up.
    """

    parked: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()
    failures: int = 0
    missed: int = 0
    letters: int = 0
    new_letters: int = 0
    stops: int = 0


class DeadFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters are meant: of these `numbers` if there are any, and of what is named.

    `waiting`: only those that nobody has replayed.
    """

    numbers: tuple[int, ...] = ()
    path: str | None = None
    user: str | None = None
    code: str | None = None
    source: str | None = None
    waiting: bool = False


class DroppedLetters(msgspec.Struct, frozen=True):
    """How many dead letters of a user, with everybody below, made room for others; empty: of nobody knows whom."""

    user: str
    letters: int
    first_at: int
    last_at: int
