"""What agents and people do with files of a workspace: read, change, look at what was changed, take it back.

Changes of one workspace are made one after the other. What stood there before is committed before a file is replaced,
so that a crash loses nothing: either the file is as it was, or the change can be taken back.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.base.clock import Clock
from daycare.base.errors import ConflictError, InvalidError, NotFoundError
from daycare.base.events import FileChanged
from daycare.base.messages import Origin
from daycare.features.workspaces.folder import FileEntry, FileMatch, as_text, checked, mark_of
from daycare.features.workspaces.places import WorkspacePlaces
from daycare.features.workspaces.records import FileChange
from daycare.features.workspaces.rows import FileChangeRows
from daycare.observe.bus import Bus
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store

T = TypeVar("T")

_THREADS_MAX: Final = 4  # that read and write at a time


class ReadFile(NamedTuple):
    """A file's content; `own`: agents wrote it, none of whom had read words of others."""

    data: bytes
    own: bool


class Workspaces:
    """Does it."""

    def __init__(self, store: Store, directory: Directory, places: WorkspacePlaces, bus: Bus, clock: Clock) -> None:
        self.rows = store.of(FileChangeRows)
        self.directory = directory
        self.places = places
        self._bus = bus
        self._clock = clock
        self._threads = trio.CapacityLimiter(_THREADS_MAX)
        self._changing = trio.Lock()

    async def read(self, agent: Agent, path: str) -> ReadFile:
        """Return a file. Raises `NotFoundError`, `ForbiddenError`, `InvalidError`."""
        folder = self.places.of(agent.config)
        data = await self._aside(lambda: folder.read(path))
        return ReadFile(data, await self.rows.is_own(str(folder.path), checked(path), mark_of(data)))

    async def read_if_there(self, agent: Agent, path: str) -> bytes | None:
        """Return a file's content, None if there is none."""
        folder = self.places.of(agent.config)
        return await self._aside(lambda: folder.read_if_there(path))

    async def entries(self, agent: Agent, path: str, *, deep: bool) -> tuple[list[FileEntry], bool]:
        """Return what is in a folder, and whether that is all."""
        folder = self.places.of(agent.config)
        return await self._aside(lambda: folder.entries(path, deep=deep))

    async def search(self, agent: Agent, words: str, path: str, limit: int) -> tuple[list[FileMatch], bool]:
        """Return lines with some words in them, and whether that is all."""
        folder = self.places.of(agent.config)
        return await self._aside(lambda: folder.search(words, path, limit))

    async def change(
        self, agent: Agent, path: str, data: bytes | None, *, expected: str, key: str, origins: tuple[Origin, ...]
    ) -> FileChange:
        """Replace a file whose hash is `expected` (empty: there is none), once for each `key`.

        `origins` are those of the words of others that went into it. Raises `ConflictError` FILE_CHANGED, and what
        reading raises.
        """
        folder, file = self.places.of(agent.config), checked(path)
        async with self._changing:
            before = await self._aside(lambda: folder.read_if_there(file))
            first = await self.rows.by_key(key)
            if first is not None and first.after_hash == mark_of(before):
                return first  # made before a crash
            wish = FileChange(
                key=key,
                agent_id=agent.id,
                path=agent.path,
                user=agent.user,
                folder=str(folder.path),
                file=file,
                before_hash=mark_of(before),
                after_hash=mark_of(data),
                size=len(data or b""),
                clean=not origins,
            )
            if wish.before_hash != expected:
                what = (
                    "it has changed" if before is not None and expected else "it is there" if before else "it is gone"
                )
                raise ConflictError("FILE_CHANGED", f"writing {path}: {what}", hint="read it again first")
            made = await self.rows.add(wish, before)
            await self._aside(lambda: folder.replace(file, data, expected))
        self._publish(made)
        return made

    async def history(self, agent: Agent, limit: int) -> list[FileChange]:
        """Return changes in an agent's workspace, the newest first."""
        return await self.rows.find(str(self.places.of(agent.config).path), limit)

    async def undo(self, agent: Agent, no: int) -> FileChange:
        """Let a file be as it was before a change, if it is still as that left it.

        Raises `NotFoundError` FILE_CHANGE_UNKNOWN, `ConflictError` FILE_CHANGED or FILE_CHANGE_UNDONE.
        """
        folder = self.places.of(agent.config)
        async with self._changing:
            change = await self.rows.get(no)
            if change is None or change.folder != str(folder.path):
                raise NotFoundError(
                    "FILE_CHANGE_UNKNOWN",
                    f"undoing change {no}: there is none in the workspace of {agent.path}",
                    hint=f"daycare workspace history {agent.path}",
                )
            if change.undone_at is not None:
                raise ConflictError("FILE_CHANGE_UNDONE", f"undoing change {no}: that was done already")
            before = await self.rows.before(no)
            now = await self._aside(lambda: folder.read_if_there(change.file))
            if mark_of(now) != change.before_hash:  # else a crash came before the change, or somebody was first
                await self._aside(lambda: folder.replace(change.file, before, change.after_hash))
            await self.rows.undone(no)
        undone = replace(change, undone_at=self._clock.now_ms())
        self._publish(undone)
        return undone

    async def _aside(self, do: Callable[[], T]) -> T:
        return await trio.to_thread.run_sync(do, limiter=self._threads)

    def _publish(self, change: FileChange) -> None:
        self._bus.publish(
            FileChanged(
                at_ms=self._clock.now_ms(),
                path=change.path,
                user=change.user,
                agent_id=change.agent_id,
                file=change.file,
                change=change.no,
                bytes=change.size,
                undone=change.undone_at is not None,
            )
        )


def text_of(data: bytes | None, path: str) -> str:
    """Return a file's content as text, empty where there is no file. Raises `InvalidError` FILE_BINARY."""
    text = as_text(data or b"")
    if text is None:
        raise InvalidError("FILE_BINARY", f"reading {path}: it is not text ({len(data or b'')} bytes)")
    return text
