"""What comes back: memories that fit what was just said, found and put into the prompt before the model is asked.

No answer waits for it longer than the deadline: a question's vector is asked for as soon as its message is accepted,
and if it is late, words and structure find what they find. What stood in the last prompt stays as long as it still
ranks, so that a provider finds the prompt in its cache.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import trio
from msgspec.structs import replace

from daycare.agent import tokens
from daycare.agent.blocks import one_line
from daycare.agent.kinds import is_persons, is_scheduled, is_task, messages_of, said
from daycare.agent.recall import NOTHING, Recollection
from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.consent import IDENTITY_DOCUMENTS
from daycare.base.errors import DaycareError, StoreAwayError
from daycare.base.events import MemoryRecalled
from daycare.base.limits import RECALL_LINE_MAX_CHARS
from daycare.base.memories import Tier
from daycare.base.memory_settings import RetrievalSection
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.path import PEOPLES, Kind
from daycare.base.scope import scope_of
from daycare.base.times import local_time
from daycare.features.memory.documents.passages import Passages
from daycare.features.memory.loading import SEARCH, loaded
from daycare.features.memory.search.lookup import label_number
from daycare.features.memory.search.queries import MemoryHit, MemoryQuery
from daycare.features.memory.store.records import EVERYBODY, StoredMemory
from daycare.features.memory.store.rows import MemoryRows
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.rules.document_paths import MEMORY
from daycare.settings import Live
from daycare.store.records import Agent, InboxRow, Receipt, Turn, User
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

if TYPE_CHECKING:
    from daycare.features.memory.embed.arrays import Floats

import re

RECALL_QUESTIONS_MAX: Final = 256  # questions whose vectors are on their way or not fetched yet
RECALL_AGENTS_MAX: Final = 4_096  # agents whose last recalled memories are remembered, some 2 KB each
RECALL_RECENT: Final = 4  # messages before a question that say what it is about
RECALL_SHORT_CHARS: Final = 200  # of a question that may need them: a longer one has words of its own
RECALL_WARM_S: Final = 1.0  # after the start, which is busy enough
RECALL_SPARE: Final = 10  # memories asked for beyond those that are shown: some passages stand in the prompt anyway

Search = Callable[[MemoryQuery], Awaitable[Sequence[MemoryHit]]]
Ask = Callable[[str], Awaitable["Floats"]]

_ORDER: Final = (Tier.ENTITY, Tier.FACT, Tier.CHUNK, Tier.LOG)
_MARKED: Final = {
    Origin.GROUP: "said in a group",
    Origin.FORWARD: "from a forwarded message",
    Origin.FILE: "from a file",
    Origin.WEBHOOK: "from a webhook",
    Origin.CRON: "from a schedule",
    Origin.SYSTEM: "from the daemon",
}


class Recaller:
    """Recalls for turns.

    `prepare` reads what a `search` needs, ahead of the first. `ask` embeds a question; None: there is no embedder.
    """

    def __init__(
        self,
        store: Store,
        search: Search,
        prepare: Callable[[], Awaitable[None]],
        ask: Ask | None,
        live: Live,
        bus: Bus,
        clock: Clock,
        passages: Passages,
    ) -> None:
        self._store = store
        self._search = search
        self._prepare = prepare
        self._ask = ask
        self._live = live
        self._passages = passages
        self._bus = bus
        self._clock = clock
        self._nursery: trio.Nursery | None = None
        self._questions: Bounded[str, _Question] = Bounded(RECALL_QUESTIONS_MAX)  # by text
        self._shown: Bounded[str, frozenset[int]] = Bounded(RECALL_AGENTS_MAX)  # by agent: what its last prompt showed

    @property
    def _section(self) -> RetrievalSection:
        return self._live.now.memory.retrieval

    async def run(self) -> None:
        """Let questions be embedded while their messages are on their way; until cancelled.

        Where there is something to recall, what that takes is imported and read soon: the first message should not wait
        for it.
        """
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            try:
                await trio.sleep(RECALL_WARM_S)
                if self._section.enabled and await with_retry(self._store.of(MemoryRows).has_log):
                    await with_retry(self._prepare)
                await trio.sleep_forever()
            finally:
                self._nursery = None

    def accepted(self, envelope: Envelope, receipt: Receipt) -> None:
        """Begin to embed what a person has just said."""
        if envelope.to.split("/", 3)[2:3] == [Kind.APP] or envelope.user == "system":
            return  # programs recall nothing
        asks = envelope.kind is EnvelopeKind.TEXT and envelope.origin is not Origin.AGENT and not receipt.duplicate
        if asks and not is_small_talk(envelope.text):
            self._begin(envelope.text)

    def forget(self) -> None:
        """Drop what is kept of questions and prompts: something was forgotten."""
        self._questions.clear()
        self._shown.clear()
        self._passages.forget()

    async def of(self, agent: Agent, user: User, turn: Turn, rows: Sequence[InboxRow]) -> Recollection:
        """Return what fits what a turn reads; no memories for what is not looked up, for courtesies, on any failure."""
        text = self._asked(agent, turn, rows)
        found, vector = NOTHING, None
        if self._section.enabled and text and not is_small_talk(text):
            found, vector = await self._recall(agent, user, turn, text)
        words = text or "\n".join(message.text for message in messages_of(rows))
        return replace(found, excerpts=await self._passages.standing(agent, words, vector))

    async def _recall(self, agent: Agent, user: User, turn: Turn, text: str) -> "tuple[Recollection, Floats | None]":
        await loaded(SEARCH)  # before the deadline: else the first message after a start would recall nothing
        began = trio.current_time()
        without = "it took too long"
        vector: Floats | None = None
        hits: Sequence[MemoryHit] = ()
        failed = False
        with trio.move_on_after(self._section.deadline_ms / 1000) as scope:
            vector, without = await self._vector(text, scope.deadline)
            try:
                hits = await self._found(agent, user, turn, text, vector)
            except DaycareError as error:
                without, failed = error.message, True
        await trio.lowlevel.checkpoint()  # a search and a prompt of it take some ms each
        found = self._chosen(agent, user, hits)
        if found.memories or scope.cancelled_caught or failed:
            self._bus.publish(
                MemoryRecalled(
                    **about(self._clock, agent, turn.trace),
                    turn=turn.turn,
                    numbers=tuple(map(label_number, found.memories)),
                    scores=found.scores,
                    took_ms=round((trio.current_time() - began) * 1000, 1),
                    without=without,
                )
            )
        return found, vector

    # -- the question ------------------------------------------------------------------------------------------------

    def _asked(self, agent: Agent, turn: Turn, rows: Sequence[InboxRow]) -> str:
        """Return the words of a turn that are looked up, by `recall_for`."""
        wanted, named = self._section.recall_for, set(turn.seqs)
        rows = [row for row in rows if row.seq in named or "steered" in wanted]
        words = []
        if "people" in wanted and agent.kind in PEOPLES:
            plain = [row for row in rows if not is_task(row) and not is_scheduled(row)]
            words += [said(message)[1] for message in messages_of(plain) if is_persons(message)]
        for row in rows:
            of_helper = agent.kind == Kind.SUB and row.envelope.kind is EnvelopeKind.TEXT
            task, job, helper = "tasks" in wanted, "cron" in wanted, "helpers" in wanted
            if (task and is_task(row)) or (job and is_scheduled(row)) or (helper and of_helper):
                words.append(row.envelope.text)
        return "\n".join(words).strip()

    def _begin(self, text: str) -> "_Question | None":
        if self._ask is None or self._nursery is None or not self._section.enabled:
            return None
        question = self._questions.get(text)
        if question is None:
            question = self._questions[text] = _Question()
            self._nursery.start_soon(question.run, self._ask, text)
        return question

    async def _vector(self, text: str, deadline: float) -> "tuple[Floats | None, str]":
        """Return the question's vector if it comes in time, leaving half of the time to search; else why not."""
        question = self._begin(text)
        if question is None:
            return None, ""
        left_s = deadline - trio.current_time()
        with trio.move_on_after(left_s / 2):
            await question.done.wait()
        self._questions.pop(text, None)
        return (question.vector, question.trouble) if question.done.is_set() else (None, "its vector came too late")

    async def _found(
        self, agent: Agent, user: User, turn: Turn, text: str, vector: "Floats | None"
    ) -> Sequence[MemoryHit]:
        try:
            return await self._search(await self._query(agent, user, turn, text, vector))
        except StoreAwayError:  # a read that failed once costs no memories; one that fails again costs no answer
            return await self._search(await self._query(agent, user, turn, text, vector))

    async def _query(self, agent: Agent, user: User, turn: Turn, text: str, vector: "Floats | None") -> MemoryQuery:
        memory, section = self._live.now.memory, self._section
        from daycare.features.memory.search.question import hear

        summary = await self._store.summaries.latest(agent.id, turn.session)
        through = summary.through if summary else 0
        now_ms = self._clock.now_ms()
        heard = hear(text, now_ms, user.zone)
        vague = heard.is_vague and len(text) <= RECALL_SHORT_CHARS
        recent = await self._store.turns.history(agent.id, turn.session, RECALL_RECENT) if vague else []
        kept = {
            Tier.LOG: section.include_logs and memory.ingestion.daily_logs,  # old ones may lie there still
            Tier.FACT: section.include_facts,
            Tier.ENTITY: section.include_entities,
            Tier.CHUNK: memory.documents.chat_top > 0,
        }
        return MemoryQuery(
            scope=scope_of(agent.path),
            agent_id=agent.id,
            text=text,
            recent=tuple(message.text for message in recent[-RECALL_RECENT:] if message.text),
            speaker=user.name,
            now_ms=now_ms,
            zone=user.zone,
            tiers=tuple(tier for tier, wanted in kept.items() if wanted),
            shown=(turn.session, through),
            limit=section.max_results + RECALL_SPARE,
            enough_chars=section.max_tokens * tokens.CHARS_PER_TOKEN,  # no script has more
            again=self._shown.get(agent.id, frozenset()),
            least=section.min_score,
            vector=vector,
            heard=heard,
        )

    async def again(
        self, path: str, zone: str, numbers: Sequence[int]
    ) -> tuple[tuple[tuple[str, str], ...], list[StoredMemory]]:
        """Return the blocks that a prompt of the agent at a path has of memories, and those of them that are kept."""
        memories = await self._store.of(MemoryRows).get([scope_of(path), EVERYBODY], numbers)
        memories.sort(key=_place)
        here = ZoneInfo(zone)
        return _blocks([(memory, line(memory, here)) for memory in memories]), memories

    # -- the answer --------------------------------------------------------------------------------------------------

    def _chosen(self, agent: Agent, user: User, hits: Sequence[MemoryHit]) -> Recollection:
        """Return the hits that fit: the best half, then what was shown last time and still ranks, then others."""
        hits = self._without_read(hits)
        before = self._shown.get(agent.id, frozenset())
        section = self._section
        must = {hit.memory.no for hit in hits[: -(-section.max_results // 2)]}
        ranked = sorted(hits, key=lambda hit: 0 if hit.memory.no in must else 1 if hit.memory.no in before else 2)
        zone = ZoneInfo(user.zone)
        chosen: list[tuple[MemoryHit, str]] = []
        left = section.max_tokens
        for hit in ranked[: section.max_results]:
            shown, size = _line_of(hit, zone)
            left -= size + 1
            if left < 0:
                break
            chosen.append((hit, shown))
        self._shown[agent.id] = frozenset(hit.memory.no for hit, _ in chosen)
        # In order of tier and time, so that the same memories are the same bytes.
        chosen.sort(key=lambda it: _place(it[0].memory))
        return Recollection(
            blocks=_blocks([(hit.memory, shown) for hit, shown in chosen]),
            memories=tuple(hit.memory for hit, _ in chosen),
            scores=tuple(round(hit.score, 2) for hit, _ in chosen),
        )

    def _without_read(self, hits: Sequence[MemoryHit]) -> list[MemoryHit]:
        """Leave out passages that stand in the prompt anyway, and all but the best of the others."""
        kept, passages = [], 0
        for hit in hits:
            if hit.memory.tier is Tier.CHUNK:
                passages += not _stands_anyway(hit.memory)
                if _stands_anyway(hit.memory) or passages > self._live.now.memory.documents.chat_top:
                    continue
            kept.append(hit)
        return kept


def _stands_anyway(memory: StoredMemory) -> bool:
    return memory.place is not None and memory.place.name in (MEMORY, *IDENTITY_DOCUMENTS)


class _Question:
    """A question's vector in the making."""

    def __init__(self) -> None:
        self.done = trio.Event()
        self.vector: Floats | None = None
        self.trouble = ""

    async def run(self, ask: Ask, text: str) -> None:
        try:
            self.vector = await ask(text)
        except DaycareError as error:
            self.trouble = error.message
        self.done.set()


def _place(memory: StoredMemory) -> tuple[int, int, int]:
    """Return where a memory stands among others in a prompt."""
    return _ORDER.index(memory.tier), memory.at_ms, memory.no


def _blocks(chosen: Sequence[tuple[StoredMemory, str]]) -> tuple[tuple[str, str], ...]:
    by_tier: dict[Tier, list[str]] = {}
    for memory, shown in chosen:
        by_tier.setdefault(memory.tier, []).append(shown)
    return tuple((str(tier), "\n".join(lines)) for tier, lines in by_tier.items())


def _line_of(hit: MemoryHit, zone: ZoneInfo) -> tuple[str, int]:
    """Return the line of a hit, and how many tokens it has: made once for as long as the memory stays as it is."""
    known = hit.lines.get(zone)
    if known is None:
        shown = line(hit.memory, zone)
        hit.lines.clear()  # of everybody's memories those in one time zone are enough
        known = hit.lines[zone] = (shown, tokens.of_text(shown))
    return known


def line(memory: StoredMemory, zone: ZoneInfo) -> str:
    """Return a memory as a prompt shows it: when, who or where, what, and from whom if that was outside."""
    text = one_line(memory.text, RECALL_LINE_MAX_CHARS)
    marked = f" ({_MARKED[memory.origin]})" if memory.origin in _MARKED else ""
    if memory.entity is not None:
        return f"Entity: {one_line(memory.entity.name, 80)} ({memory.entity.kind}) - {text}{marked}"
    at = local_time(memory.at_ms, zone)
    source = memory.place.name if memory.place is not None else memory.speaker if memory.tier is Tier.LOG else ""
    who = f"{one_line(source, 80)}: " if source else ""
    until = ""
    if memory.fact is not None and memory.fact.valid_until_ms is not None:
        until = f" (until {local_time(memory.fact.valid_until_ms, zone):%Y-%m-%d})"
    return f"[{at.isoformat(' ', 'minutes')[:16]}] {who}{text}{until}{marked}"


_CHARS_MAX: Final = 80  # longer messages say something else as well
_GREETINGS: Final = (  # English, German, French, Spanish, Italian, Portuguese, Dutch; the longer of two first
    "hello again|hello there|hello|hi again|hi there|hi|hey there|hey|hiya|howdy|yo|greetings|welcome back|"
    "good (?:morning|afternoon|evening|night|day)|(?:many )?thanks(?: a lot| so much| again)?|"
    "thank you(?: very much| so much| again)?|thx|cheers|bye(?: bye)?|goodbye|good bye|"
    "see you(?: soon| later| tomorrow)?|talk to you later|take care",
    "hallo|servus|moin|grüß (?:dich|gott)|guten (?:morgen|tag|abend)|gute nacht|danke(?: schön| sehr| dir)?|"
    "vielen dank|besten dank|tschüss|tschüß|ciao|bis (?:bald|später|morgen|dann)|auf wiedersehen",
    "bonjour|bonsoir|bonne (?:nuit|journée|soirée)|salut|coucou|merci(?: beaucoup| bien)?|"
    "au revoir|à (?:bientôt|demain)",
    "hola|buenos d[ií]as|buenas (?:tardes|noches)|(?:muchas )?gracias|adiós|hasta (?:luego|mañana)",
    "buongiorno|buonasera|buonanotte|grazie(?: mille)?|arrivederci",
    "olá|oi|bom dia|boa (?:tarde|noite)|(?:muito )?obrigad[oa]|tchau|até logo",
    "hoi|goedemorgen|goedemiddag|goedenavond|dank je(?: wel)?|bedankt|tot ziens",
)
_ANSWERS: Final = (
    "nice to (?:meet|see) you|how are you(?: doing)?|how(?: i)? ?s it going|how do you do|what(?: i)? ?s up|"
    "are you there|i ?m (?:back|fine)|you(?: a)? ?re welcome|no problem|never mind|ok(?:ay)?|alright|all right|got it|"
    "i see|cool|great|nice|perfect|awesome|wonderful|good(?: job)?|well done|lol|haha|test|ping",
    "wie geht ?s(?: dir)?|wie geht es dir|super|prima|alles klar|gut|ça va|comment ça va|d accord|qué tal|"
    "cómo estás|vale|come stai|tudo bem|hoe gaat het",
)
_SMALL_TALK: Final = re.compile(
    rf"(?:(?:{'|'.join(_ANSWERS + _GREETINGS)})(?: |$))*(?:(?:{'|'.join(_GREETINGS)}) [^\W\d_]+)?"  # "hi Ann"
)
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")


def is_small_talk(text: str) -> bool:
    """Return whether a message is nothing but courtesies, a name after them, or signs without a word."""
    if len(text) > _CHARS_MAX:
        return False
    words = _BETWEEN_WORDS.sub(" ", text.casefold()).strip()
    return _SMALL_TALK.fullmatch(words) is not None
