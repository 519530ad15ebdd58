"""What people do with what is remembered of them: search it, list it, ask why, take it along, have it forgotten.

People name a memory by its label, a number that counts within their own scope; nobody can name another's.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from daycare.base.clock import Clock
from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.events import MemoryForgotten
from daycare.base.limits import API_PAGE_MAX_ROWS, QUESTION_MAX_CHARS
from daycare.base.memories import Tier
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.path import PEOPLES
from daycare.base.scope import scope_of
from daycare.features.memory.forgetting import Forgetting, ForgettingPlan
from daycare.features.memory.search.lookup import Filters, Lookup, label, label_in, missing, where
from daycare.features.memory.search.queries import MemoryHit
from daycare.features.memory.store.records import (
    EVERYBODY,
    OWN_BITS,
    Forgotten,
    MemoryCounts,
    StoredMemory,
    Unextracted,
)
from daycare.features.memory.store.rows import MemoryRows
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.store.records import Agent, InboxRow, Receipt
from daycare.store.sqlite.store import Store

WHY_EVENTS_MAX: Final = 1_000  # of an agent, looked through for what was recalled

Look = Callable[[Callable[[Unextracted], bool]], Awaitable[int]]


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A memory as people see it. `score` and `parts` are of a search, or of the turn that it was recalled for.

    `turn` is the one in which it was said (0: in none), `sources` are the numbers of the log entries it was learned
    from, as is `superseded_by` in `about`.
    """

    no: int
    tier: str
    text: str
    speaker: str
    path: str
    origin: str
    at_ms: int
    hash: str
    label: str = ""  # its number as models write it: `g` before it for what everybody reads
    about: dict[str, Any] = {}
    score: float | None = None
    parts: dict[str, float] = {}
    turn: int = 0
    sources: tuple[int, ...] = ()


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """What stood in the prompt of a turn because it was recalled, and what that cost."""

    turn: int
    at_ms: int
    took_ms: float
    without: str
    memories: tuple[Shown, ...]
    gone: int


