"""Documents as files of a folder, for people to read and edit with what they like: written out, and read back.

    global/IDENTITY.md                       what concerns everybody
    users/ann/USER.md                        a person's, with workspace/ and project/ below
    agents/ann.telegram/MEMORY.md            an agent's; the folder is its path with dots
    agents/ann.telegram/MEMORY.store.md      what the store has, beside a file that was changed on both sides

A small hidden file remembers what both sides last had in common. Changed on one side only, the other follows; changed
on both, neither is touched: the store's text is laid beside the file, and once a person has merged the two and removed
that, the file counts. What people whom a user has let in keep is not shared: it is theirs alone.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import trio
from msgspec.structs import replace

from daycare.base.differences import unified
from daycare.base.documents import Attribution, DocumentVersion, Layer, NewVersion, Place, digest
from daycare.base.errors import BusyError, ConflictError, InvalidError, NotFoundError
from daycare.base.limits import DOCUMENTS_MAX, SHARED_FILES_MAX
from daycare.base.messages import Origin
from daycare.base.scope import is_subusers
from daycare.features.memory.documents.folder import DocumentFolder, UnfitError
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.service import check_growth
from daycare.rules.document_paths import Address, parse
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store

SHARED_FOLDER_MAX_CHARS: Final = 200  # of an agent's folder; file systems take 255 bytes

T = TypeVar("T")

STATE: Final = ".state.json"
THEIRS: Final = ".store.md"  # no document's name: a dot stands in it
_STATE_MAX_BYTES: Final = 512 * SHARED_FILES_MAX
_PAGE: Final = 256


class Conflict(msgspec.Struct, frozen=True, kw_only=True):
    """A document that was changed on both sides. `theirs` is the file with the store's text."""

    file: str
    theirs: str
    diff: str


class SkippedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was left alone, and why."""

    file: str
    why: str


class Exchange(msgspec.Struct, kw_only=True):
    """What an exchange came to, by file. `pending` were changed on disk and wait for an import."""

    folder: str
    written: list[str] = msgspec.field(default_factory=list)
    removed: list[str] = msgspec.field(default_factory=list)
    imported: list[str] = msgspec.field(default_factory=list)
    deleted: list[str] = msgspec.field(default_factory=list)
    pending: list[str] = msgspec.field(default_factory=list)
    conflicts: list[Conflict] = msgspec.field(default_factory=list)
    skipped: list[SkippedFile] = msgspec.field(default_factory=list)
    unchanged: int = 0


class _Known(msgspec.Struct, frozen=True, omit_defaults=True):
    """What both sides last had in common: a hash, empty for "not there". `theirs`: the store's when they fell apart."""

    owner: str
    hash: str
    theirs: str | None = None

    @property
    def laid(self) -> str:
        """The hash of the text that was laid beside the file: an empty one for what the store had deleted."""
        return self.theirs or digest("")


class _Target(msgspec.Struct, frozen=True):
    address: Address
    place: Place
    user: str


