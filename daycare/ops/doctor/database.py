"""The database: whether it is sound, fits this version, and is in good shape; and the backups of it."""

import shlex
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from daycare.base.english import plural
from daycare.base.errors import BrokenError, DaycareError
from daycare.base.limits import BACKUP_LATE
from daycare.base.sizes import size
from daycare.base.store_location import is_server
from daycare.base.times import when
from daycare.features.backups.backup_store import scheduled_in
from daycare.features.backups.engine import folder_of
from daycare.features.backups.half import refuse_half
from daycare.features.memory.documents.index import reindex_documents
from daycare.ops.doctor.context import DoctorContext
from daycare.ops.doctor.finding import DoctorFinding, Level, Mend
from daycare.ops.doctor.server import server
from daycare.ops.vanished import refuse_vanished
from daycare.store.home import MEMORY
from daycare.store.moving.opening import refuse_moved
from daycare.store.sqlite import inspection, mark
from daycare.store.sqlite.copies import restored_in
from daycare.store.sqlite.database import check
from daycare.store.sqlite.guard import rescues

LOG_WARN_BYTES: Final = 64 * 1024**2  # four times what is brought into the file by itself
FREE_WARN: Final = 0.5  # of the file
FREE_WARN_BYTES: Final = 100 * 1024**2


def database(context: DoctorContext) -> Iterator[DoctorFinding]:
    """The file: read whole, its schema, the space in it, the log of commits beside it, the index of words."""
    location = context.location
    if location == MEMORY:
        yield DoctorFinding(
            "warn", "database", "messages are kept in memory and lost at the end", "[store] in the config"
        )
        return
    if is_server(location):
        yield from server(context)
        yield from moved(location)
        return
    if not Path(location).exists():
        refuse_vanished(context.home, context.config)
        yield DoctorFinding(
            "warn", "database", f"{location} does not exist yet", "daycare run (the first start makes it)"
        )
        return
    yield from moved(location)
    if saved := rescues(location):
        told = f"{saved[-1]} has what was acknowledged when the database was removed or replaced"
        yield DoctorFinding(
            "warn", "rescued", told, "put it in the database's place while daycare is stopped, or remove it"
        )
    lost = mark.read(location).lost
    if lost is not None:
        told = f"found {when(lost.found_at)}: {lost}"
        level: Level = "warn" if lost.is_recent(context.now_ms) else "ok"
        yield DoctorFinding(level, "commits", told, "daycare restore BACKUP --force, if a backup has more")
    if problem := check(location):
        restore = "daycare restore BACKUP --force"
        index = "documents_text" in problem and _indexed(context)
        yield DoctorFinding(
            "fail",
            "database",
            f"{location}: {problem}",
            "daycare doctor --fix" if index else restore,
            mend=_reindex(location) if index else None,
        )
        return
    if context.inside is None:
        yield DoctorFinding("fail", "database", context.closed, "daycare restore BACKUP --force")
        return
    yield DoctorFinding("ok", "database", f"{location}, {size(Path(location).stat().st_size)}, intact")
    yield from _schema(context, context.inside)
    yield from _shape(context, context.inside)


def _schema(context: DoctorContext, inside: inspection.Inspection) -> Iterator[DoctorFinding]:
    told = f"its schema is number {inside.schema}, this daycare knows up to {inside.known}"
    if inside.schema > inside.known:
        fitting = inspection.upgraded_from(context.location)
        hint = "daycare rollback, or install the newer daycare again" if fitting else "install the newer daycare again"
        yield DoctorFinding("fail", "schema", told, hint)
    elif inside.schema < inside.known:
        how = "daycare restart" if context.running else "daycare run"
        yield DoctorFinding("warn", "schema", f"{told}; the next start brings it up to date", how)
    else:
        yield DoctorFinding("ok", "schema", f"number {inside.schema}, the newest")


