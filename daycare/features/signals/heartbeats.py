"""Heartbeats: agents that look by themselves, now and then, whether something is to be done; within a budget only.

A heart beats only where a budget holds, and as long as something is left of it. Nothing is counted up: a beat is due so
long after the agent last worked, and one that was missed is not made up for.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from daycare.actors.router import Router
from daycare.base.causes import Beat
from daycare.base.clock import Clock
from daycare.base.errors import ConflictError, InvalidError, NotFoundError
from daycare.base.ids import new_trace_id
from daycare.base.limits import MESSAGE_MAX_BYTES
from daycare.base.messages import Envelope, EnvelopeKind, Origin
from daycare.base.path import Kind
from daycare.base.signal import HEART
from daycare.features.budgets.service import Budgets
from daycare.features.signals.records import Heartbeat
from daycare.features.signals.rows import HeartbeatRows
from daycare.store.records import Agent, AgentConfig
from daycare.store.sqlite.store import Store
from daycare.store.worker import Worker

if TYPE_CHECKING:
    from daycare.features.memory.documents.service import Documents

HEARTBEAT_MIN_S: Final = 300.0  # between two beats: each costs at least one call of a model
HEARTBEAT_MAX_S: Final = 7 * 86_400.0
HEARTBEAT_LOOK_S: Final = 30.0  # between two looks at whose heart is to beat
HEARTBEATS_MAX: Final = 1_000  # agents looked at

BEATING: Final = (Kind.CONNECTOR, Kind.SUBUSER, Kind.AGENT)  # kinds that last and that a person hears
_UNBOUND: Final = "a heartbeat spends by itself, and nobody has set a budget for this agent"
DOCUMENT: Final = "knowledge/heartbeat.md"  # what the agent is to look at, if there is such a document
_PROMPT: Final = (
    "Look whether something is to be done now: what you have promised, what you were asked to keep an eye on, what has"
    " changed since you last looked. Do what is due."
)


@dataclass(frozen=True)
class HeartbeatControls:
    """Decides it, and tells people of it."""

    store: Store
    budgets: Budgets
    clock: Clock

    async def check(self, path: str, kind: str, user: str, config: AgentConfig) -> None:
        """Refuse settings with a heartbeat that an agent may not have.

        Raises `InvalidError` HEARTBEAT_INVALID, `ConflictError` HEARTBEAT_NO_BUDGET.
        """
        if not config.heartbeat_s:
            return
        if kind not in BEATING:
            raise InvalidError("HEARTBEAT_INVALID", f"configuring {path}: a {kind} has no heartbeat")
        if not HEARTBEAT_MIN_S <= config.heartbeat_s <= HEARTBEAT_MAX_S:
            raise InvalidError(
                "HEARTBEAT_INVALID",
                f"configuring {path}: a heartbeat each {config.heartbeat_s} s,"
                f" expected {HEARTBEAT_MIN_S:g} to {HEARTBEAT_MAX_S:g}",
                hint=f"daycare agents set {path} --heartbeat 30m",
            )
        if not await self.budgets.is_set(path, user):
            raise ConflictError("HEARTBEAT_NO_BUDGET", f"configuring {path}: {_UNBOUND}", hint=_how(path))

    async def told(self, agent: Agent) -> dict[str, Any] | None:
        """Return what people see of an agent's heartbeat; None if it has none."""
        if not agent.config.heartbeat_s:
            return None
        state = await self.store.of(HeartbeatRows).of(agent)
        paused = "it is parked" if agent.state == "parked" else await self.paused(agent)
        beats = agent.state == "living" and not paused
        return {
            "every_s": agent.config.heartbeat_s,
            "beats": state.beats if state is not None else 0,
            "beat_at": state.beat_at if state is not None else None,
            "next_at": state.next_at(self.clock.now_ms()) if state is not None and beats else None,
            "paused": paused,
        }

    async def paused(self, agent: Agent) -> str:
        """Return why a heart does not beat, "" if it does."""
        if not await self.budgets.is_set(agent.path, agent.user):  # a default is no word for what spends by itself
            return f"{_UNBOUND}: {_how(agent.path)}"
        return await self.budgets.why_stopped(agent.path, agent.user)


def _how(path: str) -> str:
    return f"daycare budget set {path} --day 1usd"


class Heartbeats:
    """Lets hearts beat."""

    def __init__(
        self,
        store: Store,
        router: Router,
        controls: HeartbeatControls,
        documents: "Documents",
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
            text = (await self._documents.read(agent, DOCUMENT)).text.strip()
        except NotFoundError:
            text = ""
        return (text or _PROMPT).encode()[: MESSAGE_MAX_BYTES // 2].decode(errors="ignore")
