"""Looking things up in memory: a search with filters in what an agent may read, single memories, and how both are told.

People and models name a memory by a label: its number within the scope, and `g` before it for a passage of a document
that everybody reads. What is told begins with a line of ours: the labels, and where the words came from.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Final
from zoneinfo import ZoneInfo

from daycare.agent.blocks import block, one_line
from daycare.agent.recall import RecalledMemory
from daycare.base.clock import Clock
from daycare.base.errors import InvalidError, NotFoundError
from daycare.base.memories import Tier
from daycare.base.messages import Origin, Told
from daycare.base.scope import scope_of
from daycare.base.times import local_time
from daycare.features.memory.loading import WORDS, loaded
from daycare.features.memory.operations import Filters as Filters
from daycare.features.memory.search.queries import MemoryHit, MemoryQuery
from daycare.features.memory.store.records import EVERYBODY, OWN_BITS, StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.rules.document_paths import folder, parse, spell
from daycare.store.records import Agent
from daycare.store.sqlite.store import Store

LOOKUP_LINE_MAX_CHARS: Final = 600  # of one memory that a tool finds: twenty fit into a result; one can be read whole
LOOKUP_SPEAKING_MAX: Final = 10_000  # memories with the words of somebody's name, the newest: some 10 ms ...
LOOKUP_NAMED_MAX: Final = 80  # ... and the best of them, whose texts are looked at for the name itself
LOOKUP_NAMES_MAX: Final = 50  # people and things of one name, or entries that one fact was learned from

Search = Callable[[MemoryQuery], Awaitable[Sequence[MemoryHit]]]

_LABEL: Final = re.compile(r"(?:memory\s+)?\[?#?(g?)([1-9]\d{0,9})\]?")
_OWN: Final = (Origin.PERSON, Origin.AGENT)  # words that need no mark
_NOTHING: Final = "nothing fits"


class Lookup:
    """Looks up what `reader` may read: the rows of its scope, and of documents its own and the shared ones."""

    def __init__(self, store: Store, search: Search, clock: Clock) -> None:
        self._memories = store.of(MemoryRows)
        self._people = store.people
        self._search = search
        self._clock = clock

    async def find(self, reader: Agent, text: str, filters: Filters = Filters()) -> list[MemoryHit]:  # noqa: B008  # immutable
        """Return what fits a question best. Raises `InvalidError` MEMORY_PATH_INVALID for what is no path."""
        user = await self._people.get(reader.user)
        scope, names = scope_of(reader.path), frozenset[str]()
        entities = await self._memories.about(scope, (), [filters.entity], LOOKUP_NAMES_MAX) if filters.entity else []
        tiers = tuple(Tier) if filters.tier is None else (filters.tier,)
        document = filters.path if filters.path and not filters.path.startswith("/") else ""
        sources = frozenset(no for each in entities for no in each.sources)
        among: set[int] | None = None
        if filters.entity:
            names = frozenset({filters.entity.casefold(), *(name for each in entities for name in names_of(each))})
            text = f"{text} {filters.entity}"
            among = {*sources, *await self._speaking((scope, EVERYBODY), names)}
        if document:
            passages = await self._passages((scope, EVERYBODY), document)
            among = passages if among is None else among & passages
        query = MemoryQuery(
            scope=scope,
            agent_id=reader.id,
            text=text,
            speaker=user.name if user is not None else "",
            now_ms=self._clock.now_ms(),
            zone=user.zone if user is not None else "UTC",
            tiers=tuple(tier for tier in tiers if not document or tier is Tier.CHUNK),
            since_ms=filters.since_ms,
            until_ms=filters.until_ms,
            under="" if document else filters.path.rstrip("/"),
            among=None if among is None else sorted(among),
            superseded=filters.all,
            limit=max(LOOKUP_NAMED_MAX, filters.limit) if names else filters.limit,
        )
        hits = list(await self._search(query)) if query.tiers and among != set() else []
        if names:
            speaks = _speaking_of(names)
            hits = [hit for hit in hits if hit.memory.no in sources or speaks(hit.memory)]
        return hits[: filters.limit]

    async def get(self, reader: Agent, labels: Collection[str]) -> list[StoredMemory]:
        """Return those of the memories with these labels that there are, in the order of the labels."""
        own = scope_of(reader.path)
        found: dict[str, StoredMemory] = {}
        for scope, mark in ((own, ""), (EVERYBODY, "g")):
            numbers = [int(match[2]) for each in labels if (match := _LABEL.fullmatch(each)) and match[1] == mark]
            base = await self.base(scope) if numbers else None
            if base is None:
                continue
            memories = await self._memories.get([scope], [base | no for no in numbers if no <= OWN_BITS])
            found |= {label(each): each for each in memories if _may_read(reader, each)}
        return [found[each] for each in labels if each in found]

    async def sources(self, reader: Agent, memory: StoredMemory) -> list[StoredMemory]:
        """Return the log entries that a memory was learned from, as far as they are kept."""
        return await self._memories.get([scope_of(reader.path)], memory.sources[:LOOKUP_NAMES_MAX])

    async def named(self, reader: Agent, names: Sequence[str]) -> list[str]:
        """Return those of the names that memory knows as those of people, places and things."""
        known = await self._memories.about(scope_of(reader.path), (), names, LOOKUP_NAMES_MAX)
        called = {name for each in known for name in names_of(each)}
        return [name for name in names if name.casefold() in called]

    async def _speaking(self, scopes: Sequence[str], names: Collection[str]) -> set[int]:
        """Return the memories that may speak of somebody: those with all words of a name, in whatever order."""
        await loaded(WORDS)
        from daycare.features.memory.language.analysis import words_of

        words = {name: words_of(name) for name in names}
        found = [await self._memories.speaking(scope, words, LOOKUP_SPEAKING_MAX) for scope in scopes]
        return {no for numbers in found for no in numbers}

    async def _passages(self, scopes: Sequence[str], path: str) -> set[int]:
        """Return the passages of the document at a path, in whatever layer that means, or of those in that folder."""
        if path.endswith(".md"):
            address = parse(path)
            layers, name = address.layers, address.name
        else:
            among = folder(path)
            layers, name = among.layers, among.prefix
        found = [await self._memories.passages(scope, layers, name) for scope in scopes]
        return {no for numbers in found for no in numbers}

    async def base(self, scope: str) -> int | None:
        """Return what all numbers of a scope have in common, None if it has none yet."""
        first = await self._memories.reading(partial(self._memories.shapes, scope, limit=1))
        return first[0].no & ~OWN_BITS if first else None


# -- how it is told ----------------------------------------------------------------------------------------------------


def label(memory: StoredMemory) -> str:
    """Return how people and models name a memory."""
    return f"{'g' if memory.scope == EVERYBODY else ''}{memory.no & OWN_BITS}"


def label_number(memory: RecalledMemory) -> int:
    """Return the number in a memory's label, below zero for one with a `g`."""
    return -(memory.no & OWN_BITS) if memory.scope == EVERYBODY else memory.no & OWN_BITS