class Sharing:
    """The exchange with the folder at `path`. One at a time; a crash in it loses nothing, and the next goes on."""

    def __init__(self, store: Store, path: Path) -> None:
        self._store = store
        self._folder = DocumentFolder(path)
        self._busy = trio.Lock()

    async def export(self, *, author: str, user: str) -> Exchange:
        """Let the files follow the store where only the store has changed."""
        return await self._exchange(author, user, take=False)

    async def take(self, *, author: str, user: str) -> Exchange:
        """Let the store follow the files where only they have changed, and the files the store as `export` does.

        `author` (a connector key, `direct:ann`) of `user` answers for what is taken in.
        """
        return await self._exchange(author, user, take=True)

    async def _exchange(self, author: str, user: str, *, take: bool) -> Exchange:
        async with self._busy:
            files = await _apart(self._folder.files)
            living, state = await self._living(), await self._load()
            beside = {_beside(file) for file, common in state.items() if common.theirs is not None} & set(files)
            exchange = _Pass(self._store, self._folder, beside, author, take=take)
            known: dict[str, _Known] = {}
            for file in sorted({*files, *living, *state} - beside):
                if any(file == conflict.theirs for conflict in exchange.done.conflicts):
                    continue  # from a pass that did not come to its end
                common = state.get(file)
                try:
                    target = await self._target(file, user)
                    common = await exchange.meet(file, target, living.get(file), common)
                except (UnfitError, InvalidError, NotFoundError, ConflictError, BusyError) as error:
                    if file not in files and file not in living:
                        continue  # its owner is gone, and so is the file
                    exchange.done.skipped.append(SkippedFile(file=_shown(file), why=str(error)))
                if common is not None:
                    known[file] = common
            await self._save(known)
            return exchange.done

    async def _living(self) -> dict[str, DocumentVersion]:
        """Return the newest versions of all living documents of those who live, by file."""
        found: dict[str, DocumentVersion] = {}
        owners: list[tuple[Layer, str]] = []
        while page := await self._store.of(DocumentRows).owners(after=owners[-1] if owners else ("", ""), limit=_PAGE):
            owners += page
        for layer, owner in owners:
            above = await self._above(layer, owner)
            after = ""
            while above is not None:
                versions = await self._store.of(DocumentRows).find(layer, owner, after=after, limit=DOCUMENTS_MAX)
                found.update((f"{above}/{each.place.name}", each) for each in versions)
                if len(found) > SHARED_FILES_MAX:
                    raise InvalidError("SHARED_TOO_MANY", f"exporting over {SHARED_FILES_MAX} documents")
                if len(versions) < DOCUMENTS_MAX:
                    break
                after = versions[-1].place.name
        return found

    async def _above(self, layer: Layer, owner: str) -> str | None:
        """Return the folder of an owner's documents, None if these are not shared."""
        match layer:
            case Layer.AGENT:
                agent = await self._store.agents.get(owner)
                return None if agent is None or not _is_shared(agent) else f"agents/{_folder_of(agent)}"
            case Layer.GLOBAL:
                return "global"
        if "/" in owner:
            return None
        return f"users/{owner}" if layer is Layer.USER else f"users/{owner}/{layer}"

    async def _target(self, file: str, user: str) -> _Target:
        """Return what a file is the text of. Raises `InvalidError`, `NotFoundError` for what it cannot be."""
        match _shown(file).split("/"):  # no document has a name that is no text
            case ("global", *rest):
                address = parse("/".join(("global", *rest)))
                return _Target(address, Place(Layer.GLOBAL, "", address.name), user)
            case ("users", owner, *rest) if rest:
                if await self._store.people.get(owner) is None:
                    raise NotFoundError("USER_UNKNOWN", f"there is no user {owner!a}", hint="daycare users list")
                shared = rest[0] not in ("workspace", "project")
                address = parse("/".join(("shared", *rest) if shared else rest))
                return _Target(address, Place(address.layers[0], owner, address.name), owner)
            case ("agents", folder, *rest) if rest:
                agent = await self._agent(folder)
                address = parse("/".join(("agent", *rest)))
                return _Target(address, Place(Layer.AGENT, agent.id, address.name), agent.user)
        raise InvalidError("SHARED_FILE", "documents lie below global/, users/USER/ and agents/AGENT/", hint="move it")

    async def _agent(self, folder: str) -> Agent:
        named = folder.startswith("id-") and "." not in folder
        agent = await (
            self._store.agents.get(folder.removeprefix("id-"))
            if named
            else self._store.agents.at("/" + folder.replace(".", "/"))
        )
        if agent is None or not _is_shared(agent) or _folder_of(agent) != folder:
            raise NotFoundError("AGENT_UNKNOWN", f"no agent has the folder {folder!a}", hint="daycare agents")
        return agent

    async def _load(self) -> dict[str, _Known]:
        text = await _apart(lambda: self._folder.read(STATE, _STATE_MAX_BYTES))
        try:
            return msgspec.json.decode(text or "{}", type=dict[str, _Known])
        except msgspec.MsgspecError:
            return {}  # then every file that differs is a conflict: nothing is lost

    async def _save(self, known: dict[str, _Known]) -> None:
        text = msgspec.json.format(msgspec.json.encode(known)).decode() + "\n"
        await _apart(lambda: self._folder.write(STATE, text, expected=None))


