"""A store as one file, and a file as a store: what a backup takes, and what a restore gives back."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import apsw

from daycare.base.errors import ConflictError
from daycare.store.moving import file_side, opening
from daycare.store.moving.copier import Copier
from daycare.store.moving.note import MoveNote
from daycare.store.sqlite.database import describing, open_writer
from daycare.store.sqlite.rows import WordIndex


def copy_to_file(location: str, target: Path, indexes: Sequence[WordIndex], check: Callable[[], None]) -> None:
    """Copy a store as of one moment to a new file, compared row by row; `check` may raise now and then."""
    with closing(opening.open_source(location)) as source:
        made, _ = file_side.open_target(str(target), 0)
        with closing(made):
            made.begin(MoveNote(state="arriving", other=source.location, at=0))
            source.hold()
            Copier(source, made, indexes, lambda *_: check()).settle()
            made.complete()
            made.finish(None)
    with describing(str(target)), closing(apsw.Connection(str(target), flags=apsw.SQLITE_OPEN_READWRITE)) as db:
        db.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, whole in itself


def has_come(location: str, told: str) -> bool:
    """Whether what is called so has come into a store as a whole.

    Raises `ConflictError` MOVE_TARGET_TAKEN where something else is in it.
    """
    try:
        said = opening.look_at_target(location)
    except ConflictError:
        with closing(opening.open_source(location)) as side:
            note = side.note()
        if note is not None and (note.state, note.other) == ("arrived", told):
            return True
        raise
    if said is not None and said.other != told:
        raise ConflictError(
            "MOVE_TARGET_TAKEN",
            f"restoring {told}: {said.other} is being moved there",
            hint="finish that, or delete what is there",
        )
    return False


def copy_from_file(file: Path, location: str, told: str, indexes: Sequence[WordIndex], now_ms: int) -> None:
    """Copy a file into a store that is empty, or has a part of it from an earlier try; `told` is what it is called.

    A file of an older schema is brought up to date before.
    """
    open_writer(str(file)).close()
    with closing(file_side.open_source(str(file), "refuse")) as source:
        target, _ = opening.open_target(location, now_ms)
        with closing(target):
            target.begin(MoveNote(state="arriving", other=told, at=now_ms))
            source.hold()
            Copier(source, target, indexes).settle()
            target.complete()
            target.finish(MoveNote(state="arrived", other=told, at=now_ms))
            target.tidy()
