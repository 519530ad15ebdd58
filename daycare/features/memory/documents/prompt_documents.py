"""The documents of the store as prompts read them. A version of identity that nobody stands behind is passed over."""

from collections.abc import Sequence
from typing import Final

from daycare.agent.blocks import one_line
from daycare.agent.prompt import NOTHING, Passage, PromptEntry
from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.base.documents import DocumentVersion, Place
from daycare.base.errors import NotFoundError
from daycare.base.events import IdentityHeld
from daycare.base.limits import PROMPT_LINE_MAX_CHARS, PROMPTS_KEPT_MAX
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.service import Documents
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.rules import frontmatter
from daycare.rules.document_paths import MEMORY
from daycare.store.records import Agent

PROMPT_SKILLS_KNOWN_MAX: Final = 4_096  # first lines kept in memory, under 1 MB


class PromptDocuments:
    """The documents of the store. Reading them for a prompt makes none."""

    def __init__(self, store: DocumentRows, documents: Documents, bus: Bus, clock: Clock) -> None:
        self._store = store
        self._documents = documents
        self._bus = bus
        self._clock = clock
        self._first_lines: Bounded[str, str] = Bounded(PROMPT_SKILLS_KNOWN_MAX)  # by hash of the text
        self._held: Bounded[tuple[str, Place, int], None] = Bounded(PROMPTS_KEPT_MAX)  # told already, by agent

    async def passage(self, agent: Agent, name: str) -> Passage | None:
        """Return a document from the first layer that has it."""
        if name in IDENTITY_DOCUMENTS:
            approved, passed = await self._documents.approved(agent, name)
            if passed is not None:
                self._tell(agent, passed)
            if approved is None:
                return NOTHING if await self._documents.was_deleted(agent, name) else None
            return Passage(approved.text, approved.layer)
        if name == MEMORY and not any(state.wins for state in await self._documents.explain(agent, name)):
            return None  # a reader would bring an empty one into being
        try:
            found = await self._documents.read(agent, name)
        except NotFoundError:
            return None
        return Passage(found.text, found.layer)

    async def skills(self, agent: Agent) -> Sequence[PromptEntry]:
        """Return the skills that this agent reads, with what each says of itself."""
        entries = []
        for each in await self._documents.listing(agent, "skills"):
            if not each.path.startswith("skills/"):
                continue  # one of a layer before it is read in its place
            if each.hash not in self._first_lines:
                passage = await self.passage(agent, each.path)
                self._first_lines[each.hash] = about_skill(passage.text if passage else "")
            entries.append(PromptEntry(each.path.removeprefix("skills/"), self._first_lines[each.hash]))
        return entries

    def _tell(self, agent: Agent, passed: DocumentVersion) -> None:
        """Tell once of a version that nobody stands behind."""
        key = (agent.id, passed.place, passed.version)
        if key in self._held:
            return
        self._held[key] = None
        self._bus.publish(
            IdentityHeld(
                **about(self._clock, agent), document=str(passed.place), version=passed.version, author=passed.by.author
            )
        )

    async def version(self) -> int:
        """Return the number of the newest version of any document."""
        return await self._store.last()


def about_skill(text: str) -> str:
    """Return what a skill says of itself: its field `description`, else its first line with words, heading or not."""
    front, body = frontmatter.parted(text)
    told = frontmatter.fields(front).get("description") if front else None
    if isinstance(told, str) and told.strip():
        return one_line(told, PROMPT_LINE_MAX_CHARS)
    line = next((line.strip("#* \t") for line in body.splitlines() if line.strip("#*- \t")), "")
    return one_line(line, PROMPT_LINE_MAX_CHARS)
