"""Heartbeats: agents that look by themselves, now and then, whether something is to be done; within a budget only.

Nothing is counted up: a beat is due so long after the agent last worked, and one that was missed is not made up for.
"""

from collections.abc import Callable
from typing import Final

from daycare.actors.router import Router
from daycare.agent.heartbeat_controls import HeartbeatControls
from daycare.base.causes import Beat
from daycare.base.clock import Clock
from daycare.base.errors import NotFoundError
from daycare.base.ids import new_trace_id
from daycare.base.limits import HEARTBEAT_LOOK_S, HEARTBEATS_MAX, MESSAGE_MAX_BYTES
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.signal import HEART
from daycare.features.memory.documents.service import Documents
from daycare.store.contract import Store
from daycare.store.records import Agent
from daycare.store.records_signals import Heartbeat
from daycare.store.sqlite.heartbeats import HeartbeatRows
from daycare.store.worker import Worker

DOCUMENT: Final = "knowledge/heartbeat.md"  # what the agent is to look at, if there is such a document
_PROMPT: Final = (
    "Look whether something is to be done now: what you have promised, what you were asked to keep an eye on, what has"
    " changed since you last looked. Do what is due."
)


class Heartbeats:
    """Lets hearts beat."""

    def __init__(
        self,
        store: Store,
        router: Router,
        controls: HeartbeatControls,
        documents: Callable[[], Documents],
        clock: Clock,
    ) -> None:
        self._store = store
        self._router = router
        self._controls = controls
        self._documents = documents
        self._clock = clock
        self.worker = Worker(self._look)

    async def _look(self) -> float:
        """Let those beat whose time it is; return for how long nothing is to be done."""
        wait_s = HEARTBEAT_LOOK_S
        for agent, state in await self._store.of(HeartbeatRows).look(self._clock.now_ms(), HEARTBEATS_MAX):
            left_s = (state.next_at(self._clock.now_ms()) - self._clock.now_ms()) / 1000
            if left_s > 0:
                wait_s = min(wait_s, left_s)
            elif not state.busy and not await self._controls.paused(agent):
                await self._beat(agent, state)
        return wait_s

    async def _beat(self, agent: Agent, state: Heartbeat) -> None:
        beat = Envelope(
            to=agent.path,
            agent_id=agent.id,
            user=agent.user,
            origin=Origin.CRON,
            sender=HEART,
            key=f"heartbeat:{state.since}:{state.beats + 1}",
            text=await self._prompt(agent),
            trace=new_trace_id(),
            kind=EnvelopeKind.NOTICE,
            cause=Beat(agent.config.heartbeat_s),
        )
        try:
            receipt = await self._store.of(HeartbeatRows).beat(agent.id, beat)
        except NotFoundError:
            return  # it died just now
        if receipt is not None:
            self._router.announce(beat, receipt)

    async def _prompt(self, agent: Agent) -> str:
        try:
            text = (await self._documents().read(agent, DOCUMENT)).text.strip()
        except NotFoundError:
            text = ""
        return (text or _PROMPT).encode()[: MESSAGE_MAX_BYTES // 2].decode(errors="ignore")
