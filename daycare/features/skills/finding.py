"""Where skills are: folders in the home and in an agent's workspace, and documents."""

from pathlib import Path
from typing import Final, NamedTuple

import trio

from daycare.base.bounded import Bounded
from daycare.base.documents import Layer
from daycare.base.errors import ConflictError, DaycareError, ForbiddenError, NotFoundError
from daycare.base.limits import DOCUMENT_VERSIONS_MAX
from daycare.base.scope import scope_of
from daycare.base.workspace import Access
from daycare.features.memory.documents.records import DocumentEntry
from daycare.features.memory.documents.service import Documents
from daycare.features.skills import folder
from daycare.features.skills.folder import HOME_FOLDER, SkillFiles, Stamp
from daycare.features.skills.records import DOCUMENTS, SkillPlace
from daycare.features.workspaces.beneath import why_not
from daycare.features.workspaces.folder import WorkspaceFolder
from daycare.features.workspaces.places import WorkspacePlaces
from daycare.store.records import Agent

WORKSPACE_FOLDER: Final = ".agents/skills"
READ_INLINE_BYTES: Final = 256 * 1024  # of files: some 2 ms; more is read in a thread
VOUCHED_KNOWN_MAX: Final = 4_096  # versions of documents of which it is known who stands behind them

_LAYERS: Final = {Layer.AGENT: SkillPlace.AGENT, Layer.USER: SkillPlace.USER, Layer.GLOBAL: SkillPlace.GLOBAL}
_ORDER: Final = list(SkillPlace)


class FoundSkill(NamedTuple):
    """A skill where it is. `stamp` changes when it does; `scope` is whose agents an approval of it is for, "" for all.

    `vouched`: of a document, who wrote or approved all that it says, empty where that is nobody.
    """

    name: str
    place: SkillPlace
    where: str
    scope: str
    stamp: object
    size: int
    vouched: str = ""


class SkillFinder:
    """Finds and reads them. Without an agent there are those of the home only."""

    def __init__(self, home: Path, documents: Documents, places: WorkspacePlaces) -> None:
        self._home = WorkspaceFolder(home, HOME_FOLDER)
        self._documents = documents
        self._places = places
        self._threads = trio.CapacityLimiter(2)
        self._vouched: Bounded[tuple[str, str, int, str], str] = Bounded(VOUCHED_KNOWN_MAX)

    def stamp(self, agent: Agent | None) -> object:
        """Return what changes with the folders of an agent's skills; documents tell their changes themselves."""
        return tuple((place, self._stamps(place, agent)) for place in (SkillPlace.HOME, SkillPlace.WORKSPACE))

    async def find(self, agent: Agent | None) -> list[FoundSkill]:
        """Return all skills that are there for an agent, by name and place."""
        found: list[FoundSkill] = []
        for place, where in ((SkillPlace.HOME, HOME_FOLDER), (SkillPlace.WORKSPACE, WORKSPACE_FOLDER)):
            scope = scope_of(agent.path) if agent is not None and place is SkillPlace.WORKSPACE else ""
            for name, stamp in self._stamps(place, agent).items():
                size = sum(each[1] for each in stamp)
                found.append(FoundSkill(name, place, f"{where}/{name}", scope, stamp, size))
        if agent is not None:
            found += [await self._of_document(agent, each) for each in await self._listed(agent)]
        return sorted(found, key=lambda each: (each.name, _ORDER.index(each.place)))

    async def read(self, agent: Agent | None, found: FoundSkill) -> SkillFiles:
        """Return the files of a skill as they are now.

        Raises `InvalidError` SKILL_UNFIT, `ConflictError` SKILL_CHANGED, `NotFoundError`.
        """
        if found.place in DOCUMENTS:
            assert agent is not None
            document = await self._documents.read(agent, found.where)
            if document.hash != found.stamp:  # of what it says now it is not known who stands behind it
                raise ConflictError(
                    "SKILL_CHANGED", f"reading the skill {found.name}: it is being changed", hint="again"
                )
            return folder.of_text(document.text)
        below = self._above(found.place, agent)

        def read() -> SkillFiles:
            assert below is not None
            with below.opened() as handle:
                try:
                    return folder.read(handle, found.name)
                except OSError as error:
                    raise folder.unfit(found.name, str(error.strerror)) from None

        if found.size <= READ_INLINE_BYTES:
            return read()
        return await trio.to_thread.run_sync(read, limiter=self._threads)

    async def _listed(self, agent: Agent) -> list[DocumentEntry]:
        return [each for each in await self._documents.listing(agent, "skills") if each.layer in _LAYERS]

    async def _of_document(self, agent: Agent, entry: DocumentEntry) -> FoundSkill:
        layer = Layer(entry.layer)
        scope = "" if layer is Layer.GLOBAL else scope_of(agent.path)
        name = entry.path.partition("skills/")[2].removesuffix(".md")
        vouched = await self._who_vouches(agent, entry)
        return FoundSkill(name, _LAYERS[layer], entry.path, scope, entry.hash, entry.size, vouched)

    async def _who_vouches(self, agent: Agent, entry: DocumentEntry) -> str:
        """Return who stands behind all that a document says: behind each version since there was none.

        Who says yes to one change has not seen what stood there before it.
        """
        key = (agent.id, entry.path, entry.version, entry.hash)
        if key not in self._vouched:
            who, after = "", entry.hash
            for version in await self._documents.history(agent, entry.path, limit=DOCUMENT_VERSIONS_MAX):
                if not version.by.approved or version.hash != after:
                    who = ""
                    break
                who, after = who or version.by.approver or version.by.author, version.base_hash
                if not after:
                    break
            self._vouched[key] = "" if after else who
        return self._vouched[key]

    def _above(self, place: SkillPlace, agent: Agent | None) -> WorkspaceFolder | None:
        """Return the folder in which skills are, None where files cannot be read, or there is no workspace."""
        if why_not():
            return None
        if place is SkillPlace.HOME:
            return self._home
        if agent is None or self._places.access(agent) is Access.NONE:
            return None
        try:
            workspace = self._places.of(agent.config)
        except DaycareError:  # the settings have changed
            return None
        return WorkspaceFolder(workspace.root, f"{workspace.inner}/{WORKSPACE_FOLDER}")

    def _stamps(self, place: SkillPlace, agent: Agent | None) -> dict[str, Stamp]:
        below = self._above(place, agent)
        if below is None:
            return {}
        try:
            with below.opened() as handle:
                return folder.stamps(handle)
        except (NotFoundError, ForbiddenError):  # no folder, or a link in its place
            return {}
