"""The one path of a message, from top to bottom.

     connector / cron / API / another agent
          |  Inbound
     accept()      who -> may they -> which agent -> post         == inbox row committed: only now acknowledge ==
          |
     take_turn()   claim -> journal -> prompt -> think -> finish  == one transaction: history, replies, inbox ==
          |
     deliver()     outbox row -> connector -> receipt             == receipt committed ==

Each function is a list of named steps; each step is a function below it or one call into an engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.lifecycle import Activation
from daycare.actors.router import Router
from daycare.agent.commands import Answer, Commands, is_command
from daycare.agent.kinds import route, sender_connector
from daycare.agent.notify import Notifier
from daycare.agent.patience import patiently
from daycare.agent.prompt import Persona, assemble
from daycare.agent.steps import Thinker, Thought, recorded
from daycare.base.clock import Clock
from daycare.base.errors import DaycareError, ForbiddenError, InvalidError, UnavailableError
from daycare.base.events import AgentDied, DeliveryFailed, ReplySent, TurnFinished, TurnStarted
from daycare.base.ids import new_trace_id
from daycare.base.limits import ATTEMPTS_MAX, DELIVERY_ATTEMPTS_MAX, DELIVERY_DEADLINE_S, HISTORY_MAX_MESSAGES
from daycare.base.messages import Envelope, EnvelopeKind, Lane, Origin
from daycare.base.path import Path
from daycare.observe.bus import Bus
from daycare.plugin import Connector, Inbound, Outgoing
from daycare.store.contract import Store
from daycare.store.records import Agent, InboxRow, OutboxRow, Policy, Receipt, Reply, Step, Turn, TurnEnd, User


@dataclass(frozen=True)
class Flow:
    """The path with all it needs. Implements the supervisor's `TurnTaker`."""

    store: Store
    directory: Directory
    router: Router
    thinker: Thinker
    commands: Commands
    persona: Persona
    notifier: Notifier
    bus: Bus
    clock: Clock
    connectors: Mapping[str, Connector]

    # == in ==========================================================================================================

    async def accept(self, inbound: Inbound) -> Receipt:
        """Make what somebody said a committed message; when this returns, the platform may be told so.

        Raises `ForbiddenError` for strangers, `InvalidError` for bad input, `BusyError` when the inbox is full.
        """
        user = await self._who(inbound)
        path = await self._which_agent(user, inbound)
        envelope = self._envelope(user, path, inbound)
        create = self.directory.new(path, origin=inbound.origin) if path.is_foreground else None
        return await self.router.post(envelope, create)

    async def _who(self, inbound: Inbound) -> User:
        user = await self.store.people.by_key(inbound.sender)
        if user is None:
            raise ForbiddenError(
                "STRANGER",
                f"accepting a message from {inbound.sender}: nobody here has that address",
                hint=f"daycare users link USER {inbound.sender}",
            )
        return user

    async def _which_agent(self, user: User, inbound: Inbound) -> Path:
        if not inbound.path:
            return Path.connector(user.id, inbound.connector)
        path = self.directory.parse(inbound.path)
        if path.user != user.id:
            raise ForbiddenError(
                "OTHER_USER", f"posting to {path}: it belongs to another user", hint="only agents of one's own answer"
            )
        return path

    def _envelope(self, user: User, path: Path, inbound: Inbound) -> Envelope:
        text = inbound.text.replace("\x00", "")
        if not text.strip():
            raise InvalidError("MESSAGE_EMPTY", f"posting to {path}: there is no text", hint="say something")
        command = is_command(text)
        return Envelope(
            to=str(path),
            user=user.id,
            origin=inbound.origin,
            sender=inbound.sender,
            key=inbound.key,
            text=text,
            trace=new_trace_id(),
            kind=EnvelopeKind.COMMAND if command else EnvelopeKind.TEXT,
            lane=Lane.CONTROL if command else Lane.MESSAGES,
            reply_target=inbound.reply_target,
            meta=dict(inbound.meta),
        )

    # == turn ========================================================================================================

    async def take(self, agent: Agent, lane: Activation) -> None:
        """Take the lane's next turn, or go on with the open one. See `take_turn` in the picture above."""
        turn, rows, steps = await self._journal_start(agent, lane)
        if not rows:
            return  # the open turn was split: its messages come one by one
        self._announce(agent, turn, rows)
        user = await self._person(agent)
        history = await self.store.turns.history(agent.id, turn.session, HISTORY_MAX_MESSAGES)
        prompt = assemble(self.persona, agent, user, history)
        steering = lane.steering if lane.policy is Policy.STEER else None
        thought = await self.thinker.think(agent, user, turn, rows, steps, prompt, steering)
        await self._finish(agent, lane, turn, thought)

    async def _journal_start(self, agent: Agent, lane: Activation) -> tuple[Turn, list[InboxRow], list[Step]]:
        if lane.begun and lane.turn is not None:
            rows, lane.begun = lane.begun, []
            return lane.turn, rows, []
        if lane.turn is None:
            rows = lane.claim()
            try:
                with trio.CancelScope(shield=True):  # a cancelled caller would not know whether the turn exists
                    lane.turn = await self.store.turns.begin(agent, rows)
            finally:
                if lane.turn is None:
                    lane.unclaim(rows)
            assert lane.turn is not None
            return lane.turn, rows, []
        with trio.CancelScope(shield=True):
            turn, rows, steps = await self.store.turns.resume(lane.turn.turn)
        lane.drop({row.seq for row in rows})
        if turn.state != "open":
            lane.turn = None
            return turn, [], []
        lane.turn = turn
        if turn.attempt > ATTEMPTS_MAX:
            raise UnavailableError(
                "TURN_POISON", f"turn {turn.turn} of {agent.path} was interrupted {turn.attempt - 1} times by crashes"
            )
        if turn.attempt > 2 and len(rows) > 1 and not steps:
            await patiently(lambda: self.store.turns.split(turn))  # perhaps only one of them is bad
            lane.turn = None
            lane.behind, lane.loaded, lane.rows = True, 0, []
            return turn, [], []
        return turn, rows, steps

    def _announce(self, agent: Agent, turn: Turn, rows: list[InboxRow]) -> None:
        self.bus.publish(
            TurnStarted(
                at_ms=self.clock.now_ms(),
                path=agent.path,
                user=agent.user,
                agent_id=agent.id,
                trace=turn.trace,
                turn=turn.turn,
                attempt=turn.attempt,
                messages=len(rows),
            )
        )

    async def _person(self, agent: Agent) -> User:
        return await self.store.people.get(agent.user) or User(id=agent.user, name=agent.user)

    async def _finish(
        self, agent: Agent, lane: Activation, turn: Turn, thought: Thought, *, stopped: bool = False
    ) -> None:
        replies = await self._replies(agent, thought)
        end = TurnEnd(
            turn=turn.turn,
            state="stopped" if stopped else "done",
            seqs=tuple(row.seq for row in thought.rows),
            history=thought.history,
            result=thought.reply,
            replies=replies,
            effects=thought.effects,
        )
        following = [] if stopped else lane.claim_ahead()
        lane.turn = await patiently(lambda: self.store.turns.finish(agent, turn, end, thought.spend, following))
        lane.begun = following
        self.bus.publish(
            TurnFinished(
                at_ms=self.clock.now_ms(),
                path=agent.path,
                user=agent.user,
                agent_id=agent.id,
                trace=turn.trace,
                turn=turn.turn,
                reply=thought.reply,
                seqs=end.seqs,
                stopped=stopped,
            )
        )

    async def _replies(self, agent: Agent, thought: Thought) -> tuple[Reply, ...]:
        """Where the words go: to whoever asked, once per address, each uncertain effect in a line of its own."""
        texts = [text for text in (thought.reply, *thought.warnings) if text]
        addresses = {
            address: None
            for row in thought.rows
            if (address := route(agent, row.envelope, self.connectors)) is not None
        }
        return tuple(
            Reply(connector=connector, target=target, text=text) for connector, target in addresses for text in texts
        )

    async def stopped(self, agent: Agent, lane: Activation, reason: str) -> None:
        """Commit what a cancelled turn has done, so that the model will know; part of `TurnTaker`."""
        assert lane.turn is not None
        turn, rows, steps = await patiently(lambda: self.store.turns.load(lane.turn.turn))  # type: ignore[union-attr]
        if turn.state != "open":
            lane.turn = None
            return
        lane.drop({row.seq for row in rows})
        thought = recorded(rows, steps, f"[{reason}]", self.clock.now_ms())
        await self._finish(agent, lane, turn, thought, stopped=True)

    async def give_up(self, agent: Agent, lane: Activation, error: DaycareError) -> None:
        """Park a turn whose tries are used up and tell its senders; part of `TurnTaker`."""
        assert lane.turn is not None
        number = lane.turn.turn
        turn, rows, steps = await patiently(lambda: self.store.turns.load(number))
        if turn.state != "open":
            lane.turn = None
            return
        sorry = f"I could not answer this: {error.message}. It is kept; `daycare dead list` shows it."
        thought = recorded(rows, steps, f"[failed: {error.code}]", self.clock.now_ms())
        replies = await self._replies(agent, replace_reply(thought, sorry))
        posts = [
            self._failure_notice(agent, turn, row, sorry)
            for row in rows
            if sender_connector(row.envelope, self.connectors) is None and row.envelope.origin is Origin.AGENT
        ]
        await patiently(
            lambda: self.store.turns.park(
                agent,
                turn,
                code=error.code,
                reason=error.message,
                history=thought.history,
                replies=replies,
                posts=[post for post in posts if post is not None],
            )
        )
        lane.drop({row.seq for row in rows})
        lane.turn = None

    def _failure_notice(self, agent: Agent, turn: Turn, row: InboxRow, text: str) -> Envelope | None:
        if row.envelope.kind is EnvelopeKind.NOTICE:
            return None  # a failure about a failure would go back and forth
        return Envelope(
            to=row.envelope.sender,
            user=agent.user,
            origin=Origin.SYSTEM,
            sender=agent.path,
            key=f"failed:{turn.turn}:{row.seq}",
            text=text,
            trace=row.envelope.trace,
            kind=EnvelopeKind.NOTICE,
        )

    async def parked(self, agent: Agent, reason: str) -> None:
        """Tell whoever is responsible that an agent takes no more turns; part of `TurnTaker`."""
        text = f"{agent.path} was parked: {reason}. `daycare agents unpark {agent.path}` lets it work again."
        await self.notifier.notify(agent.user, text, topic=f"parked:{agent.id}", path=agent.path)

    # == control =====================================================================================================

    async def obey(self, agent: Agent, lane: Activation, row: InboxRow) -> bool:
        """Carry out one control message; part of `TurnTaker`."""
        if row.envelope.kind is EnvelopeKind.DISMISS:
            await self._die(agent, row)
            return False
        answer = await self._command(agent, lane, row)
        if answer.stops and lane.turn is not None and not lane.begun:
            await self.stopped(agent, lane, "stopped")
        address = route(agent, row.envelope, self.connectors)
        replies = [Reply(connector=address[0], target=address[1], text=answer.text)] if address and answer.text else []
        await self.store.inbox.conclude(agent, row, answer.text, replies=replies, new_session=answer.new_session)
        return True

    async def _command(self, agent: Agent, lane: Activation, row: InboxRow) -> Answer:
        """Run a command; one that fails says so and is over, as it would stand before every later message."""
        try:
            return await self.commands.run(agent, lane, row)
        except DaycareError as error:
            return Answer(str(error))
        except Exception as error:  # noqa: BLE001 - a plugin's command must not hold up the lane
            return Answer(f"{row.envelope.text.split(maxsplit=1)[0]} failed: {type(error).__name__}: {error}")

    async def _die(self, agent: Agent, row: InboxRow) -> None:
        parent = await self.directory.get(agent.parent) if agent.parent else None
        if parent is not None and parent.state != "dead":
            await self.router.post(
                Envelope(
                    to=parent.path,
                    agent_id=parent.id,
                    user=agent.user,
                    origin=Origin.AGENT,
                    sender=agent.path,
                    key=f"last-word:{agent.id}",
                    text=f"{agent.path} has ended: {row.envelope.text or 'dismissed'}",
                    trace=row.envelope.trace,
                    kind=EnvelopeKind.NOTICE,
                )
            )
        await self.store.inbox.conclude(agent, row, "dismissed")
        await self.store.agents.set_state(agent.id, "dead", row.envelope.text or "dismissed")
        self.bus.publish(
            AgentDied(
                at_ms=self.clock.now_ms(),
                path=agent.path,
                user=agent.user,
                agent_id=agent.id,
                reason=row.envelope.text or "dismissed",
            )
        )

    # == out =========================================================================================================

    async def deliver(self, row: OutboxRow) -> float | None:
        """Deliver one reply: journal the try, send, commit the receipt. Returns seconds until the next try, or None.

        A try that was journaled and not confirmed may have arrived: the next one is marked as a possible duplicate.
        """
        target = await self._target(row)
        if target is None:
            await patiently(
                lambda: self.store.outbox.give_up(
                    row.seq, "NO_ADDRESS", f"{row.user} has no address on {row.connector}"
                )
            )
            return None
        attempt = await patiently(lambda: self.store.outbox.start(row.seq))
        if attempt == 0:
            return None  # confirmed or given up meanwhile
        outgoing = Outgoing(
            outbox=row.seq,
            key=f"{row.agent_id}:{row.seq}",
            path=row.path,
            user=row.user,
            target=target,
            text=row.text,
            maybe_duplicate=row.state == "sending",
        )
        try:
            with trio.fail_after(DELIVERY_DEADLINE_S):
                receipt = await self.connectors[row.connector].send(outgoing)
        except UnavailableError as error:
            return await self._delivery_failed(row, attempt, error)
        except trio.TooSlowError:
            late = UnavailableError("DELIVERY_LATE", f"{row.connector} did not answer within {DELIVERY_DEADLINE_S:g} s")
            return await self._delivery_failed(row, attempt, late)
        except DaycareError as refused:
            code, reason = refused.code, refused.message
            await patiently(lambda: self.store.outbox.give_up(row.seq, code, reason))
            return None
        except Exception as defect:  # noqa: BLE001 - a plugin's defect costs this try, not the daemon
            crash = UnavailableError(
                "CONNECTOR_CRASHED", f"{row.connector} crashed: {type(defect).__name__}: {defect}", hint="daycare logs"
            )
            return await self._delivery_failed(row, attempt, crash)
        await patiently(lambda: self.store.outbox.sent([row.seq], receipt))
        self.bus.publish(
            ReplySent(
                at_ms=self.clock.now_ms(),
                path=row.path,
                user=row.user,
                agent_id=row.agent_id,
                trace=row.trace,
                outbox=row.seq,
                connector=row.connector,
            )
        )
        return None

    async def _target(self, row: OutboxRow) -> str | None:
        if row.target is not None:
            return row.target
        user = await self.store.people.get(row.user)
        prefix = f"{row.connector}:"
        keys = [key for key in user.keys if key.startswith(prefix)] if user else []
        return keys[0].removeprefix(prefix) if keys else None

    async def _delivery_failed(self, row: OutboxRow, attempt: int, error: UnavailableError) -> float | None:
        if attempt >= DELIVERY_ATTEMPTS_MAX:
            await patiently(lambda: self.store.outbox.give_up(row.seq, error.code, error.message))
            return None
        retry_s = error.retry_after_s or min(2.0**attempt, 300.0)
        retry_at = self.clock.now_ms() + int(retry_s * 1000)
        await patiently(
            lambda: self.store.outbox.retry(row.seq, error.message, retry_at, untouched=error.code == "NOT_SENT")
        )
        self.bus.publish(
            DeliveryFailed(
                at_ms=self.clock.now_ms(),
                path=row.path,
                user=row.user,
                agent_id=row.agent_id,
                trace=row.trace,
                outbox=row.seq,
                connector=row.connector,
                reason=error.message,
            )
        )
        return retry_s


def replace_reply(thought: Thought, reply: str) -> Thought:
    """Return the same thought with other words to the sender."""
    return replace(thought, reply=reply)
