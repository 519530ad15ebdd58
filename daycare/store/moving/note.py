"""What a database says of a move that it is part of, so that nobody opens half of one, or the one that was left."""

import shlex
from typing import Any, Final, Literal

import msgspec

from daycare.base.errors import BrokenError
from daycare.base.times import when

# From the first row to the last its target is `arriving`. Then the source is `leaving`, the target has `arrived`, and
# the source was `left`: wherever that ends, one of the two at most can be opened.
State = Literal["arriving", "arrived", "leaving", "left"]

_MAKE: Final = (
    "CREATE TABLE IF NOT EXISTS store_move (state TEXT NOT NULL, other TEXT NOT NULL, at BIGINT NOT NULL,"
    " held TEXT NOT NULL)"
)
OF_A_FILE: Final = "SELECT count(*) FROM sqlite_schema WHERE name = 'store_move'"
OF_A_SERVER: Final = (
    "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = 'daycare' AND tablename = 'store_move'"
)


class MoveNote(msgspec.Struct, frozen=True, kw_only=True):
    """Where the `other` database is, and since when it is so (wall ms). `held` is the engine's own."""

    state: State
    other: str
    at: int
    held: str = ""


def read(db: Any, there: str) -> MoveNote | None:
    """Return what a database says, None for nothing. `there` asks its engine whether it says something."""
    if not db.execute(there).fetchone()[0]:
        return None
    row = db.execute("SELECT state, other, at, held FROM store_move").fetchone()
    return row and MoveNote(state=row[0], other=row[1], at=row[2], held=row[3])


def write(db: Any, note: MoveNote) -> None:
    """Let a database say something, in the open transaction."""
    db.execute(_MAKE)
    db.execute("DELETE FROM store_move")
    db.execute(
        "INSERT INTO store_move (state, other, at, held) VALUES (?, ?, ?, ?)",
        (note.state, note.other, note.at, note.held),
    )


def remove(db: Any) -> None:
    """Let a database say nothing any more, in the open transaction."""
    db.execute("DROP TABLE IF EXISTS store_move")


def refuse(note: MoveNote | None, location: str) -> None:
    """Raise `BrokenError` STORE_MOVED or STORE_HALF_MOVED for a database that must not be opened."""
    if note is None or note.state == "arrived":
        return
    if note.state == "left":
        raise BrokenError(
            "STORE_MOVED",
            f"opening {location}: everything in it was moved to {note.other}, {when(note.at)}",
            hint=f'write location = "{note.other}" under [store] in config.toml; to go on with this one as it was then:'
            " daycare migrate-store --undo",
        )
    if note.state == "arriving":
        way = f"from {note.other} into it"
        hint = (
            "to finish it, let [store] location in config.toml name the source, then: daycare migrate-store --to"
            f" {shlex.quote(location)}; to give it up, use the source, and delete this one"
        )
    else:
        way = f"of it to {note.other}"
        hint = (
            f"to finish it: daycare migrate-store --to {shlex.quote(note.other)}; to give it up: daycare migrate-store"
            " --undo"
        )
    raise BrokenError(
        "STORE_HALF_MOVED", f"opening {location}: a move {way} was interrupted, {when(note.at)}", hint=hint
    )