def _shape(context: DoctorContext, inside: inspection.Inspection) -> Iterator[DoctorFinding]:
    location = context.location
    if inside.log_bytes > LOG_WARN_BYTES:
        yield DoctorFinding(
            "warn",
            "log of commits",
            f"{size(inside.log_bytes)} wait in the file next to it: something has kept it open for reading",
            "daycare restart" if context.running else "daycare doctor --fix",
            mend=Mend("bring the log of commits into the database", partial(inspection.tidy, location), alone=True),
        )
    if inside.free_bytes > max(FREE_WARN_BYTES, FREE_WARN * inside.bytes):
        told = f"{size(inside.free_bytes)} of {size(inside.bytes)} are free for new rows"
        yield DoctorFinding("ok", "free pages", f"{told}; daycare gc --vacuum gives them back")
    if inside.astray:
        yield DoctorFinding(
            "fail",
            "index",
            f"{inside.astray} {plural('document', inside.astray)} are missing in the index of words, or left over",
            "daycare doctor --fix" if context.holder is None else "daycare stop; daycare doctor --fix",
            mend=_reindex(location),
        )


def _indexed(context: DoctorContext) -> bool:
    """Whether the index can be made anew: the rest of the database is as this version knows it."""
    return context.inside is not None and context.inside.schema == context.inside.known


def moved(location: str) -> Iterator[DoctorFinding]:
    """Whether no daemon opens it, as it was moved or is half of a move."""
    try:
        refuse_moved(location)
    except BrokenError as error:
        if error.code in ("STORE_MOVED", "STORE_HALF_MOVED"):
            yield DoctorFinding("fail", "moved", error.message, error.hint)
    except DaycareError:
        return  # the look at the database itself says what is wrong


def _reindex(location: str) -> Mend:
    return Mend("rebuild the index of the documents' words", partial(reindex_documents, location), True)


def backup(context: DoctorContext) -> Iterator[DoctorFinding]:
    """Backups, and whether a restore was interrupted."""
    home, section = context.home, context.config.backup
    refuse_half(home)
    if is_server(context.location) and not section.every_ms:
        told = f"the server's own: daycare makes none by itself; {home.key_file} belongs to it"
        hint = "pg_dump -Fc DATABASE, backups of a managed server, or daycare backup --every 24h"
        yield DoctorFinding("ok", "backup", told, hint)
        return
    folder = folder_of(home, section)
    found = scheduled_in(folder)
    last = f"the last one is of {when(found[-1][0])}" if found else "there is none yet"
    if section.every_ms and not folder.is_dir() and folder.is_relative_to(home.path):
        yield DoctorFinding(
            "warn",
            "backup",
            f"{folder} does not exist yet",
            f"mkdir -m 700 {shlex.quote(str(folder))}",
            mend=Mend(f"mkdir -m 700 {folder}", partial(folder.mkdir, 0o700)),
        )
    if section.every_ms and not folder.is_dir() and not folder.is_relative_to(home.path):
        yield DoctorFinding("fail", "backup", f"{folder} is not there: is its disk connected?", "[backup] folder")
    elif not section.every_ms:
        used = context.inside is None or context.inside.memories > 0
        told = "none is made by itself" if used else "none is made by itself, and nothing was said yet"
        yield DoctorFinding(
            "warn" if used else "ok", "backup", told, "daycare backup /media/disk --every 24h" if used else ""
        )
    elif not found or time.time() * 1000 - found[-1][0] > BACKUP_LATE * section.every_ms:
        yield DoctorFinding("warn", "backup", f"every {section.every}, but {last}", "daycare status, then daycare logs")
    else:
        yield DoctorFinding("ok", "backup", f"every {section.every}, {last}")
    location = context.location
    restored = restored_in(location) if location != MEMORY and Path(location).exists() else None
    if restored is not None:
        told = f"this home was restored {when(restored.restored_at)}, as of {when(restored.made_at)}"
        yield DoctorFinding("ok", "restored", told)
