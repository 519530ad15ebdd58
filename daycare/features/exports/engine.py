"""Exporting an agent, importing one, cloning one: what the API does with the store and the files of exports."""

import hashlib
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from pathlib import Path as File
from typing import BinaryIO, Final, Literal

import msgspec
import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.base.clock import Clock
from daycare.base.errors import ConflictError, InvalidError, NotFoundError
from daycare.base.ids import new_agent_id, new_trace_id
from daycare.base.limits import (
    COMMIT_MAX_BYTES,
    EXPORT_CHUNK_BYTES,
    EXPORT_FILES_MAX,
    EXPORT_LINE_MAX_BYTES,
    EXPORT_MAX_BYTES,
)
from daycare.base.path import Kind, Path
from daycare.base.scope import scope_of
from daycare.features.exports.archive import ExportArchive, ExportManifest, ExportSpool, wrong
from daycare.features.exports.checking import Checker, checked
from daycare.features.exports.names import Renaming, is_identity, path_of, with_files
from daycare.features.exports.narrowing import Arriving, Leaving
from daycare.features.exports.records import (
    AgentRecord,
    Anything,
    ArrivingAgent,
    DocumentRecord,
    FileRecord,
    Incoming,
    JobRecord,
    LeftOut,
    ReceiptRecord,
    Snapshot,
    TurnRecord,
)
from daycare.features.exports.rows import ExportRows
from daycare.features.exports.settings_filter import SettingsFilter
from daycare.features.exports.stored import StoredFiles, anonymous
from daycare.rules.permissions import Rules
from daycare.settings import Live
from daycare.store.bucket import PlacedObject
from daycare.store.records import AgentConfig
from daycare.store.sqlite.store import Store

_ROOTS: Final = (Kind.AGENT, Kind.SUBUSER, Kind.APP, Kind.TASK, Kind.CRON, Kind.CONNECTOR)
_FILES_AT_ONCE: Final = 64  # kept in one commit, as long as they are small


