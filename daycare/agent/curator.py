"""The memory worker's turn: it looks at what was said since it last did, and keeps what it learned.

A range of the log is read in pieces; what is learned of a piece and the mark that it was looked at are one commit. So a
crash repeats at most the asking, and no entry is passed over or learned from twice. A model that fails or talks
nonsense is replaced by the rules: what was said does not wait for a better day.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.agent.kinds import messages_of
from daycare.agent.patience import patiently
from daycare.agent.steps import Thought
from daycare.base.clock import Clock
from daycare.base.errors import AwayError, DaycareError
from daycare.base.events import MemoryLearned
from daycare.base.limits import CURATE_KNOWN_MAX, CURATE_MAX_CHARS, CURATE_OUTPUT_TOKENS
from daycare.base.messages import Message, Origin, Text
from daycare.base.recollection import IngestionSection
from daycare.base.scope import scope_of
from daycare.config import OFFLINE
from daycare.inference.names import Choice
from daycare.inference.pool import Answer, Pool
from daycare.memory.learned import Learned, Line
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.plugin import InferRequest
from daycare.store.contract import Store
from daycare.store.records import Agent, InboxRow, Spend, Turn, User
from daycare.store.records_memories import Lesson, Memory


@dataclass(frozen=True)
class Curator:
    """Takes the turns of memory workers."""

    store: Store
    directory: Directory
    pool: Pool
    section: IngestionSection
    bus: Bus
    clock: Clock

    async def work(self, worker: Agent, turn: Turn, rows: Sequence[InboxRow]) -> Thought:
        """Look at what was handed off in these messages. Raises `AwayError` when the model's provider is away."""
        wanted: dict[str, int] = {}
        for row in rows:
            meta = row.envelope.meta
            if meta.get("agent"):
                wanted[meta["agent"]] = max(wanted.get(meta["agent"], 0), int(meta["through"]))
        calls = _Calls(worker, turn)
        told = [await self._curate(worker, await self.directory.get(of), to, calls) for of, to in wanted.items()]
        reply = "; ".join(told) or "nothing was handed off"
        said = Message("assistant", (Text(reply),), self.clock.now_ms(), Origin.AGENT, worker.path)
        return Thought(rows=tuple(rows), history=(*messages_of(rows), said), reply=reply)

    async def _curate(self, worker: Agent, agent: Agent, through: int, calls: "_Calls") -> str:
        facts = entities = superseded = 0
        user = await self.store.people.get(agent.user) or User(id=agent.user, name=agent.user)
        while (mark := await self.store.memories.mark(agent.id)) < through:
            entries = await self.store.memories.entries(
                agent.id, after=mark, through=through, max_chars=CURATE_MAX_CHARS
            )
            if not entries:  # they were forgotten
                await patiently(
                    lambda mark=mark: self.store.memories.learn(  # type: ignore[misc]
                        Lesson(agent_id=agent.id, after=mark, through=through)
                    )
                )
                break
            from daycare.agent.lessons import lesson_of  # late, as all that knows of extraction

            learned, reason = await self._extract(worker, agent, user, entries, calls)
            known = await self._known(scope_of(agent.path), learned)
            lesson = lesson_of(
                agent, learned, entries, known, after=mark, through=entries[-1].no, spend=calls.charged()
            )
            numbers = await patiently(lambda lesson=lesson: self.store.memories.learn(lesson))  # type: ignore[misc]
            if numbers is None:
                continue  # somebody was faster: go on from where the mark is now
            facts += sum(memory.fact is not None for memory in lesson.add)
            entities += sum(memory.entity is not None for memory in lesson.add)
            superseded += len(lesson.superseded)
            self.bus.publish(
                MemoryLearned(
                    **about(self.clock, agent, calls.turn.trace),
                    through=lesson.through,
                    facts=facts,
                    entities=entities,
                    superseded=superseded,
                    by=learned.by,
                    reason=reason,
                )
            )
        return f"{agent.path}: {facts} facts, {entities} entities, {superseded} superseded"

    async def _extract(
        self, worker: Agent, agent: Agent, user: User, entries: Sequence[Memory], calls: "_Calls"
    ) -> tuple[Learned, str]:
        """Return what these entries tell, and why the rules did it if a model should have."""
        lines = [_line(entry) for entry in entries]
        people = {line.speaker for line in lines if line.role == "user"} | {user.name}
        reason = ""
        plan = await self.pool.plan(worker.role, worker.config.model or None)
        if plan[0].provider != OFFLINE:
            try:
                known = await self.store.memories.about(scope_of(agent.path), sorted(people), (), CURATE_KNOWN_MAX)
                return self._kept(await self._ask(plan, lines, known, people, user.zone, calls)), ""
            except AwayError:
                raise
            except DaycareError as error:
                reason = error.message
        return self._kept(await _extracted(lines, people, user.zone)), reason

    async def _ask(
        self,
        plan: Sequence[Choice],
        lines: Sequence[Line],
        known: Sequence[Memory],
        people: Collection[str],
        zone: str,
        calls: "_Calls",
    ) -> Learned:
        """Ask a model. Raises `InvalidError` for an answer that is no use; the call is charged all the same."""
        from daycare.agent.lessons import known_fact  # late, as the rules
        from daycare.memory import distil

        numbered = [replace(line, no=number) for number, line in enumerate(lines, 1)]  # short ones: each costs tokens
        facts = [known_fact(memory) for memory in known if memory.fact is not None]
        asked = distil.request(numbered, facts, people, zone)
        message = Message("user", (Text(asked.text),), 0, Origin.SYSTEM, "daycare")
        request = InferRequest(
            model="",
            system=asked.system,
            messages=(message,),
            zone=zone,
            now_ms=self.clock.now_ms(),
            max_output_tokens=CURATE_OUTPUT_TOKENS,
            output=asked.output,
        )
        answer = await self.pool.infer(plan, request)
        calls.charge(answer)
        reading = distil.read(answer.completion.message.text, numbered, people, zone, str(answer.choice))
        learned = reading.learned
        return replace(
            learned,
            facts=tuple(replace(it, sources=_back(it.sources, lines)) for it in learned.facts),
            entities=tuple(replace(it, sources=_back(it.sources, lines)) for it in learned.entities),
        )

    def _kept(self, learned: Learned) -> Learned:
        return replace(
            learned,
            facts=learned.facts if self.section.facts else (),
            entities=learned.entities if self.section.entities else (),
        )

    async def _known(self, scope: str, learned: Learned) -> list[Memory]:
        subjects = list(dict.fromkeys(fact.subject for fact in learned.facts))
        names = list(dict.fromkeys(name for entity in learned.entities for name in (entity.name, *entity.aliases)))
        if not subjects and not names:
            return []
        return await self.store.memories.about(scope, subjects, names, CURATE_KNOWN_MAX)