class MemoryControls:
    """Does it, for an agent's scope.

    `post` commits a message to an inbox. `log` writes a bounded part of what is not in the log yet and returns whether
    there may be more; `look` wakes memory workers for what is wanted.
    """

    def __init__(
        self,
        store: Store,
        lookup: Lookup,
        post: Callable[[Envelope], Awaitable[Receipt]],
        forgetting: Forgetting,
        log: Callable[[], Awaitable[bool]],
        look: Look,
        bus: Bus,
        clock: Clock,
    ) -> None:
        self._store = store
        self._lookup = lookup
        self._post = post
        self._forgetting = forgetting
        self._log = log
        self._look = look
        self._bus = bus
        self._clock = clock

    async def search(self, agent: Agent, text: str, filters: Filters = Filters()) -> list[Shown]:  # noqa: B008  # immutable
        """Return what fits a question best, with its scores."""
        return [_of_hit(hit) for hit in await self._lookup.find(agent, text, filters)]

    async def ask(
        self, agent: Agent, question: str, *, sender: str, key: str, trace: str, asked: InboxRow | None = None
    ) -> Receipt:
        """Put a question to an agent's memory, once for each `key`; its answer is what becomes of the message.

        `asked` is the message of a person that holds it: the answer goes where that came from.
        """
        text = question.strip()
        if agent.kind not in PEOPLES:
            raise InvalidError("SEARCH_FORBIDDEN", f"asking the memory of {agent.path}: no person talks with it")
        if not text or len(text) > QUESTION_MAX_CHARS:
            raise InvalidError("QUESTION", f"asking memory: {len(text)} characters, from 1 to {QUESTION_MAX_CHARS}")
        envelope = Envelope(
            to=agent.path,
            agent_id=agent.id,
            user=agent.user,
            origin=Origin.PERSON,
            sender=sender,
            key=key,
            text=text,
            trace=trace,
            kind=EnvelopeKind.QUERY,
        )
        if asked is not None:
            it = asked.envelope
            envelope = replace(envelope, origin=it.origin, reply_target=it.reply_target, cause=it.cause)
        return await self._post(envelope)

    async def sources(self, agent: Agent, labels: Sequence[str]) -> list[Shown]:
        """Return the memories that an answer names as its sources."""
        return [shown(memory) for memory in await self._lookup.get(agent, labels)]

    async def find(
        self,
        agent: Agent,
        tier: Tier,
        words: str = "",
        *,
        living: bool = True,
        before: int | None = None,
        limit: int = 100,
    ) -> list[Shown]:
        """Return memories of one tier, the newest first, beginning below the short number `before`."""
        scope = scope_of(agent.path)
        start = None if before is None else await self._base(scope) | before
        found = await self._store.of(MemoryRows).find(
            scope, tier, words=words, living=living, before=start, limit=limit
        )
        return [shown(memory) for memory in found]

    async def export(self, agent: Agent) -> AsyncIterator[Shown]:
        """Yield all that is remembered in an agent's scope, a tier after the other."""
        for tier in Tier:
            before: int | None = None
            while page := await self.find(agent, tier, living=False, before=before, limit=API_PAGE_MAX_ROWS):
                for each in page:
                    yield each
                before = page[-1].no

    async def why(self, agent: Agent, turn: int | None = None) -> Why:
        """Return what was recalled for a turn of an agent, None: for the last that something was recalled for."""
        for text in await self._store.ledger.events(path=agent.path, limit=WHY_EVENTS_MAX):
            event = msgspec.json.decode(text)
            if event["event"] != "memory.recalled" or turn not in (None, event["turn"]):
                continue
            scope = scope_of(agent.path)
            own, everybodys = await self._lookup.base(scope) or 0, await self._lookup.base(EVERYBODY) or 0
            numbers = [own | no if no >= 0 else everybodys | -no for no in event["numbers"]]
            scores = dict(zip(numbers, event["scores"], strict=True))
            memories = await self._store.of(MemoryRows).get([scope, EVERYBODY], numbers)
            return Why(
                turn=event["turn"],
                at_ms=event["at_ms"],
                took_ms=event["took_ms"],
                without=event.get("without", ""),
                memories=tuple(replace(shown(each), score=scores[each.no]) for each in memories),
                gone=len(scores) - len(memories),
            )
        which = "any turn" if turn is None else f"turn {turn}"
        raise NotFoundError("NOTHING_RECALLED", f"looking at {agent.path}: nothing was recalled for {which}")

    async def counts(self, agent: Agent | None = None) -> MemoryCounts:
        """Return how much is remembered in an agent's scope, or by the whole installation."""
        return await self._store.of(MemoryRows).counts(None if agent is None else scope_of(agent.path))

    async def process(self, agent: Agent | None = None) -> int:
        """Wake the memory workers of an agent, or all that have something to look at; return how many."""
        while await self._log():
            pass
        return await self._look(lambda each: agent is None or each.agent_id == agent.id)

    async def plan(self, agent: Agent, labels: Sequence[str]) -> ForgettingPlan:
        """Return what would be forgotten with memories of these labels.

        Raises `NotFoundError` for a label that names nothing, `InvalidError` MEMORY_SHARED for one of everybody's.
        """
        scope = scope_of(agent.path)
        base = await self._base(scope)
        numbers = []
        for each in labels:
            wanted = label_in(each)
            if wanted.startswith("g"):
                await self._refuse_shared(agent, wanted)
            if not wanted.isdecimal() or int(wanted) > OWN_BITS:
                raise missing(each[:40], "forgetting")
            numbers.append(base | int(wanted))
        return await self._forgetting.plan(scope, numbers)

    async def forget(self, agent: Agent, plan: ForgettingPlan, by: str) -> Forgotten:
        """Forget what a plan says, for the person with the connector key `by`."""
        forgotten = await self._forgetting.forget(plan, by)
        self._bus.publish(
            MemoryForgotten(
                **about(self._clock, agent),
                memories=forgotten.memories,
                turns=forgotten.turns,
                versions=forgotten.versions,
            )
        )
        return forgotten

    async def _refuse_shared(self, agent: Agent, wanted: str) -> None:
        for memory in await self._lookup.get(agent, [wanted]):
            document = where(memory)
            raise InvalidError(
                "MEMORY_SHARED",
                f"forgetting {wanted}: it is a passage of {document}, which everybody reads",
                hint=f"daycare memory edit {document}",
            )

    async def _base(self, scope: str) -> int:
        """Return what all numbers of a scope have in common."""
        base = await self._lookup.base(scope)
        if base is None:
            raise NotFoundError("NOTHING_REMEMBERED", f"nothing is remembered of {scope} yet")
        return base


def shown(memory: StoredMemory) -> Shown:
    """Return a memory as people see it."""
    part = memory.fact or memory.entity
    about: dict[str, Any] = msgspec.to_builtins(part) if part is not None else {}
    if "superseded_by" in about:
        about["superseded_by"] &= OWN_BITS
    return Shown(
        no=memory.no & OWN_BITS,
        label=label(memory),
        tier=str(memory.tier),
        text=memory.text,
        speaker=memory.speaker,
        path=memory.path,
        origin=str(memory.origin),
        at_ms=memory.at_ms,
        hash=memory.hash,
        about=about,
        turn=0 if memory.tier is Tier.CHUNK else memory.turn,
        sources=tuple(no & OWN_BITS for no in memory.sources),
    )


def _of_hit(hit: MemoryHit) -> Shown:
    return replace(shown(hit.memory), score=round(hit.score, 3), parts=dict(hit.parts))
