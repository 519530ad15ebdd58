"""The documents of the store as prompts read them. A version of identity that nobody stands behind is passed over."""

from daycare.agent.prompt import NOTHING, Passage
from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.base.documents import DocumentVersion, Place
from daycare.base.errors import NotFoundError
from daycare.base.events import IdentityHeld
from daycare.base.limits import PROMPTS_KEPT_MAX
from daycare.features.memory.documents.rows import DocumentRows
from daycare.features.memory.documents.service import Documents
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.rules.document_paths import MEMORY
from daycare.store.records import Agent


class PromptDocuments:
    """The documents of the store. Reading them for a prompt makes none."""

    def __init__(self, store: DocumentRows, documents: Documents, bus: Bus, clock: Clock) -> None:
        self._store = store
        self._documents = documents
        self._bus = bus
        self._clock = clock
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