class ExportProgress(msgspec.Struct):
    """How far it is. `stage` says with what; `done` counts records, or bytes of files."""

    stage: Literal["waiting", "reading", "packing", "checking", "files", "writing", "done"] = "waiting"
    done: int = 0


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an export, an import or a clone came to.

    `taken` counts by kind of record. `held` are documents of identity that are in no prompt before somebody approves
    them. `id` names an export that waits to be fetched, of so many `bytes`.
    """

    path: str
    source: str
    made_at: int
    daycare: str
    taken: dict[str, int]
    left_out: tuple[LeftOut, ...]
    agents: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    dry_run: bool = False
    id: str = ""
    bytes: int = 0


class ExportEngine:
    """Exports and imports of one daemon, one after the other.

    `check` raises for settings of an agent that name what there is not. Files lie in `folder` without a name, so that
    nothing is left of them; `owner` is the connector key of the operator.
    """

    def __init__(
        self,
        store: Store,
        directory: Directory,
        check: Callable[[AgentConfig], None],
        clock: Clock,
        folder: File,
        owner: str,
        live: Live,
    ) -> None:
        self._store = store
        self._rows = store.of(ExportRows)
        self._directory = directory
        self._check = check
        self._clock = clock
        self._folder = folder
        self._owner = owner
        self._live = live
        self._rules = live.made(lambda settings: Rules(settings.rules, settings.tools.by_role()))
        self._turn = trio.Lock()  # one at a time
        self._kept = StoredFiles()

    # -- out -----------------------------------------------------------------------------------------------------------

    async def export(self, path: str, *, shared: bool, progress: ExportProgress) -> ExportReport:
        """Make an export, which is kept for a while under the report's `id`. Raises `NotFoundError`."""
        self._kept.make_room()
        async with self._turn:
            file = await self._rows.apart(lambda: anonymous(self._folder))
            try:
                manifest = await self._rows.apart(lambda: self._write(file, path, progress, shared=shared))
            except BaseException:
                file.close()
                raise
        size = os.fstat(file.fileno()).st_size
        return replace(_told(manifest, path), id=self._kept.keep(file, "export"), bytes=size)

    async def fetch(self, export_id: str) -> AsyncIterator[bytes]:
        """Yield the bytes of an export, once; then it is gone."""
        kept = self._kept.take(export_id, "export")
        try:
            kept.file.seek(0)
            while data := await self._rows.apart(lambda: kept.file.read(EXPORT_CHUNK_BYTES)):
                yield data
        finally:
            kept.file.close()

    def size_of(self, export_id: str) -> int:
        """Return the size of an export that is kept. Raises `NotFoundError` EXPORT_UNKNOWN."""
        return self._kept.known(export_id, "export").size

    def _write(
        self, target: BinaryIO, path: str, progress: ExportProgress, *, shared: bool, to: Path | None = None
    ) -> ExportManifest:
        progress.stage = "reading"
        spool = ExportSpool(self._folder)
        try:
            with self._rows.snapshot(path, self._store.tables, self._fetched, shared=shared) as it:
                leaving = Leaving(self._rules(), self._live.now.approvals, list(map(path_of, it.paths())), to)
                ids = _write_records(it, spool, progress, leaving, receipts=to is None)
                progress.stage, progress.done = "packing", 0
                return spool.write(
                    target,
                    path,
                    self._clock.now_ms(),
                    shared=shared,
                    left_out=tuple(it.left_out),
                    files=lambda: _bytes_of(it, ids, progress),
                )
        finally:
            spool.close()

    def _fetched(self, it: PlacedObject) -> bytes:
        """Return the bytes of a file that lies in the bucket; who writes an export is in a thread."""
        return trio.from_thread.run(self._store.files.read_placed, it)

    # -- in ------------------------------------------------------------------------------------------------------------

    async def receive(self, data: AsyncIterable[bytes]) -> tuple[str, int]:
        """Keep an upload for a while; return its id and size. Raises `InvalidError` EXPORT_TOO_LARGE."""
        self._kept.make_room()
        file = await self._rows.apart(lambda: anonymous(self._folder))
        size = 0
        try:
            async for piece in data:
                size += len(piece)
                if size > EXPORT_MAX_BYTES:
                    raise InvalidError("EXPORT_TOO_LARGE", f"reading an export: it has over {EXPORT_MAX_BYTES} bytes")
                await self._rows.apart(lambda piece=piece: file.write(piece))  # type: ignore[misc]
            await self._rows.apart(file.flush)
        except BaseException:
            file.close()
            raise
        return self._kept.keep(file, "upload"), size

    async def bring(
        self, upload_id: str, path: str, *, approve: bool, dry_run: bool, progress: ExportProgress
    ) -> ExportReport:
        """Import what was uploaded as the agent `path`: all of it, or nothing with the reason why.

        `approve`: the operator stands behind the newest versions of documents of identity. With `dry_run` it is only
        checked. The upload is gone afterwards.
        """
        kept = self._kept.take(upload_id, "upload")
        try:
            async with self._turn:
                root = await self._target(path)
                return await self._bring(kept.file, root, progress, approve=approve, dry_run=dry_run, trusted=False)
        finally:
            kept.file.close()

    async def clone(self, path: str, to: str, *, progress: ExportProgress) -> ExportReport:
        """Make another agent like one that is there. Of the same user, texts keep who stands behind them."""
        async with self._turn:
            root = await self._target(to)
            source = await self._directory.at(path)
            file = await self._rows.apart(lambda: anonymous(self._folder))
            try:
                await self._rows.apart(lambda: self._write(file, source.path, progress, shared=False, to=root))
                trusted = root.user == source.user and scope_of(str(root)) == scope_of(source.path)
                return await self._bring(file, root, progress, approve=False, dry_run=False, trusted=trusted)
            finally:
                file.close()

    async def _target(self, text: str) -> Path:
        path = self._directory.parse(text)
        if path.kind not in _ROOTS:
            raise InvalidError(
                "IMPORT_TARGET", f"importing as {path}: nobody creates it", hint="--as /USER/agent/NAME, for example"
            )
        if await self._store.people.get(path.user) is None:
            raise NotFoundError(
                "USER_UNKNOWN", f"importing as {path}: there is no user {path.user}", hint="daycare users add"
            )
        living = await self._store.agents.find(user=path.user, after=f"{path}/", limit=1)
        at = await self._store.agents.at(str(path))
        for taken in (at, *living):
            if taken is not None and (taken.path == str(path) or taken.path.startswith(f"{path}/")):
                raise ConflictError(
                    "PATH_TAKEN",
                    f"importing as {path}: {taken.path} lives there",
                    hint=f"choose another path, or end it first: daycare agents rm {taken.path}",
                )
        return path

    async def _bring(
        self, file: BinaryIO, root: Path, progress: ExportProgress, *, approve: bool, dry_run: bool, trusted: bool
    ) -> ExportReport:
        archive = ExportArchive(file)
        progress.stage, progress.done = "checking", 0
        source = await self._rows.apart(lambda: archive.manifest().path)
        checker = Checker(lambda below: self._place(root, below), source)
        take = checked(checker.take)

        def check(record: Anything | FileRecord) -> None:
            take(record)
            progress.done += 1

        def read() -> ExportManifest:
            manifest = archive.read(check)
            try:
                checker.end()
            except InvalidError as error:
                raise wrong(error.message) from None
            return manifest

        manifest = await self._rows.apart(read)
        settings = SettingsFilter(self._check)
        renaming = Renaming(manifest.path, root, trusted=trusted)
        arriving = Arriving(self._rules(), self._live.now.approvals, renaming, checker.paths)
        arriving.check(checker.agents[0], manifest.path)
        for agent, at in zip(checker.agents, checker.paths, strict=True):  # before anything is kept
            settings.fit(arriving.agent(renaming.agent(agent), at).config)
        approved = self._owner if approve else ""
        older = tuple(
            LeftOut(what=f"setting `{name}`", count=count, why="only older versions of daycare had it")
            for name, count in archive.dropped.items()
        )
        held = () if approve or trusted else tuple(sorted(set(checker.identity)))
        report = replace(_told(manifest, str(root)), agents=tuple(map(str, checker.paths)), held=held)
        if dry_run:
            return replace(report, dry_run=True, left_out=(*report.left_out, *older, *settings.left_out))
        await self._rows.sweep()
        key = new_trace_id()
        progress.stage, progress.done = "files", 0
        files = await self._keep_files(archive, key, root.user, progress)
        progress.stage, progress.done = "writing", 0
        newest = _newest_identity(archive) if approved else {}

        def records() -> Iterator[Anything]:
            settings.left.clear()
            coming = iter(checker.paths)
            for progress.done, record in enumerate(archive.records(), 1):
                renamed = renaming.record(record, lambda place: files[place - 1][0] if place else 0)
                if isinstance(renamed, AgentRecord):
                    renamed = arriving.agent(renamed, next(coming))
                    renamed = replace(renamed, config=settings.fit(renamed.config))
                if isinstance(renamed, JobRecord):
                    if refused := arriving.refused(renamed):
                        settings.leave("scheduled jobs", f"their maker may not schedule them here: {refused}")
                        continue
                    renamed = arriving.job(renamed)
                if isinstance(renamed, DocumentRecord) and newest.get(_line(renamed)) == renamed.version:
                    renamed = replace(renamed, approver=approved)
                yield renamed

        incoming = Incoming(
            key=key, user=root.user, scope=scope_of(str(root)), agents=_arrivals(checker.paths), files=tuple(files)
        )
        brought = await self._rows.bring_in(incoming, records)
        progress.stage = "done"
        left_out = (*manifest.left_out, *older, *brought.left_out, *settings.left_out)
        return replace(report, taken=brought.taken, left_out=left_out)

    def _place(self, root: Path, below: str) -> Path:
        return self._directory.parse(f"{root}{below}") if below else root

    async def _keep_files(
        self, archive: ExportArchive, key: str, user: str, progress: ExportProgress
    ) -> list[tuple[int, FileRecord]]:
        found: list[tuple[int, FileRecord]] = []
        source = archive.files()
        while page := await self._rows.apart(lambda: _page(source)):
            ids = await self._rows.keep_files(key, user, page)
            found += [(file_id, record) for file_id, (_, record, _) in zip(ids, page, strict=True)]
            progress.done += sum(len(data) for *_, data in page)
        return found


