"""Opening the two sides of a move by their locations."""

from pathlib import Path
from types import ModuleType

from daycare.base.store_location import is_server, not_installed, shown
from daycare.store.moving import file_side, note
from daycare.store.moving.note import MoveNote
from daycare.store.moving.row_format import Nul
from daycare.store.moving.side import Side, TargetSide


def open_source(location: str, nul: Nul = "keep") -> Side:
    """Open a store to read from. Raises `NotFoundError` STORE_MISSING, and what says that it cannot be moved."""
    if is_server(location):
        side: Side = _servers(location).open_source(location)
        return side
    return file_side.open_source(location, nul)


def look_at_target(location: str) -> MoveNote | None:
    """Return what a store that is to be written to says of a move, None for nothing.

    Raises `ConflictError` MOVE_TARGET_TAKEN for one that has rows of its own, and what opening it would.
    """
    if is_server(location):
        said: MoveNote | None = _servers(location).look_at_target(location)
        return said
    return file_side.look_at_target(location)


def refuse_moved(location: str) -> None:
    """Raise `BrokenError` STORE_MOVED or STORE_HALF_MOVED for a store that no daemon opens."""
    if is_server(location):
        note.refuse(_servers(location).said_in(location), shown(location))
    elif Path(location).exists():
        note.refuse(file_side.said_in(location), location)


def open_target(location: str, now_ms: int) -> tuple[TargetSide, str]:
    """Open a store to write to, made if it is not there; also return where a file was put that was left before."""
    if is_server(location):
        return _servers(location).open_target(location), ""
    return file_side.open_target(location, now_ms)


def _servers(location: str) -> ModuleType:
    try:
        from daycare.store.moving import server_side
    except ImportError as error:
        raise not_installed(location, error) from None
    return server_side