class _Pass:
    """One pass over the files: compares each with its document, and lets one follow the other."""

    def __init__(self, store: Store, folder: DocumentFolder, beside: set[str], author: str, *, take: bool) -> None:
        self.done = Exchange(folder=str(folder.path))
        self._documents = store.of(DocumentRows)
        self._folder = folder
        self._beside = beside
        self._author = author
        self._take = take

    async def meet(
        self, file: str, target: _Target, version: DocumentVersion | None, known: _Known | None
    ) -> _Known | None:
        """Look at one file and its document, and return what they have in common now."""
        disk = await _apart(lambda: self._folder.read(file))
        on_disk, in_store = digest(disk), version.hash if version else ""
        owner = target.place.owner
        if known is not None and known.owner != owner and on_disk:
            raise UnfitError("it is of an earlier agent of this path: move it away")
        if known is None or known.owner != owner:
            known = _Known(owner, "")
        if on_disk == in_store:
            self.done.unchanged += bool(in_store)
            await self._tidy(file, known)
            return _Known(owner, in_store) if in_store else None
        merged = known.theirs == in_store and _beside(file) not in self._beside
        if on_disk == known.hash:
            return await self._follow_store(file, target, on_disk, in_store, known)
        if merged or in_store == known.hash:
            return await self._follow_disk(file, target, disk, in_store, known)
        if disk is None:  # removed here, changed there: nothing is lost by showing it again
            return await self._follow_store(file, target, on_disk, in_store, known)
        return await self._conflict(file, target, disk, in_store, known)

    async def _follow_store(
        self, file: str, target: _Target, on_disk: str, in_store: str, known: _Known
    ) -> _Known | None:
        text = await self._stored(target.place, in_store)
        if text is None:
            changed = await _apart(lambda: self._folder.remove(file, expected=on_disk))
        else:
            changed = await _apart(lambda: self._folder.write(file, text, expected=on_disk))
        if not changed:
            raise UnfitError("something else is there by now: repeat this")
        (self.done.removed if text is None else self.done.written).append(file)
        await self._tidy(file, known)
        return None if text is None else _Known(target.place.owner, in_store)

    async def _follow_disk(
        self, file: str, target: _Target, disk: str | None, in_store: str, known: _Known
    ) -> _Known | None:
        if not self._take:
            self.done.pending.append(file)
            return known
        check_growth(target.address, await self._stored(target.place, in_store), disk)
        by = Attribution(
            origin=Origin.PERSON,
            author=self._author,
            approver=self._author,
            reason="imported" if disk is not None else "its file was removed",
            provenance=(f"file:{file}",),
        )
        new = NewVersion(place=target.place, user=target.user, by=by, text=disk, base_hash=in_store)
        await self._documents.write(new)
        (self.done.deleted if disk is None else self.done.imported).append(file)
        await self._tidy(file, known)
        return None if disk is None else _Known(target.place.owner, digest(disk))

    async def _conflict(self, file: str, target: _Target, disk: str, in_store: str, known: _Known) -> _Known:
        """Touch neither side, and lay the store's text beside the file."""
        theirs = _beside(file)
        stored = await self._stored(target.place, in_store) or ""
        there = digest(await _apart(lambda: self._folder.read(theirs)))
        ours = there in ("", digest(stored), known.laid)
        if not ours or not await _apart(lambda: self._folder.write(theirs, stored, expected=there)):
            raise UnfitError(f"it was changed on both sides, and somebody has written into {theirs}: move that away")
        self.done.conflicts.append(Conflict(file=file, theirs=theirs, diff=unified(stored, disk, file)))
        return replace(known, theirs=in_store)

    async def _stored(self, place: Place, expected: str) -> str | None:
        found = await self._documents.get(place)
        if (found.version.hash if found else "") != expected:
            raise UnfitError("it was changed meanwhile: repeat this")
        return found.text if found else None

    async def _tidy(self, file: str, known: _Known) -> None:
        """Remove what was laid beside a file, once there is nothing to merge; what somebody wrote there stays."""
        theirs = _beside(file)
        if theirs in self._beside and not await _apart(lambda: self._folder.remove(theirs, expected=known.laid)):
            self.done.skipped.append(SkippedFile(file=theirs, why="somebody has written into it: move it away"))


async def _apart(work: Callable[[], T]) -> T:
    return await trio.to_thread.run_sync(work)


def _folder_of(agent: Agent) -> str:
    """Return the name of an agent's folder: its path with dots, which stand in no name; its id where that is long."""
    dotted = agent.path.removeprefix("/").replace("/", ".")
    return dotted if len(dotted) <= SHARED_FOLDER_MAX_CHARS else f"id-{agent.id}"


def _is_shared(agent: Agent) -> bool:
    return agent.state != "dead" and not is_subusers(agent.path)


def _beside(file: str) -> str:
    return file.removesuffix(".md") + THEIRS


def _shown(file: str) -> str:
    return file.encode(errors="backslashreplace").decode()