async def _extracted(lines: Sequence[Line], people: Collection[str], zone: str) -> Learned:
    """Return what the rules find, and let others have their turn after each clause: a line takes about 1 ms."""
    from daycare.memory import dates, extract  # late: word lists cost 6 MB, which an idle daemon does not need

    reader = extract.Reader(lines[: extract.LINES_MAX], people, dates.zone_of(zone))
    clauses = []
    for clause in reader.clauses():
        clauses.append(clause)
        await trio.lowlevel.checkpoint()
    return extract.conclude(reader, clauses)


class _Calls:
    """The model calls of one turn, charged with what came of them."""

    def __init__(self, worker: Agent, turn: Turn) -> None:
        self.turn = turn
        self._worker = worker
        self._step = 0
        self._spend: list[Spend] = []

    def charge(self, answer: Answer) -> None:
        """Note what a call cost."""
        self._spend.append(
            Spend(
                agent_id=self._worker.id,
                user=self._worker.user,
                turn=self.turn.turn,
                step=self._step,
                provider=answer.choice.provider,
                model=answer.choice.model,
                usage=answer.completion.usage,
                cost_micros=answer.cost_micros,
            )
        )
        self._step += 1

    def charged(self) -> tuple[Spend, ...]:
        """Return what was spent since this was last asked."""
        spend, self._spend = tuple(self._spend), []
        return spend


def _back(sources: Sequence[int], lines: Sequence[Line]) -> tuple[int, ...]:
    return tuple(lines[number - 1].no for number in sources)


def _line(entry: Memory) -> Line:
    role: Literal["user", "assistant"] = "assistant" if entry.role == "assistant" else "user"
    return Line(
        no=entry.no,
        turn=entry.turn,
        at_ms=entry.at_ms,
        speaker=entry.speaker,
        role=role,
        origin=entry.origin,
        text=entry.text,
    )