def label_in(text: str) -> str:
    """Return the label that a text such as `memory 12` or `[12]` names, empty if it names none."""
    found = _LABEL.fullmatch(text.strip())
    return f"{found[1]}{found[2]}" if found else ""


def where(memory: StoredMemory) -> str:
    """Return where a memory is from: the agent that heard it, or the document."""
    return memory.path if memory.place is None else spell(memory.place.layer, memory.place.name)


def told(hits: Sequence[MemoryHit], zone: str) -> str:
    """Return what was found as a model reads it: a line each, between marks."""
    if not hits:
        return _NOTHING
    lines = [f"{line(hit.memory, zone, score=hit.score)}" for hit in hits]
    return f"{head([hit.memory for hit in hits])}\n{block('memory', chr(10).join(lines))}"


def told_whole(memory: StoredMemory, sources: Sequence[StoredMemory], zone: str) -> str:
    """Return one memory with its provenance as a model reads it."""
    lines = [line(memory, zone, chars=len(memory.text) + 1_000)]
    facts: dict[str, object] = {"said by": memory.speaker, "conversation": memory.session, "turn": memory.turn}
    if memory.place is not None:
        facts = {"document": where(memory), "version": memory.version, "passage": memory.turn}
    if memory.fact is not None:
        it = memory.fact
        facts |= {"about": it.subject, "kind": it.kind, "confidence": it.confidence, "learned by": it.by}
        facts |= {"holds from": _day(it.valid_from_ms, zone), "holds until": _day(it.valid_until_ms, zone)}
        if it.superseded_by:
            facts["superseded by"] = f"[{it.superseded_by & OWN_BITS}]"
    if memory.entity is not None:
        its = memory.entity
        facts |= {"also called": ", ".join(its.aliases), "mentions": its.mentions, "learned by": its.by}
        facts |= {"first mentioned": _day(its.first_ms, zone), "last mentioned": _day(its.last_ms, zone)}
    lines += [f"{name}: {one_line(str(value), LOOKUP_LINE_MAX_CHARS)}" for name, value in facts.items() if value]
    if sources:
        lines += ["learned from:", *(line(each, zone) for each in sources)]
    return f"{head([memory, *sources])}\n{block('memory', chr(10).join(lines))}"