def _write_records(
    it: Snapshot, spool: ExportSpool, progress: ExportProgress, leaving: Leaving, *, receipts: bool
) -> list[int]:
    """Put all records into the spool; return the ids of the files, in the order of theirs.

    Without `receipts` a message is none that was answered: a clone is another agent beside the one that answered it.
    """
    places: dict[int, int] = {}
    records: list[FileRecord] = []
    for file_id, file in it.files_of_turns():
        places[file_id] = len(places) + 1
        records.append(file)

    def place_of(file_id: int) -> int:
        if file_id not in places:
            found = it.file(file_id) if len(records) < EXPORT_FILES_MAX else None
            if found is None:
                return 0
            records.append(found[0])
            places[file_id] = len(places) + 1
        return places[file_id]

    for progress.done, record in enumerate(it.records(), 1):
        if isinstance(record, ReceiptRecord) and not receipts:
            continue
        if isinstance(record, TurnRecord):
            record = replace(record, messages=with_files(record.messages, place_of))
            if len(msgspec.json.encode(record)) > EXPORT_LINE_MAX_BYTES:
                raise InvalidError("EXPORT_TOO_LARGE", f"exporting: a turn has over {EXPORT_LINE_MAX_BYTES} bytes")
        spool.add(leaving.record(record))
    for file_id, file in zip(places, records, strict=True):
        found = it.file(file_id)
        data = found[1] if found else b""
        spool.add(replace(file, size=len(data), sha256=hashlib.sha256(data).hexdigest()))
    return list(places)


