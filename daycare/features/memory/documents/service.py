"""What an agent and its people keep, as files: reading through the layers, and changes that say who made them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import trio
from msgspec.structs import replace

from daycare.base.differences import unified
from daycare.base.documents import DAILY, Attribution, DocumentVersion, Layer, NewVersion, Place, check_text, digest
from daycare.base.errors import ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.limits import (
    DOCUMENT_SEARCH_MAX,
    DOCUMENT_VERSIONS_MAX,
    DOCUMENTS_MAX,
    DOCUMENTS_TOTAL_BYTES,
    DOCUMENTS_WARN_SHARE,
)
from daycare.base.messages import Origin
from daycare.base.scope import is_apart, scope_of
from daycare.base.sections import added
from daycare.features.memory.documents.records import (
    Document,
    DocumentDraft,
    DocumentEntry,
    DocumentHit,
    DocumentReading,
    DocumentTotal,
    LayerState,
    check_room,
)
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.views import agents_view, passage, tools_view, words_of
from daycare.plugin import ToolSpec
from daycare.rules.document_paths import AGENTS, MEMORY, TOOLS, VIEWS, Address, folder, parse, spell
from daycare.rules.lengthy import aside
from daycare.store.home import MEMORY as MEMORY_STORE
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store

SECTIONS: Final = ("User Facts", "Project Context", "Preferences", "Important Decisions")
NEW_MEMORY: Final = "# Memory\n" + "".join(f"\n## {section}\n" for section in SECTIONS)
VIEW: Final = "view"
DAILY_LISTED: Final = 31  # daily logs in a listing of everything; `daily` lists them all
_SEARCH_INLINE_BYTES: Final = 64 * 1024  # of texts: 4 ms at worst; more is searched in a thread


class Documents:
    """An agent's documents, by their paths (`rules/document_paths.py`). What may be read follows from the agent alone.

    Reading goes through the layers, agent > user > global, where a person or program that the user has let in stands in
    the user's place; writing without a prefix concerns the first layer that may have the name. *Who* may write is not
    decided here: `prepare` says where a change goes and whose yes it needs. A change names the hash of what its writer
    saw in that layer (empty: nothing); `ConflictError` DOCUMENT_CHANGED when it is another one by then. Every method
    raises `InvalidError` MEMORY_PATH_INVALID for what is no path, `NotFoundError` DOCUMENT_MISSING for what is not
    there; those that change something also `InvalidError` DOCUMENT_READ_ONLY, DOCUMENT_APPEND_ONLY, DOCUMENT_TOO_LARGE,
    `BusyError` DOCUMENTS_FULL.

    `agents` returns a user's agents, `tools` an agent's tools; both for the views.
    """

    def __init__(
        self,
        store: Store,
        agents: Callable[[str], Awaitable[Sequence[Agent]]],
        tools: Callable[[Agent], Sequence[ToolSpec]],
    ) -> None:
        self._documents = store.of(DocumentRows)
        self._location = store.location
        self._agents = agents
        self._tools = tools
        self._searching = trio.CapacityLimiter(1)

    # -- reading -------------------------------------------------------------------------------------------------------

    async def read(self, agent: Agent, path: str) -> DocumentReading:
        """Return a document from the first layer that has it. `MEMORY.md` comes into being by being read.

        One that was deleted stays so until somebody writes it.
        """
        address = parse(path)
        if address.is_view:
            text = await self._view(agent, address.name)
            return DocumentReading(path=path, layer=VIEW, text=text, hash=digest(text), version=0, updated_at=0)
        found = await self._first(agent, address)
        if found is None and address.name == MEMORY:
            if not any(each.newest for each in await self.explain(agent, path)):
                await self._begin_memory(agent)
            found = await self._first(agent, address)  # somebody else may have begun it meanwhile
        if found is None:
            raise _missing(agent, path, "reading")
        return _reading(path, found)

    async def approved(self, agent: Agent, path: str) -> tuple[DocumentReading | None, DocumentVersion | None]:
        """Return a document as persons wrote or approved it, and the newest version that was passed over for that.

        A layer with `DOCUMENT_VERSIONS_MAX` versions that nobody stands behind counts as one that has none.
        """
        passed: DocumentVersion | None = None
        for place in _places(agent, parse(path)):
            newest, over = await self._approved(place)
            passed = passed or over
            found = await self._documents.at(place, newest.version) if newest is not None else None
            if found is not None and found.text is not None:
                return _reading(path, found), passed
        return None, passed

    async def was_deleted(self, agent: Agent, path: str) -> bool:
        """Return whether a person has deleted a document, in any layer, and nobody stands behind a newer version."""
        newest = [(await self._approved(place))[0] for place in _places(agent, parse(path))]
        return any(version is not None and version.deleted for version in newest)

    async def _approved(self, place: Place) -> tuple[DocumentVersion | None, DocumentVersion | None]:
        """Return the newest version that somebody stands behind, and the newest that was passed over for it."""
        passed: DocumentVersion | None = None
        for version in await self._documents.history(place, limit=DOCUMENT_VERSIONS_MAX):
            if version.by.approved:
                return version, passed
            passed = passed or version
        return None, passed

    async def listing(self, agent: Agent, prefix: str = "") -> list[DocumentEntry]:
        """Return what there is below a folder (`knowledge`, `shared/skills`, ...), in order of path.

        Of everything (no folder) that is the views and the newest daily logs, too.
        """
        where = folder(prefix)
        found: list[DocumentEntry] = []
        names: set[str] = set()
        for layer in where.layers:
            versions = await self._all(layer, owner_in(agent, layer), where.prefix)
            if not where.path:
                logs = [each.place.name for each in versions if each.place.daily]
                older = frozenset(logs[:-DAILY_LISTED])
                versions = [each for each in versions if each.place.name not in older]
            for each in versions:
                alone = not where.one_layer and each.place.name not in names
                found.append(_entry(spell(layer, each.place.name, alone=alone), each))
            names.update(each.place.name for each in versions)
        if not where.path:
            for name in VIEWS:
                text = await self._view(agent, name)
                size = len(text.encode())
                found.append(
                    DocumentEntry(path=name, layer=VIEW, size=size, hash=digest(text), version=0, updated_at=0)
                )
        return sorted(found, key=lambda entry: entry.path)

    async def search(self, agent: Agent, query: str, limit: int = 10) -> list[DocumentHit]:
        """Return those of the documents this agent can read that have words of a query, the best first."""
        scopes = [(layer, owner_in(agent, layer)) for layer in Layer]
        words = words_of(query)
        totals = [await self._documents.totals(*scope) for scope in scopes]
        most = min(limit, DOCUMENT_SEARCH_MAX)

        def look() -> list[tuple[DocumentVersion, str]]:
            found = self._documents.search(scopes, words, most)
            return [(each.version, passage(each.text or "", words)) for each in found]

        size = sum(total.bytes + total.daily_bytes for total in totals)
        if size > _SEARCH_INLINE_BYTES and self._location != MEMORY_STORE:  # on virtual time a thread would let it jump
            found = await trio.to_thread.run_sync(look, limiter=self._searching)
        else:
            found = await self._documents.reading(look)
        hits = []
        for version, best in found:
            path = await self._path_of(agent, version.place)
            hits.append(DocumentHit(path=path, layer=version.place.layer, version=version.version, passage=best))
        return hits

    async def explain(self, agent: Agent, path: str) -> list[LayerState]:
        """Return the layers that may have a document, in the order in which they are asked; of a view none."""
        states: list[LayerState] = []
        for place in _places(agent, parse(path)):
            newest = await self._newest(place)
            wins = newest is not None and not newest.deleted and not any(state.wins for state in states)
            states.append(LayerState(layer=place.layer, path=spell(place.layer, place.name), newest=newest, wins=wins))
        return states

    async def history(
        self, agent: Agent, path: str, *, before: int | None = None, limit: int = 100
    ) -> list[DocumentVersion]:
        """Return the versions, newest first, in the layer that is read; if none has it, in the first that ever had."""
        return await self._documents.history(await self._line(agent, path), before=before, limit=limit)

    async def at(self, agent: Agent, path: str, version: int) -> Document:
        """Return one version of the line that `history` shows."""
        found = await self._documents.at(await self._line(agent, path), version)
        if found is None:
            raise NotFoundError(
                "VERSION_UNKNOWN",
                f"reading version {version} of {path}: it has none of this number",
                hint=f"daycare memory history {path}",
            )
        return found

    async def diff(self, agent: Agent, path: str, old: int | None = None, new: int | None = None) -> str:
        """Return what changed from one version to another; without numbers what the newest one changed.

        Version 0 is the absence before the first.
        """
        if new is None:
            new = (await self.history(agent, path, limit=1))[0].version
        if old is None:
            old = next((each.version for each in await self.history(agent, path, before=new, limit=1)), 0)
        before, after = [(await self.at(agent, path, number)).text if number else None for number in (old, new)]
        return await aside(lambda: unified(before, after, path), before, after)

    async def total(self, agent: Agent) -> DocumentTotal:
        """Return how much the agent's own documents are together, daily logs left out."""
        return await self._total(agent, 0, 0)

    # -- changing ------------------------------------------------------------------------------------------------------

    async def prepare(
        self, agent: Agent, path: str, text: str | None, *, append: bool = False, section: str = ""
    ) -> DocumentDraft:
        """Return what a change would do, after checking it, and change nothing. `text` None deletes.

        What is added goes to the end, or below the heading `section`. Nothing is added to what a layer behind has: it
        would not be read any more.
        """
        place = self._target(agent, path)
        there = await self._documents.get(place)
        old = there.text if there else None
        new = text
        if old is None and (text is None or (append and await self._first(agent, parse(path)) is not None)):
            raise await self._not_here(agent, path, "adding to" if append else "deleting")
        if append:
            new = added(head_of(place) if old is None else old, text or "", section)
        check_growth(parse(path), old, new)
        size = 0 if new is None else check_text(new, path)
        if old is None:
            check_room(place, await self._documents.totals(place.layer, place.owner))
        counts = place.layer is Layer.AGENT and not place.daily
        was = there.version.size if there else 0
        total = await self._total(agent, (new is not None) - (old is not None), size - was) if counts else None
        return DocumentDraft(
            path=path,
            place=place,
            user=agent.user,
            approver="operator" if place.layer is Layer.GLOBAL else "user",
            old=old,
            new=new,
            base_hash=there.version.hash if there else "",
            total=total or await self.total(agent),
        )

    async def write(
        self, agent: Agent, path: str, text: str, by: Attribution, *, base_hash: str | None = None
    ) -> DocumentVersion:
        """Write a document. `base_hash` None: upon whatever is there when it is called."""
        return await self._change(agent, path, text, by, base_hash)

    async def delete(
        self, agent: Agent, path: str, by: Attribution, *, base_hash: str | None = None
    ) -> DocumentVersion:
        """Delete a document of one layer; what the layers behind it have is read from then on."""
        return await self._change(agent, path, None, by, base_hash)

    async def move(
        self, agent: Agent, path: str, to: str, by: Attribution, *, base_hash: str, text: str | None = None
    ) -> DocumentVersion:
        """Delete a document of one layer and write what it said where there is none, both or neither.

        With a `text` that is written instead; else its words come from where they came from, whoever moves them.
        """
        gone = await self.prepare(agent, path, None)
        new = await self.prepare(agent, to, gone.old if text is None else text)
        if gone.place == new.place:
            raise InvalidError("DOCUMENT_PATH", f"moving {path}: it is there already", hint="name another path")
        there = await self._documents.get(gone.place)
        if text is None and there is not None:
            by = replace(by, origin=there.version.by.origin, provenance=there.version.by.provenance)
        gone, new = replace(gone, base_hash=base_hash), replace(new, base_hash="")
        return await self._documents.move(gone.by(by), new.by(by))

    async def undo(self, agent: Agent, path: str, by: Attribution, *, version: int | None = None) -> DocumentVersion:
        """Make the text before the newest version the newest again; `version`: only if that is the newest."""
        place = self._target(agent, path)
        if not await self._documents.history(place, limit=1):
            raise await self._not_here(agent, path, "undoing a change of")
        return await self._documents.undo(NewVersion(place=place, user=agent.user, by=by), version)

    # -- inside --------------------------------------------------------------------------------------------------------

    async def _change(
        self, agent: Agent, path: str, text: str | None, by: Attribution, base_hash: str | None
    ) -> DocumentVersion:
        draft = await self.prepare(agent, path, text)
        if base_hash is not None:
            draft = replace(draft, base_hash=base_hash)
        return await self._documents.write(draft.by(by))

    def _target(self, agent: Agent, path: str) -> Place:
        """Return where a change of a path goes."""
        address = parse(path)
        if address.is_view:
            raise InvalidError(
                "DOCUMENT_READ_ONLY",
                f"changing {path}: it is made when it is read",
                hint=f"daycare agents set {agent.path}",
            )
        return _places(agent, address)[0]

    async def _not_here(self, agent: Agent, path: str, doing: str) -> DaycareError:
        """Return the error for a layer that lacks a document, naming the one that has it."""
        wins = next((state for state in await self.explain(agent, path) if state.wins), None)
        return _missing(agent, path, doing, *([f"the one that is read is {wins.path}"] if wins else []))

    async def _first(self, agent: Agent, address: Address) -> Document | None:
        for place in _places(agent, address):
            found = await self._documents.get(place)
            if found is not None:
                return found
        return None

    async def _line(self, agent: Agent, path: str) -> Place:
        places = _places(agent, parse(path))
        if not places:
            raise NotFoundError("VERSION_UNKNOWN", f"looking at versions of {path}: it is made when it is read")
        ever = [newest for place in places if (newest := await self._newest(place)) is not None]
        if not ever:
            raise _missing(agent, path, "looking at versions of")
        return next((each for each in ever if not each.deleted), ever[0]).place

    async def _newest(self, place: Place) -> DocumentVersion | None:
        return next(iter(await self._documents.history(place, limit=1)), None)

    async def _all(self, layer: Layer, owner: str, prefix: str) -> list[DocumentVersion]:
        found: list[DocumentVersion] = []
        while True:
            after = found[-1].place.name if found else ""
            page = await self._documents.find(layer, owner, prefix=prefix, after=after, limit=DOCUMENTS_MAX)
            found += page
            if len(page) < DOCUMENTS_MAX:
                return found

    async def _path_of(self, agent: Agent, place: Place) -> str:
        """Return the path under which an agent reads a document: without its layer where it is what is read."""
        plain = spell(place.layer, place.name, alone=True)
        states = await self.explain(agent, plain)
        alone = next((state.layer for state in states if state.wins), None) == place.layer
        return spell(place.layer, place.name, alone=alone)

    async def _view(self, agent: Agent, name: str) -> str:
        if name == AGENTS:
            return agents_view(agent, () if is_apart(agent.path, agent.user) else await self._agents(agent.user))
        assert name == TOOLS
        return tools_view(self._tools(agent))

    async def _begin_memory(self, agent: Agent) -> None:
        by = Attribution(origin=Origin.SYSTEM, author="system", reason="created when it was first read")
        place = Place(Layer.AGENT, agent.id, MEMORY)
        try:
            await self._documents.write(NewVersion(place=place, user=agent.user, by=by, text=NEW_MEMORY, base_hash=""))
        except ConflictError:
            pass  # somebody wrote it meanwhile

    async def _total(self, agent: Agent, more_documents: int, more_bytes: int) -> DocumentTotal:
        there = await self._documents.totals(Layer.AGENT, agent.id)
        size = there.bytes + more_bytes
        share = size / DOCUMENTS_TOTAL_BYTES
        warning = ""
        if share >= DOCUMENTS_WARN_SHARE:
            what = f"the documents of {agent.path} have {size} bytes together"
            advice = "shorten or delete some" if share >= 1 else "soon some should be shortened"
            warning = f"{what}, {share:.0%} of {DOCUMENTS_TOTAL_BYTES}: {advice}"
        return DocumentTotal(documents=there.documents + more_documents, bytes=size, warning=warning)


