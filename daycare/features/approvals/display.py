"""The message that shows a request: in whose conversation, and what is in it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from daycare.base.clock import Clock
from daycare.base.differences import unified
from daycare.base.documents import Layer, digest
from daycare.base.limits import DOCUMENTS_TOTAL_BYTES, DOCUMENTS_WARN_SHARE
from daycare.base.messages import File, Origin
from daycare.features.approvals.records import Action, Approval, Letter, Show
from daycare.features.approvals.views import choices, compact, outcome, phone
from daycare.features.memory.documents.rows import DocumentRows
from daycare.rules.lengthy import aside
from daycare.rules.shown import shown
from daycare.store.records import Agent, Reply, Shows
from daycare.store.sqlite.store import Store

Reach = Callable[[str, Agent | None], Awaitable[tuple[Agent, str] | None]]


@dataclass(frozen=True)
class Display:
    """Makes these messages. `reach` is that of the service."""

    _store: Store
    _clock: Clock
    _reach: Reach

    async def letter(
        self, agent: Agent, decider: str, action: Action, old: str | None, new: str | None, salt: str
    ) -> Show:
        """Return what makes the message to who decides, once the request has its number."""
        via = await self._reach(decider, agent)
        if via is None and agent.user != decider:
            via = await self._reach(agent.user, agent)  # then all of the group see it, and one of them may decide
        if via is None:
            return lambda it: None
        make = await self.maker(action, via[1], via[0].user, old, new, salt)
        return lambda it: Letter(via[0], make(it))

    async def maker(
        self, action: Action, connector: str, user: str, old: str | None, new: str | None, salt: str
    ) -> Callable[[Approval], Reply]:
        """Do all the work for a message but to put in the number."""
        change, whole = await aside(lambda: compact(old, new), old, new)
        files = () if whole else (await self._attached(user, action, old, new, salt),)
        warnings = await self.warnings(action, old, new)
        return lambda it: Reply(
            connector=connector,
            text=phone(it, change, warnings, self._clock.now_ms()),
            choices=choices(it),
            files=files,
            shows=Shows(it.no, it.content_hash),
        )

    async def _attached(self, user: str, action: Action, old: str | None, new: str | None, salt: str) -> File:
        """What is too long for a message goes with it as a file: nobody has to decide on a part."""
        whole = await aside(lambda: unified(shown(old or ""), shown(new or ""), action.name), old, new)
        name = f"{action.name.replace('/', '-')}.diff"
        key = f"approval:{salt}:{digest(old)}"  # the document may be another one at the next look
        return await self._store.files.put(key, user, Origin.AGENT, name, "text/plain", whole.encode(errors="replace"))

    async def outcome(self, it: Approval, *, already: bool) -> str:
        """Return in a few words what was decided, by whom and when."""
        decider = await self._store.people.get(it.decider)
        key = it.decided_by.partition(" ")[0]  # a token may stand behind it
        who = await self._store.people.by_key(key) if key else None
        return outcome(it, who.name if who else "", decider.zone if decider else "UTC", already=already)

    async def warnings(self, action: Action, old: str | None, new: str | None) -> tuple[str, ...]:
        """Return what to say of the size that an agent's documents would have together."""
        place = action.place
        if place is None or place.layer is not Layer.AGENT or place.name.startswith("daily/"):
            return ()
        there = (await self._store.of(DocumentRows).totals(place.layer, place.owner)).bytes
        total = there + len((new or "").encode()) - len((old or "").encode())
        if total < DOCUMENTS_WARN_SHARE * DOCUMENTS_TOTAL_BYTES or len(new or "") <= len(old or ""):
            return ()
        share = round(100 * total / DOCUMENTS_TOTAL_BYTES)
        return (
            f"the documents of this agent would have {share} % of the {DOCUMENTS_TOTAL_BYTES // 1024} KB they should",
        )