def telling(memories: Sequence[StoredMemory]) -> Told:
    """Return what a result tells in which these memories stand."""
    return Told(
        labels=tuple(map(label, memories)),
        paths=tuple(where(each) for each in memories if each.tier is Tier.CHUNK),
        origins=tuple(dict.fromkeys(each.origin for each in memories)),
    )


def line(memory: StoredMemory, zone: str, *, score: float | None = None, chars: int = LOOKUP_LINE_MAX_CHARS) -> str:
    """Return a memory on a line: its label, tier, time, where it is from, who said what."""
    at = local_time(memory.at_ms, ZoneInfo(zone))
    fits = "" if score is None else f" (score {score:.2f})"
    who = f"{one_line(memory.speaker, 80)}: " if memory.tier is Tier.LOG and memory.speaker else ""
    if memory.entity is not None:
        who = f"{one_line(memory.entity.name, 80)} ({memory.entity.kind}) - "
    until = _day(memory.fact.valid_until_ms, zone) if memory.fact is not None else ""
    over = f" (until {until})" if until else ""
    mark = "" if memory.origin in _OWN else f" (words of: {memory.origin})"
    text = one_line(memory.text, chars)
    return f"[{label(memory)}] {memory.tier} {at:%Y-%m-%d %H:%M} {where(memory)}{fits}: {who}{text}{over}{mark}"


def head(memories: Sequence[StoredMemory]) -> str:
    """Return a line that says what follows: labels, and where the words came from."""
    labels = dict.fromkeys(map(label, memories))
    origins = ", ".join(sorted({each.origin for each in memories}))
    many = "memory" if len(labels) == 1 else "memories"
    return f"{len(labels)} {many}: {', '.join(labels)}; words of: {origins}"


def day_ms(text: str, zone: str) -> int | None:
    """Return when a day such as 2026-03-31, or a time, begins where the user is; None for no text."""
    if not text.strip():
        return None
    try:
        at = datetime.fromisoformat(text.strip())
        at = at if at.tzinfo is not None else at.replace(tzinfo=ZoneInfo(zone))
        return int(at.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidError("DATE_INVALID", f"reading {text[:40]!a}: expected a day such as 2026-03-31") from None


def missing(wanted: str, doing: str = "reading") -> NotFoundError:
    """Return the error for a label that names no memory, or somebody else's."""
    return NotFoundError("MEMORY_UNKNOWN", f"{doing} memory {wanted}: there is none", hint="use a number of a search")


def names_of(memory: StoredMemory) -> list[str]:
    """Return the names of an entity, without case."""
    it = memory.entity
    return [name.casefold() for name in (it.name, *it.aliases)] if it is not None else []


def _speaking_of(names: frozenset[str]) -> Callable[[StoredMemory], bool]:
    from daycare.features.memory.language.analysis import naming

    pattern = naming(names)

    def speaks(memory: StoredMemory) -> bool:
        if memory.fact is not None and memory.fact.subject.casefold() in names:
            return True
        return not names.isdisjoint(names_of(memory)) or pattern.search(memory.text.casefold()) is not None

    return speaks


def _may_read(reader: Agent, memory: StoredMemory) -> bool:
    """Of another agent's own documents nothing is read, although they are in the same scope."""
    return memory.tier is not Tier.CHUNK or memory.agent_id in ("", reader.id)


def _day(at_ms: int | None, zone: str) -> str:
    return f"{local_time(at_ms, ZoneInfo(zone)):%Y-%m-%d}" if at_ms else ""
