"""Hand-offs: memory workers are woken for what was said since they last looked.

What is due follows from rows alone (the log, the workers' marks, sessions, summaries), so that a crash can at most
delay it. A hand-off is a message like every other, in the worker's inbox: once per mark and day.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.router import Router
from daycare.base.causes import Handoff
from daycare.base.clock import CLOCK_OFF_S, Clock, is_within
from daycare.base.errors import DaycareError
from daycare.base.ids import new_trace_id
from daycare.base.memory_settings import IngestionSection
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.path import Kind, Path
from daycare.features.memory.store.records import Unextracted
from daycare.features.memory.store.rows import MemoryRows
from daycare.settings import Live
from daycare.store.records_conversations import APART
from daycare.store.sqlite.store import Store
from daycare.store.worker import IDLE_S, Worker

HANDOFF_LOOK_S: Final = 300.0  # between two looks at what waits for memory workers, when nothing is said
HANDOFF_GATHER_S: Final = 1.0  # from what was said to a look, which is at all agents of whom something waits
EXTRACTION_PAGE: Final = 64  # agents whose log is looked at, or entries that expire, at once: some milliseconds
HANDOFF_OLDEST_S: Final = 86_400.0  # what waits for so long is handed off whatever else holds: once a day at least

_DAY_MS = 86_400_000
_PAUSE_S = 0.1  # between pages, which take some milliseconds: nobody waits for them


@dataclass
class ExtractionSchedule:
    """Posts hand-offs, and tells which log entries are extracted from and older than `[memory] keep_days`."""

    store: Store
    directory: Directory
    router: Router
    clock: Clock
    live: Live
    # agent id -> (key of the last hand-off, wall ms when it was posted): not each look asks the store for what it knows
    _posted: dict[str, tuple[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Have it looked when something is added to the log, when it may be wanted, and now and then."""
        self.worker = Worker(self._look, gather_s=HANDOFF_GATHER_S)
        self.live.watch(lambda settings: settings.memory.ingestion, self.worker.wake)

    async def _look(self) -> float:
        if not self.live.now.memory.ingestion.background:
            return IDLE_S
        await self.look()
        return HANDOFF_LOOK_S

    async def look(self, wanted: Callable[[Unextracted], bool] | None = None) -> int:
        """Hand off what is due, or all that is `wanted`; return how many workers were woken."""
        now_ms = self.clock.now_ms()
        self._posted = {agent: it for agent, it in self._posted.items() if is_within(it[1], now_ms, HANDOFF_LOOK_S)}
        section = self.live.now.memory.ingestion
        woken = 0
        after = ""
        while page := await self.store.of(MemoryRows).unextracted(EXTRACTION_PAGE, after=after):
            for each in page:
                why = "asked for" if wanted and wanted(each) else "" if wanted else due(each, section, now_ms)
                if why:
                    with suppress(DaycareError):  # the agent died meanwhile, or its worker's inbox is full
                        woken += await self._hand_off(each, why, now_ms, asked=wanted is not None)
            if len(page) < EXTRACTION_PAGE:
                break
            after = page[-1].agent_id
            await trio.sleep(0 if wanted else _PAUSE_S)
        return woken

    async def _hand_off(self, each: Unextracted, why: str, now_ms: int, *, asked: bool) -> bool:
        """Wake a worker; False: it was woken for this lately, or gave up today. Who `asked` has all handed off, again.

        Else one hand-off waits at a time: what is said meanwhile gets one of its own when the mark has moved.
        """
        span = f"{each.after}-{each.through}" if asked else f"{each.after}"
        # With the day: a range that could not be read is tried again tomorrow, not never and not at each look.
        key = f"curate:{each.agent_id}:{span}:{now_ms // _DAY_MS}"
        if not asked and self._posted.get(each.agent_id, ("", 0))[0] == key:
            return False
        agent = await self.directory.get(each.agent_id)
        path = Path.stored(agent.path, Kind(agent.kind)).memory()
        envelope = Envelope(
            to=str(path),
            user=agent.user,
            origin=Origin.SYSTEM,
            sender="system",
            key=key,
            text=f"{each.entries} entries of {agent.path}: {why}",
            trace=new_trace_id(),
            kind=EnvelopeKind.HANDOFF,
            cause=Handoff(agent.id, each.through),
        )
        worker = self.directory.new(path, origin=Origin.SYSTEM, parent=agent.id)
        receipt = await self.router.post(envelope, worker)
        self._posted[agent.id] = key, now_ms
        if asked and receipt.state != "waiting":
            receipt = await self.router.post(replace(envelope, key=f"{envelope.key}:{now_ms}"), worker)
        return receipt.state == "waiting"

    async def expire(self, now_ms: int) -> int:
        """Delete a bounded number of log entries that are curated and old; return how many."""
        memory = self.live.now.memory
        before_ms = now_ms - (memory.keep_days * _DAY_MS if memory.ingestion.daily_logs else 0)
        return await self.store.of(MemoryRows).expire(before_ms, EXTRACTION_PAGE)


def due(each: Unextracted, section: IngestionSection, now_ms: int) -> str:
    """Return why a worker is to look at what waits, "" if it is not yet time."""
    if each.session != each.current and each.session > APART:  # a program does not say that its own ended
        return "the conversation ended"
    if each.compacted:
        return "the conversation was summed up"
    if each.entries >= 2 * section.every_turns:  # both sides of a turn
        return f"{section.every_turns} turns"
    quiet_ms = now_ms - each.newest_ms
    if quiet_ms >= section.idle_minutes * 60_000 or quiet_ms < -CLOCK_OFF_S * 1000:  # said when the clock was ahead
        return "the conversation was quiet"
    if now_ms - each.oldest_ms >= HANDOFF_OLDEST_S * 1000:
        return "a day has passed"
    return ""
