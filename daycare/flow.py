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
from daycare.agent.attachments import keep
from daycare.agent.commands import is_command
from daycare.agent.endings import Endings
from daycare.agent.hooks import Hooks
from daycare.agent.kinds import message_of
from daycare.agent.patience import patiently
from daycare.agent.prompt import Persona, assemble
from daycare.agent.steps import Aside, Thinker, Thought
from daycare.base.clock import Clock
from daycare.base.errors import DaycareError, ForbiddenError, InvalidError, NotFoundError, UnavailableError
from daycare.base.events import DeliveryFailed, ReplySent, TurnStarted
from daycare.base.ids import new_trace_id
from daycare.base.limits import ATTEMPTS_MAX, DELIVERY_ATTEMPTS_MAX, DELIVERY_DEADLINE_S
from daycare.base.messages import Envelope, EnvelopeKind, File, Lane
from daycare.base.path import Path
from daycare.observe.about import about, about_row
from daycare.observe.bus import Bus
from daycare.plugin import Connector, Inbound, Outgoing
from daycare.store.contract import Store
from daycare.store.records import Agent, InboxRow, OutboxRow, Policy, Receipt, Step, Turn, User


@dataclass(frozen=True)
class Flow:
    """The path with all it needs."""

    store: Store
    directory: Directory
    router: Router
    thinker: Thinker
    endings: Endings
    persona: Persona
    bus: Bus
    clock: Clock
    connectors: Mapping[str, Connector]
    hooks: Hooks

    # == in ==========================================================================================================

    async def accept(self, inbound: Inbound) -> Receipt:
        """Make what somebody said a committed message; when this returns, the platform may be told so.

        Raises `ForbiddenError` for strangers, `InvalidError` for bad input, `BusyError` when the inbox is full.
        """
        user = await self._who(inbound)
        path = await self._which_agent(user, inbound)
        files = await keep(self.store, user.id, inbound)
        envelope = self._envelope(user, path, inbound, files)
        create = self.directory.new(path, origin=inbound.origin) if path.is_foreground else None
        receipt = await self.router.post(envelope, create)
        self.hooks.accepted(envelope, receipt)
        return receipt

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

    def _envelope(self, user: User, path: Path, inbound: Inbound, files: tuple[File, ...]) -> Envelope:
        text = inbound.text.replace("\x00", "")
        if not text.strip() and not files:
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
            files=files,
            reply_target=inbound.reply_target,
            meta=dict(inbound.meta),
        )

    # == turn ========================================================================================================

    async def take_turn(self, agent: Agent, lane: Activation) -> None:
        """Take the lane's next turn, or go on with the open one.

        `lane.turn` is set as soon as the turn is journaled. Whatever this raises makes the supervisor try again over
        the journal; how a turn ends otherwise is in `agent/endings.py`, control messages are in `agent/control.py`.
        """
        turn, rows, steps = await self._journal_start(agent, lane)
        if not rows:
            return  # the open turn was split: its messages come one by one
        if not steps and all(_is_stale(row, turn) for row in rows):
            await self.endings.finished(agent, lane, turn, Thought(rows=tuple(rows), history=(), reply=""))
            return
        self._announce(agent, turn, rows)
        user = await self._person(agent)
        told = await self.hooks.before(agent, turn, [message_of(row) for row in rows])
        prompt = replace(assemble(self.persona, agent, user), messages=told)
        steering = lane.steering if lane.policy is Policy.STEER else None
        thought = await self.thinker.think(agent, user, turn, rows, steps, prompt, steering)
        if isinstance(thought, Aside):
            await self.endings.set_aside(agent, lane, turn, thought)
        else:
            await self.endings.finished(agent, lane, turn, thought)

    async def _journal_start(self, agent: Agent, lane: Activation) -> tuple[Turn, list[InboxRow], list[Step]]:
        if lane.begun and lane.turn is not None:
            rows, lane.begun = lane.begun, []
            return await self._journaled(lane, lane.turn, rows)
        if lane.turn is None:
            rows = lane.claim()
            try:
                with trio.CancelScope(shield=True):  # a cancelled caller would not know whether the turn exists
                    lane.turn = await self.store.turns.begin(agent, rows)
            finally:
                if lane.turn is None:
                    lane.unclaim(rows)
            assert lane.turn is not None
            return await self._journaled(lane, lane.turn, rows)
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

    async def _journaled(
        self, lane: Activation, turn: Turn, rows: list[InboxRow]
    ) -> tuple[Turn, list[InboxRow], list[Step]]:
        """A turn that was set aside brings its rows and its journal along."""
        if not turn.goes_on:
            return turn, rows, []
        turn, rows, steps = await patiently(lambda: self.store.turns.load(turn.turn))
        lane.drop({row.seq for row in rows})
        return turn, rows, steps

    def _announce(self, agent: Agent, turn: Turn, rows: list[InboxRow]) -> None:
        self.bus.publish(
            TurnStarted(
                **about(self.clock, agent, turn.trace),
                turn=turn.turn,
                attempt=turn.attempt,
                messages=len(rows),
            )
        )

    async def _person(self, agent: Agent) -> User:
        return await self.store.people.get(agent.user) or User(id=agent.user, name=agent.user)

    # == out =========================================================================================================

    async def deliver(self, row: OutboxRow) -> float | None:
        """Deliver one reply: journal the try, send, commit the receipt. Returns seconds until the next try, or None.

        A try that was journaled and not confirmed may have arrived: the next one is marked as a possible duplicate.
        """
        target = await self._target(row)
        if target is None:
            nowhere = NotFoundError("NO_ADDRESS", f"{row.user} has no address on {row.connector}")
            await self._give_up(row, nowhere)
            return None
        attempt = await patiently(lambda: self.store.outbox.start(row.seq))
        if attempt == 0:
            return None  # confirmed or given up meanwhile
        try:
            receipt = await self._send(row, target)
        except UnavailableError as error:
            return await self._try_later(row, attempt, error)
        except DaycareError as refused:
            await self._give_up(row, refused)
            return None
        await self._confirm(row, receipt)
        return None

    async def _target(self, row: OutboxRow) -> str | None:
        if row.target is not None:
            return row.target
        user = await self.store.people.get(row.user)
        prefix = f"{row.connector}:"
        keys = [key for key in user.keys if key.startswith(prefix)] if user else []
        return keys[0].removeprefix(prefix) if keys else None

    async def _send(self, row: OutboxRow, target: str) -> str:
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
                return await self.connectors[row.connector].send(outgoing)
        except trio.TooSlowError as late:
            raise UnavailableError(
                "DELIVERY_LATE", f"{row.connector} did not answer within {DELIVERY_DEADLINE_S:g} s"
            ) from late
        except DaycareError:
            raise
        except Exception as defect:
            raise UnavailableError(
                "CONNECTOR_CRASHED", f"{row.connector} crashed: {type(defect).__name__}: {defect}", hint="daycare logs"
            ) from defect

    async def _confirm(self, row: OutboxRow, receipt: str) -> None:
        await patiently(lambda: self.store.outbox.sent([row.seq], receipt))
        self.bus.publish(
            ReplySent(
                **about_row(self.clock, row),
                outbox=row.seq,
                connector=row.connector,
            )
        )

    async def _give_up(self, row: OutboxRow, error: DaycareError) -> None:
        await patiently(lambda: self.store.outbox.give_up(row.seq, error.code, error.message))

    async def _try_later(self, row: OutboxRow, attempt: int, error: UnavailableError) -> float | None:
        if attempt >= DELIVERY_ATTEMPTS_MAX:
            await self._give_up(row, error)
            return None
        retry_s = error.retry_after_s or min(2.0**attempt, 300.0)
        retry_at = self.clock.now_ms() + int(retry_s * 1000)
        await patiently(
            lambda: self.store.outbox.retry(row.seq, error.message, retry_at, untouched=error.code == "NOT_SENT")
        )
        self.bus.publish(
            DeliveryFailed(
                **about_row(self.clock, row),
                outbox=row.seq,
                connector=row.connector,
                reason=error.message,
            )
        )
        return retry_s


def _is_stale(row: InboxRow, turn: Turn) -> bool:
    """Whether nobody wants this answer: it only says that none came, or belongs to an earlier conversation."""
    envelope = row.envelope
    earlier = envelope.meta.get("session", "") not in ("", str(turn.session))
    return envelope.kind is EnvelopeKind.RESULT and ("late" in envelope.meta or earlier)
