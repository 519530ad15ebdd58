"""The memory worker's turn: it looks at what was said since it last did, and keeps what it learned.

A range of the log is read in pieces; what is learned of a piece and the mark that it was looked at are one commit. So a
crash repeats at most the asking, and no entry is passed over or learned from twice. A model that fails or talks
nonsense is replaced by the rules: what was said does not wait for a better day.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec
import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.agent import tokens
from daycare.agent.kinds import messages_of
from daycare.agent.steps import Thought
from daycare.base.causes import Handoff
from daycare.base.clock import Clock
from daycare.base.errors import AwayError, DaycareError, InvalidError
from daycare.base.events import MemoryLearned
from daycare.base.messages import Message, Origin, Text
from daycare.base.scope import scope_of
from daycare.config import OFFLINE
from daycare.features.memory.facts.learned import ENTITIES_MAX, FACTS_MAX, Learned
from daycare.features.memory.loading import RULES, loaded
from daycare.features.memory.store.records import Comparable, MergeResult, StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.inference.metering import Payer
from daycare.inference.names import ModelChoice
from daycare.inference.pool import Pool
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.plugin import InferRequest
from daycare.settings import Live
from daycare.store.records import Agent, InboxRow, Turn, User
from daycare.store.records_prompts import (
    PromptBase,
    PromptPart,
    ShownPrompt,
    digest_of_base,
    digest_of_prompt,
)
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

if TYPE_CHECKING:
    from daycare.features.memory.facts.distil import ExtractionRequest

CURATE_MAX_CHARS: Final = 24_000  # of the log that a memory worker reads in one piece: some 6,000 tokens
CURATE_OUTPUT_TOKENS: Final = 4_000  # for what a model learned of one piece
CURATE_KNOWN_MAX: Final = 200  # facts, and entities, that what is new is compared with
CURATE_COMPARABLE_MAX: Final = 1_000  # older facts that it may end: attributes of one person, in 20 ms

_TOO_MUCH: Final = ("CONTEXT_OVERFLOW", "EXTRACTION_CUT")  # what a shorter piece may spare


@dataclass
class ExtractionWorker:
    """Takes the turns of memory workers."""

    store: Store
    directory: Directory
    pool: Pool
    live: Live
    bus: Bus
    clock: Clock
    # Agents of one person learn of the same people: what is known may not change between the look and the commit.
    _merging: trio.Lock = field(default_factory=trio.Lock)

    async def work(self, worker: Agent, turn: Turn, rows: Sequence[InboxRow]) -> Thought:
        """Look at what was handed off in these messages. Raises `AwayError` when the model's provider is away."""
        await loaded(RULES)
        wanted: dict[str, int] = {}
        for row in rows:
            if isinstance(it := row.envelope.cause, Handoff):
                wanted[it.agent] = max(wanted.get(it.agent, 0), it.through)
        calls = _Calls(worker, turn)
        told = [await self._extract_range(worker, await self.directory.get(of), to, calls) for of, to in wanted.items()]
        reply = "; ".join(told) or "nothing was handed off"
        said = Message("assistant", (Text(reply),), self.clock.now_ms(), Origin.AGENT, worker.path)
        history = messages_of(rows)
        shown = _shown(worker, turn, len(history), calls.asked) if calls.asked is not None else None
        return Thought(rows=tuple(rows), history=(*history, said), reply=reply, shown=shown)

    async def _extract_range(self, worker: Agent, agent: Agent, through: int, calls: "_Calls") -> str:
        facts = entities = superseded = 0
        user = await self.store.people.get(agent.user) or User(id=agent.user, name=agent.user)
        while (mark := await self.store.of(MemoryRows).mark(agent.id)) < through:
            entries = await self.store.of(MemoryRows).entries(
                agent.id, after=mark, through=through, max_chars=CURATE_MAX_CHARS
            )
            if not entries:  # they were forgotten
                await with_retry(
                    lambda mark=mark: self.store.of(MemoryRows).learn(  # type: ignore[misc]
                        MergeResult(agent_id=agent.id, after=mark, through=through)
                    )
                )
                break
            learned, many, reason = await self._extract(worker, agent, user, entries, calls)
            merged, numbers = await self._keep(agent, learned, entries[:many], mark)
            if numbers is None:
                continue  # somebody was faster: go on from where the mark is now
            event = MemoryLearned(
                **about(self.clock, agent, calls.turn.trace),
                through=merged.through,
                facts=sum(memory.fact is not None for memory in merged.add),
                entities=sum(memory.entity is not None for memory in merged.add),
                superseded=len(merged.superseded),
                by=learned.by,
                reason=reason,
            )
            self.bus.publish(event)
            facts, entities = facts + event.facts, entities + event.entities
            superseded += event.superseded
        return f"{agent.path}: {facts} facts, {entities} entities, {superseded} superseded"

    async def _keep(
        self, agent: Agent, learned: Learned, entries: Sequence[StoredMemory], mark: int
    ) -> tuple[MergeResult, list[int] | None]:
        """Commit what these entries told, and that they were looked at; None: the mark is not there any more."""
        from daycare.features.memory.facts.merging import merge_result

        async with self._merging:
            known = await self._known(scope_of(agent.path), learned)
            merged = merge_result(agent, learned, entries, known, after=mark, through=entries[-1].no)
            return merged, await with_retry(lambda: self.store.of(MemoryRows).learn(merged))

    async def _extract(
        self, worker: Agent, agent: Agent, user: User, entries: Sequence[StoredMemory], calls: "_Calls"
    ) -> tuple[Learned, int, str]:
        """Return what the first of these entries tell, how many were read, and why not by a model that should have."""
        lines = list(entries)
        people = {line.speaker for line in lines if line.role != "assistant"} | {user.name}
        reason = ""
        try:
            plan = await self.pool.plan(worker.role, worker.config.model or None)
            if plan[0].provider != OFFLINE:
                known = await self.store.of(MemoryRows).about(
                    scope_of(agent.path), sorted(people), (), CURATE_KNOWN_MAX
                )
                learned, many = await self._asked(plan, lines, known, people, user.zone, calls)
                return self._kept(learned), many, ""
        except AwayError:
            raise
        except DaycareError as error:
            reason = error.message
        from daycare.features.memory.facts.extract import LINES_MAX

        lines = lines[:LINES_MAX]
        while _is_full(learned := await _extracted(lines, people, user.zone)) and len(lines) > 1:
            lines = lines[: len(lines) // 2]  # there may be more in them than is taken of one piece
        return self._kept(learned), len(lines), reason

    async def _asked(
        self,
        plan: Sequence[ModelChoice],
        lines: Sequence[StoredMemory],
        known: Sequence[StoredMemory],
        people: Collection[str],
        zone: str,
        calls: "_Calls",
    ) -> tuple[Learned, int]:
        """Ask a model about as many lines as it can take, and return how many those were.

        What its window has room for is estimated; where that or what came of it was too much, half is asked about.
        """
        from daycare.features.memory.facts import distil

        budget = tokens.budget_of(self.pool.facts(plan[0]))
        numbered = [replace(line, no=number) for number, line in enumerate(lines, 1)]  # short ones: each costs tokens
        facts = [memory.fact for memory in known if memory.fact is not None]
        while facts and _size(distil.request((), facts, people, zone)) > budget.total // 3:
            facts = facts[: len(facts) // 2]  # the newest; they only help
        many = min(len(lines), calls.lines_max)
        while True:
            asked = distil.request(numbered[:many], facts, people, zone)
            size = _size(asked)
            if size > budget.total and many > 1:
                many = min(many - 1, max(1, many * budget.total // size))
                continue
            try:
                text, by = await self._ask(plan, asked, zone, min(CURATE_OUTPUT_TOKENS, budget.room), calls)
                learned, _, more = distil.read(text, numbered[:many], people, zone, by)
                if more and many > 1:
                    raise InvalidError("EXTRACTION_CUT", f"reading what {by} learned: it was more than is taken")
            except InvalidError as error:
                if error.code not in _TOO_MUCH or many == 1:
                    raise
                many = calls.lines_max = many // 2
                continue
            return replace(
                learned,
                facts=tuple(replace(it, sources=_back(it.sources, lines)) for it in learned.facts),
                entities=tuple(replace(it, sources=_back(it.sources, lines)) for it in learned.entities),
            ), many

    async def _ask(
        self, plan: Sequence[ModelChoice], asked: "ExtractionRequest", zone: str, output_tokens: int, calls: "_Calls"
    ) -> tuple[str, str]:
        """Return a model's answer and its name. Raises `InvalidError` for one that was cut, which costs as well."""
        message = Message("user", (Text(asked.text),), 0, Origin.SYSTEM, "daycare")
        request = InferRequest(
            model="",
            system=asked.system,
            messages=(message,),
            zone=zone,
            now_ms=self.clock.now_ms(),
            max_output_tokens=output_tokens,
            output=asked.output,
        )
        calls.asked = request
        answer = await self.pool.infer(plan, request, payer=Payer.of(calls.worker, calls.turn.turn, calls.turn.trace))
        if answer.completion.finish == "length":
            raise InvalidError("EXTRACTION_CUT", f"reading what {answer.choice} learned: its answer was cut")
        return answer.completion.message.text, str(answer.choice)

    def _kept(self, learned: Learned) -> Learned:
        section = self.live.now.memory.ingestion
        return replace(
            learned,
            facts=learned.facts if section.facts else (),
            entities=learned.entities if section.entities else (),
        )

    async def _known(self, scope: str, learned: Learned) -> list[StoredMemory]:
        """Return what is known of the same: the newest, and what of the older may be over now."""
        from daycare.features.memory.facts.merging import MANY

        subjects = list(dict.fromkeys(fact.subject for fact in learned.facts))
        names = list(dict.fromkeys(name for entity in learned.entities for name in (entity.name, *entity.aliases)))
        about = self.store.of(
            MemoryRows
        ).about  # one after the other: facts, which are many, would crowd out the entities
        facts = await about(scope, subjects, (), CURATE_KNOWN_MAX) if subjects else []
        if len(facts) == CURATE_KNOWN_MAX:
            comparable = Comparable(
                subjects=tuple(subjects),
                values=tuple(fact.value for fact in learned.facts if fact.value),
                statements=tuple(fact.statement for fact in learned.facts),
                several=tuple(MANY),
            )
            facts += await self.store.of(MemoryRows).comparable(
                scope, comparable, before=facts[-1].no, limit=CURATE_COMPARABLE_MAX
            )
        return facts + (await about(scope, (), names, CURATE_KNOWN_MAX) if names else [])


async def _extracted(lines: Sequence[StoredMemory], people: Collection[str], zone: str) -> Learned:
    """Return what the rules find, and let others have their turn after each sentence: one takes some ms at most."""
    from daycare.features.memory.facts import extract
    from daycare.features.memory.language import dates

    reader = extract.ClauseReader(lines, people, dates.zone_of(zone))
    clauses = []
    for step in reader.steps():
        if step is not None:
            clauses.append(step)
        await trio.lowlevel.checkpoint()
    return extract.conclude(reader, clauses)


class _Calls:
    """The model calls of one turn: for whom they are, `lines_max`, what a model took at most, and what was `asked`."""

    def __init__(self, worker: Agent, turn: Turn) -> None:
        self.turn = turn
        self.lines_max = 2**31
        self.worker = worker
        self.asked: InferRequest | None = None


def _shown(worker: Agent, turn: Turn, said: int, asked: InferRequest) -> ShownPrompt:
    """Return what the last call of a worker's turn was shown, which `said` messages of its own had led to."""
    parts = (PromptPart("rules", asked.system),)
    base = PromptBase(parts, "", asked.zone, 0, digest_of_base(parts, asked.zone, 0), asked.now_ms)
    return ShownPrompt(
        turn=turn.turn,
        agent_id=worker.id,
        user=worker.user,
        said=said,
        since=said,
        base=base,
        tools=(),
        images=None,
        image_max_bytes=0,
        summary=0,
        first=0,
        recalled=(),
        kept=msgspec.json.encode(asked.messages),
        digest=digest_of_prompt(asked.system, (), asked.messages),
    )


def _is_full(learned: Learned) -> bool:
    """Return whether there may have been more than is taken of one piece."""
    return len(learned.facts) >= FACTS_MAX or len(learned.entities) >= ENTITIES_MAX


def _size(asked: "ExtractionRequest") -> int:
    """Return about how many tokens a request has."""
    return sum(tokens.of_text(text) for text in (asked.system, asked.text, str(asked.output.schema)))


def _back(sources: Sequence[int], lines: Sequence[StoredMemory]) -> tuple[int, ...]:
    return tuple(lines[number - 1].no for number in sources)