def check_growth(address: Address, old: str | None, new: str | None) -> None:
    """Raise `InvalidError` DOCUMENT_APPEND_ONLY if a change would rewrite what only grows; it may be deleted."""
    if address.append_only and old is not None and new is not None and not new.startswith(old):
        raise InvalidError(
            "DOCUMENT_APPEND_ONLY",
            f"writing {address.path}: a daily log only grows",
            hint="append to it, or delete it",
        )


def owner_in(agent: Agent, layer: Layer) -> str:
    """Return whose documents an agent reads and changes in a layer: this decides it, for tools, prompts and the API."""
    match layer:
        case Layer.AGENT:
            return agent.id
        case Layer.GLOBAL:
            return ""
    return scope_of(agent.path)


def head_of(place: Place) -> str:
    """Return what a document begins with when somebody adds to one that is not there."""
    if place.layer is not Layer.AGENT:
        return ""
    if place.daily:
        return f"# {place.name.removeprefix(DAILY).removesuffix('.md')}\n\n"
    return NEW_MEMORY if place.name == MEMORY else ""


def _missing(agent: Agent, path: str, doing: str, hint: str = "daycare memory list") -> NotFoundError:
    return NotFoundError("DOCUMENT_MISSING", f"{doing} {path} of {agent.path}: there is none", hint=hint)


def _places(agent: Agent, address: Address) -> list[Place]:
    return [Place(layer, owner_in(agent, layer), address.name) for layer in address.layers]


def _reading(path: str, found: Document) -> DocumentReading:
    version = found.version
    return DocumentReading(
        path=path,
        layer=version.place.layer,
        text=found.text or "",
        hash=version.hash,
        version=version.version,
        updated_at=version.created_at,
    )


def _entry(path: str, version: DocumentVersion) -> DocumentEntry:
    return DocumentEntry(
        path=path,
        layer=version.place.layer,
        size=version.size,
        hash=version.hash,
        version=version.version,
        updated_at=version.created_at,
    )
