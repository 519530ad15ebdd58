"""The supervisor: wakes agents, runs one lane each, and lets them sleep again.

An agent has at most one activation, and everything that happens to it happens in that activation's lane: control
messages first, then one turn after the other. A commit wakes; sleep is decided with no await between "nothing left"
and "removed", so no wake is lost.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from daycare.actors import mailbox
from daycare.actors.directory import Directory
from daycare.actors.dropping import Dropping
from daycare.actors.elsewhere import LivesElsewhere
from daycare.actors.failures import Failures
from daycare.actors.handover import HANDOVER_S, Handover, at_work
from daycare.actors.lifecycle import COLLECT, CONTROL, IDLE, IN_TURN, Activation, Life
from daycare.actors.ports import LanePorts
from daycare.actors.recovery import Recovery
from daycare.actors.turn_room import TurnRoom
from daycare.base.clock import Clock
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.base.events import AgentSlept, AgentWoke, LaneBroke
from daycare.base.limits import STORE_RETRY_S, SWEEP_S, TURN_DEADLINE_S, WAKE_PAGE_AGENTS
from daycare.base.messages import EnvelopeKind
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.observe.keeper import Keeper
from daycare.settings import Live
from daycare.store.records import Agent, Commit, InboxRow, Policy
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store
from daycare.store.worker import IDLE_S, Worker

LANE_RESTART_S: Final = 5.0  # after a defect outside of any turn
COLLECT_QUIET_S: Final = 1.5  # `collect` waits for this long a silence ...
COLLECT_MAX_S: Final = 15.0  # ... but never longer than this

_NO_WORDS: Final = (EnvelopeKind.NOTE, EnvelopeKind.QUERY, EnvelopeKind.VOICE, EnvelopeKind.UNHEARD)
_POLICIES: Final = {str(each): each for each in Policy}


STOPPED = "stopped"
INTERRUPTED = "interrupted"
_INTERRUPT: Final = Policy.INTERRUPT


class Supervisor:
    """Runs the lanes of awake agents inside a nursery of its own."""

    def __init__(
        self,
        store: Store,
        directory: Directory,
        work: LanePorts,
        bus: Bus,
        clock: Clock,
        keeper: Keeper,
        live: Live,
    ) -> None:
        self._store, self._directory, self._share = store, directory, store.share
        self._turns, self._endings, self._control = work
        self._bus, self._clock, self._keeper = bus, clock, keeper
        self._settings = live
        self.room = TurnRoom(live.now.daemon.turns_max_running)
        live.watch(lambda settings: settings.daemon.turns_max_running, self._make_room)
        self._nursery: trio.Nursery | None = None
        self._room = trio.Event()  # set when fewer lanes than a page are busy
        self._sweeper = Worker(self._sweep, gather_s=SWEEP_S)  # woken with each agent; they are swept together
        self._busy = 0
        self.swept = 0  # rounds of the sweep: that it gets on
        self._stopping = False
        self._suspended: list[int] = []  # turns that were journaled ahead and not tried when their lanes ended
        self.awake: dict[str, Activation] = {}
        self.failures = Failures(store, work.endings, bus, clock, self.awake)
        self.recovery = Recovery(store, self.awake)
        self.elsewhere = LivesElsewhere()
        self.failures.elsewhere = self.elsewhere.trouble_of
        self.dropping = Dropping(store, directory, self.awake)
        self._handover = Handover(store, self.awake)

    async def run(self) -> None:
        """Work off what waits, then whatever is posted, until `stop`; returns when every lane has ended."""
        if not self._share.several:  # else with each shard
            await self.recovery.begin()
        if self._stopping:
            return
        try:
            async with trio.open_nursery() as self._nursery:
                self._share.work(self._take_over, self._handover.let_go)
                self._nursery.start_soon(self._keeper.keep, "backlog", self._wake_backlog)
                self._nursery.start_soon(self._keeper.keep, "sweep", self._sweeper.run)
        finally:
            self._nursery = None  # what is committed from here on is found by the next start

    async def stop(self, grace_s: float) -> None:
        """End orderly: running turns may finish for `grace_s`, then they are suspended without costing an attempt.

        On a node of several that is `HANDOVER_S` at most: another goes on with them at once.
        """
        self._stopping = True
        nursery = self._nursery
        if nursery is None:
            return  # `run` has not begun, and will end at once
        for lane in self.awake.values():
            if lane.life is IN_TURN:
                lane.move(Life.DRAINING)
        with trio.move_on_after(min(grace_s, HANDOVER_S) if self._share.several else grace_s):
            while any(lane.trying for lane in self.awake.values()):
                self._room = trio.Event()
                await self._room.wait()
        suspended = at_work(self.awake.values()) + self._suspended
        nursery.cancel_scope.cancel()
        await self._handover.suspend(suspended, grace_s)

    def committed(self, commit: Commit) -> None:
        """Hear what a commit made true: whose turn is cut off, what may work by now, and what is to be done."""
        for agent_id in commit.cut_off:
            if (lane := self.awake.get(agent_id)) is not None:
                lane.cut_off()
        if commit.secrets or commit.agents:
            self.failures.changed(None if commit.secrets else commit.agents)
        if commit.posted:
            self.posted(commit.posted)
        for row in commit.reworded:
            if (lane := self.awake.get(row.agent_id)) is not None:
                lane.reword(row)
                if lane.trying:
                    self._disturb(lane, row)

    def posted(self, rows: list[InboxRow]) -> None:
        """Deliver rows that were just committed, waking their agents; called after each commit, in order."""
        for row in rows:
            lane = self.awake.get(row.agent_id)
            if lane is None:
                if self._stopping or self._nursery is None:
                    continue  # the next start finds them in the store
                if self._share.several and not self._is_here(row.agent_id):
                    continue  # its node hears of it
                self.wake(row.agent_id)
                continue
            lane.deliver(row)
            if lane.trying:
                self._disturb(lane, row)

    def wake(self, agent_id: str) -> Activation:
        """Give an agent its activation, or return the one it has."""
        lane = self.awake.get(agent_id)
        if lane is None:
            assert self._nursery is not None
            lane = self.awake[agent_id] = Activation(agent_id)
            lane.move(Life.WAKING)
            self._busy += 1
            self._sweeper.wake()
            self._nursery.start_soon(self._live, lane)
        return lane

    def life_of(self, agent: Agent) -> str:
        """Return where an agent is in its life, for people."""
        lane = self.awake.get(agent.id)
        if agent.state != "living":
            return agent.state
        return lane.life if lane is not None else self.elsewhere.life_of(agent.id)

    def may_work(self, agent: Agent) -> bool:
        """Whether an agent may be at work, here or on its node: nothing happens to it then but in its lane."""
        return agent.id in self.awake or not self._share.owns(agent.user)

    def sleep_idle(self, idle_s: float) -> None:
        """Let agents go to sleep that have had nothing to do for `idle_s`."""
        before = trio.current_time() - idle_s
        for lane in self.awake.values():
            if lane.life is IDLE and lane.idle_since <= before:
                lane.retiring = True
                lane.nudge()

    # -- a lane ------------------------------------------------------------------------------------------------------

    def _is_here(self, agent_id: str) -> bool:
        """Whether an agent is to wake here, as far as that is known: its lane asks again."""
        known = self._directory.known(agent_id)
        return known is None or self._share.owns(known.user)

    def _take_over(self, suspects: Sequence[str]) -> None:
        """Begin the work of users that are this node's from now on; `suspects` are agents of theirs."""
        self.recovery.add(suspects)
        self.elsewhere.clear()
        if self._nursery is not None and not self._stopping:
            self._nursery.start_soon(self._keeper.keep, "backlog", self._wake_backlog)

    async def _live(self, lane: Activation) -> None:
        """Run a lane to its end, or until another node is to run it."""
        if not self._share.several:
            await self._lived(lane)
            return
        with trio.CancelScope() as lane.whole:
            await self._lived(lane)
        if self.awake.get(lane.agent_id) is lane:
            del self.awake[lane.agent_id]
        if lane.gone is not None:
            lane.gone.set()

    async def _lived(self, lane: Activation) -> None:
        """Run a lane to its end; one that breaks outside of a turn is started anew after a while."""
        try:
            try:
                agent = await self._agent(lane)
                lane.user = agent.user
                if not self._share.owns(agent.user):
                    return
                self._bus.publish(AgentWoke(**about(self._clock, agent)))
                await self._work(lane)
            finally:
                del self.awake[lane.agent_id]
                self.recovery.tried(lane)
                if lane.life is not IDLE:
                    self._less_busy()
            agent = await self._agent(lane)
            lane.move(Life.DEAD if agent.state == "dead" else Life.ASLEEP)
            self._bus.publish(AgentSlept(**about(self._clock, agent)))
        except Exception as error:  # noqa: BLE001 - one agent's trouble never ends the daemon
            self._bus.publish(LaneBroke(at_ms=self._clock.now_ms(), agent_id=lane.agent_id, reason=repr(error)))
            # It counts as awake until then: what arrives meanwhile waits, instead of breaking once a message.
            if self.awake.setdefault(lane.agent_id, lane) is lane:
                await trio.sleep(LANE_RESTART_S)
                del self.awake[lane.agent_id]
                self.wake(lane.agent_id)

    async def _work(self, lane: Activation) -> None:
        """Serve the lane to its end, in a fresh scope whenever a turn was cancelled."""
        lane.turn = await with_retry(lambda: self._store.turns.open_turn(lane.agent_id))
        while True:
            # One scope for all turns of an activation: entering one costs as much as a statement.
            lane.cancelled = False
            with trio.CancelScope() as lane.scope:
                return await self._serve(lane)
            await self._cancelled(lane)

    async def _serve(self, lane: Activation) -> None:
        while True:
            if lane.deaf or lane.behind:
                await mailbox.read(self._store.inbox, lane)
            agent = self._directory.known(lane.agent_id) or await self._agent(lane)
            if agent.state == "dead":
                return
            if lane.control:
                if not await self._obey(agent, lane, lane.control[0]):
                    return
                lane.control.pop(0)
            elif self._stopping:
                if lane.begun and lane.turn is not None:
                    self._suspended.append(lane.turn.turn)
                return
            elif lane.listening and agent.state == "living":
                await self._idle(lane)
            elif (lane.rows or lane.turn is not None) and agent.state == "living":
                await self._take_turn(agent, lane)
            elif lane.behind and agent.state == "living":
                continue
            elif (lane.retiring or agent.state == "parked") and lane.beside is None:
                return  # no await from here to the removal in `_live`
            else:
                await self._idle(lane)

    async def _agent(self, lane: Activation) -> Agent:
        known = self._directory.known(lane.agent_id)
        return known if known is not None else await with_retry(lambda: self._directory.get(lane.agent_id))

    async def _idle(self, lane: Activation) -> None:
        self.recovery.tried(lane)
        if lane.life is not IDLE:
            lane.move(IDLE)
            lane.idle_since = trio.current_time()
            self._less_busy()
        await lane.rest()
        if lane.rows or lane.control or lane.behind or lane.deaf:
            self._busy += 1
            lane.move(IN_TURN)

    def _make_room(self) -> None:
        self.room.size = self._settings.now.daemon.turns_max_running

    def _less_busy(self) -> None:
        self._busy -= 1
        if self._busy < WAKE_PAGE_AGENTS or self._stopping:
            self._room.set()

    async def _take_turn(self, agent: Agent, lane: Activation) -> None:
        lane.policy = agent.config.policy or _POLICIES[self._settings.now.agent.policy]
        if lane.turn is None and lane.policy is COLLECT:
            await self._collect(lane)
        if lane.turn is not None and not lane.begun and await self.failures.backing_off(lane):
            return
        while self.recovery.holds(lane) and not lane.control:
            await lane.rest()
        if self._stopping:
            return
        if lane.life is not IN_TURN:
            lane.move(IN_TURN)
        if not self.room.enter():  # a turn that has room pays no checkpoint
            await self.room.wait()
        try:
            if lane.control or self._stopping:  # it came while this lane waited for room or for silence
                return
            if not lane.rows and lane.turn is None:  # what it was woken for was dropped
                return
            changes = self.failures.changes
            error = await self._try_turn(agent, lane)
        finally:
            self.room.leave()
            self.recovery.tried(lane)
        if error is not None:
            lane.reread()
            await self.failures.failed(agent, lane, error, changes)

    async def _try_turn(self, agent: Agent, lane: Activation) -> DaycareError | None:
        """Run one try of a turn and return why it failed. This is where the failures of a turn end."""
        lane.late_at = trio.current_time() + TURN_DEADLINE_S  # the sweep looks at it: cheaper than a timer per turn
        lane.trying = True
        try:
            await self._turns.take_turn(agent, lane)
        except DaycareError as error:
            return error
        except Exception as error:  # noqa: BLE001 - whatever a tool or plugin raises costs this turn, not the daemon
            return UnavailableError(
                "TURN_CRASHED",
                f"a turn of {agent.path} crashed: {type(error).__name__}: {error}",
                hint="daycare logs",
            )
        finally:
            lane.trying = False
            if lane.cancelled:
                await trio.lowlevel.checkpoint()  # leave the cancelled scope before anything else is begun in it
        return None

    async def _cancelled(self, lane: Activation) -> None:
        """A turn was cancelled: by a person, or because it took too long."""
        agent = await self._agent(lane)
        reason, lane.stop_reason = lane.stop_reason, ""
        if lane.begun:
            return  # it ended in that very moment, and what begins next is not what was meant
        lane.reread()
        if reason and lane.turn is not None:
            await self._endings.stopped(agent, lane, reason)
        elif not reason:
            late = UnavailableError("TURN_LATE", f"a turn of {agent.path} took over {TURN_DEADLINE_S:g} s")
            await self.failures.failed(agent, lane, late)

    async def _collect(self, lane: Activation) -> None:
        """Let a person finish: wait until nothing has come for a moment."""
        deadline = trio.current_time() + COLLECT_MAX_S
        quiet = False
        while not quiet and not lane.control and trio.current_time() < deadline:
            with trio.move_on_after(COLLECT_QUIET_S) as silence:
                await lane.rest()
            quiet = silence.cancelled_caught

    async def _obey(self, agent: Agent, lane: Activation, row: InboxRow) -> bool:
        while True:
            try:
                return await self._control.obey(agent, lane, row)
            except (UnavailableError, BusyError):  # the store refuses for now; the message waits
                await trio.sleep(STORE_RETRY_S)

    def _overtake(self, lane: Activation) -> None:
        """Obey the first command that need not wait for the running turn: `/status` is asked when one takes long."""
        row = next(filter(self._control.may_overtake, lane.control), None)
        if row is not None and lane.beside is None and self._nursery is not None:
            lane.control.remove(row)
            lane.beside = row
            self._nursery.start_soon(self._obey_beside, lane, row)

    async def _obey_beside(self, lane: Activation, row: InboxRow) -> None:
        try:
            await self._obey(await self._agent(lane), lane, row)
        except Exception as error:  # noqa: BLE001 - as in `_live`; the lane tries it once more, in its turn
            self._bus.publish(LaneBroke(at_ms=self._clock.now_ms(), agent_id=lane.agent_id, reason=repr(error)))
            lane.control.append(row)
            lane.beside = None
        else:
            lane.beside = None
            if lane.trying:
                self._overtake(lane)
        lane.nudge()  # it may want to sleep

    def _disturb(self, lane: Activation, row: InboxRow) -> None:
        """A message came during a turn: stop the turn if it says so."""
        envelope = row.envelope
        if envelope.lane is CONTROL:
            word, rest = [*envelope.text.split(maxsplit=1), "", ""][:2]
            stops = word.partition("@")[0] in ("/stop", "/cancel", "/reset", "/new") and not lane.means_another(rest)
            if envelope.kind is EnvelopeKind.DISMISS or (envelope.kind is EnvelopeKind.COMMAND and stops):
                if lane.stop_reason != STOPPED:
                    lane.stopped_at = row.seq  # a second /stop has nothing left to stop
                lane.stop_reason = STOPPED
                lane.cancel()
            else:
                self._overtake(lane)
        elif lane.policy is _INTERRUPT and envelope.kind not in _NO_WORDS:
            lane.stop_reason = INTERRUPTED
            lane.cancel()

    # -- around the lanes --------------------------------------------------------------------------------------------

    async def _wake_backlog(self) -> None:
        """After a start: wake agents with waiting rows, a page at a time, and let each sleep when it is done."""
        await self.recovery.run(self.wake)
        after = ""
        read = self._store.inbox.agents_with_work
        while page := await with_retry(partial(read, after=after, limit=WAKE_PAGE_AGENTS)):
            for agent_id in page:
                while self._busy >= WAKE_PAGE_AGENTS:
                    self._room = trio.Event()
                    await self._room.wait()
                self.wake(agent_id).retiring = True
            after = page[-1]

    async def _sweep(self) -> float:
        if not self.awake:
            return IDLE_S
        self.swept += 1
        self.sleep_idle(self._settings.now.daemon.idle_s)
        self._cancel_late()
        self.failures.forget_old()
        return SWEEP_S

    def _cancel_late(self) -> None:
        now = trio.current_time()
        for lane in self.awake.values():
            if lane.trying and lane.late_at <= now:
                lane.cancel()