def _bytes_of(it: Snapshot, ids: list[int], progress: ExportProgress) -> Iterator[bytes]:
    for file_id in ids:
        found = it.file(file_id)
        data = found[1] if found else b""
        progress.done += len(data)
        yield data


def _page(source: Iterator[tuple[int, FileRecord, bytes]]) -> list[tuple[int, FileRecord, bytes]]:
    page: list[tuple[int, FileRecord, bytes]] = []
    size = 0
    while len(page) < _FILES_AT_ONCE and size < COMMIT_MAX_BYTES and (each := next(source, None)) is not None:
        page.append(each)
        size += len(each[2])
    return page


def _arrivals(paths: list[Path]) -> tuple[ArrivingAgent, ...]:
    """Return the agents as they are to be; the parent of one whose own is not there is the next above."""
    ids = {str(path): new_agent_id() for path in paths}
    found = []
    for path in paths:
        above = path.parent
        while above is not None and str(above) not in ids:
            above = above.parent
        parent = None if above is None else ids[str(above)]
        role = None if path.role is None else str(path.role)
        found.append(ArrivingAgent(id=ids[str(path)], path=str(path), kind=str(path.kind), role=role, parent=parent))
    return tuple(found)


def _line(record: DocumentRecord) -> tuple[str, int, str]:
    return str(record.layer), record.agent, record.name


def _newest_identity(archive: ExportArchive) -> dict[tuple[str, int, str], int]:
    """Return the newest version of each document of identity."""
    found = (record for record in archive.records() if isinstance(record, DocumentRecord) and is_identity(record))
    return {_line(record): record.version for record in found}


def _told(manifest: ExportManifest, path: str) -> ExportReport:
    return ExportReport(
        path=path,
        source=manifest.path,
        made_at=manifest.made_at,
        daycare=manifest.daycare,
        taken=manifest.counts,
        left_out=manifest.left_out,
    )
