"""The one path of a message, from top to bottom.

     connector / cron / API / another agent
          |  Inbound
     accept()      who -> may they -> which agent -> post         == inbox row committed: only now acknowledge ==
     receive()     the same for a batch of a connector            == rows and cursor committed together ==
          |
     take_turn()   claim -> journal -> prompt -> think -> finish  == one transaction: history, replies, inbox ==
          |
     deliver()     outbox row -> connector -> receipt             == receipt committed ==

Each function is a list of named steps; each step is a function below it or one call into an engine.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import trio
from msgspec.structs import replace

from daycare.actors.directory import Directory
from daycare.actors.lifecycle import Activation
from daycare.actors.permits import Permits
from daycare.actors.router import Posted, Router
from daycare.actors.storms import Storms
from daycare.agent.arrivals import Arrivals, Entry
from daycare.agent.attachments import Files
from daycare.agent.endings import Endings
from daycare.agent.hooks import Hooks
from daycare.agent.kinds import is_background, is_note, messages_of, route
from daycare.agent.recollection import NOTHING, Recalls, Recollection
from daycare.agent.sections import Prompts
from daycare.agent.steps import Aside, Thinker, Thought
from daycare.agent.takers import Takers
from daycare.base.clock import Clock, TimeLimit
from daycare.base.connector import bring, parts_of
from daycare.base.errors import (
    AwayError,
    BusyError,
    DaycareError,
    InvalidError,
    NotFoundError,
    StoreAwayError,
    UnavailableError,
)
from daycare.base.events import DeliveryFailed, ReplySent, StrangerKnocked, TurnStarted
from daycare.base.limits import (
    ATTEMPTS_MAX,
    BATCH_MAX_ITEMS,
    DELIVERY_ATTEMPTS_MAX,
    DELIVERY_DEADLINE_S,
    RETRY_MAX_S,
    SPLIT_INLINE_MAX_CHARS,
)
from daycare.base.messages import Envelope
from daycare.base.path import Fetch
from daycare.base.permission import READ_MEMORY, Decision
from daycare.observe.about import about, about_row
from daycare.observe.bus import Bus
from daycare.plugin import Connector, Inbound, InferRequest, Outcome, Outgoing, Unreadable
from daycare.store.contract import Store
from daycare.store.records import Agent, InboxRow, Knock, OutboxRow, Policy, Receipt, Step, Taken, Turn, User
from daycare.store.retry import with_retry

T = TypeVar("T")


@dataclass(frozen=True)
class Flow:
    """The path with all it needs."""

    store: Store
    directory: Directory
    router: Router
    thinker: Thinker
    endings: Endings
    prompts: Prompts
    bus: Bus
    clock: Clock
    connectors: Mapping[str, Connector]
    hooks: Hooks
    permits: Permits
    storms: Storms
    arrivals: Arrivals
    files: Files
    recaller: Recalls
    takers: Takers
    outage: TimeLimit  # for which a reply waits for a platform that is away

    # == in ==========================================================================================================

    async def accept(self, inbound: Inbound) -> Receipt:
        """Make what somebody said a committed message; when this returns, the platform may be told so.

        Raises `ForbiddenError` for strangers, `InvalidError` for bad input, `BusyError` when the inbox is full.
        """
        began = self.clock.now_ms()
        arrival = await self.arrivals.admit(inbound)
        receipt = await self.router.post(arrival.envelope, arrival.create, began)
        self._accepted(arrival.envelope, receipt)
        return receipt

    async def accept_all(self, inbound: Inbound) -> list[Posted]:
        """Make what somebody said a committed message to each of their agents; raises as `accept` and the router do."""
        began = self.clock.now_ms()
        arrival = await self.arrivals.admit(inbound)
        posted = await self.router.post_to_user_agents(Fetch.ALL_OF_USER, arrival.envelope, began)
        for envelope, it in posted:
            if isinstance(it, Receipt):
                self._accepted(envelope, it)
        return posted

    def _accepted(self, envelope: Envelope, receipt: Receipt) -> None:
        self.hooks.accepted(envelope, receipt)
        self.recaller.accepted(envelope, receipt)

    async def receive(self, connector: str, batch: Sequence[Inbound | Unreadable], cursor: str = "") -> list[Outcome]:
        """Make what came over a connector committed messages, together with where to read on; all or nothing.

        Strangers are counted, and shown a code at most. What is wrong with one item keeps no other out.
        """
        if len(batch) > BATCH_MAX_ITEMS:
            raise InvalidError("BATCH_TOO_LONG", f"receiving {len(batch)} items of {connector}: {BATCH_MAX_ITEMS} fit")
        entries: list[Entry] = []
        parts: dict[str, User] = {}
        taken: list[Taken] | None = None
        began = self.clock.now_ms()
        try:
            for item in batch:
                entries.append(await self.arrivals.judge(connector, item, parts))
            rows = [entry.row for entry in entries if entry.row is not None]
            taken = await self.store.intake.take(connector, rows, cursor)
        finally:
            if taken is None:
                self.arrivals.forgive(connector, entries)
        each = iter(taken)
        return [
            self._outcome(connector, item, entry, next(each) if entry.row is not None else Taken(), began)
            for item, entry in zip(batch, entries, strict=True)
        ]

    def _outcome(self, connector: str, item: Inbound | Unreadable, entry: Entry, taken: Taken, began: int) -> Outcome:
        """Tell what the commit made of an item; observers hear of messages only now."""
        if taken.stranger or isinstance(entry.row, Knock):
            if taken.show_code and isinstance(entry.row, Knock):
                self.bus.publish(StrangerKnocked(at_ms=self.clock.now_ms(), key=entry.row.key, name=entry.row.name))
            return Outcome(state="stranger", say=entry.say if taken.show_code else "")
        if taken.receipt is None or taken.envelope is None:
            if isinstance(item, Unreadable):
                return Outcome(state="unreadable")
            if entry.row is None:
                return Outcome(state="limited", say=self.arrivals.once(item.sender, entry.say))
            sorry = f"I could not take your message: {taken.refused}."
            return Outcome(state="refused", say=self.arrivals.once(item.sender, sorry))
        if taken.receipt.duplicate:
            self.arrivals.forgive(connector, [entry])
        self.router.announce(taken.envelope, taken.receipt, began)
        self._accepted(taken.envelope, taken.receipt)
        say = self.arrivals.once(taken.envelope.reply_target or "", entry.say)
        return Outcome(state="repeated" if taken.receipt.duplicate else "accepted", seq=taken.receipt.seq, say=say)

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
        if not steps and all(is_note(row) for row in rows):
            noted = Thought(rows=tuple(rows), history=tuple(messages_of(rows)), reply="")
            await self.endings.finished(agent, lane, turn, noted)
            return
        if not steps and (reason := self.storms.reason_against(rows)):
            await self.endings.refused(agent, lane, turn, reason)
            return
        self._announce(agent, turn, rows)
        user = await self._person(agent)
        taken = await self.takers.take(agent, user, turn, rows, steps)
        if taken is not None:
            await self._end(agent, lane, turn, taken)
            return
        told = await self.hooks.before(agent, turn, messages_of(rows))
        first = turn.attempt == 1 and turn.error is None  # what is added to a turn that fails would fail with it
        steering = lane.steering if lane.policy is Policy.STEER and first else None

        async def prompting(rows: Sequence[InboxRow]) -> tuple[InferRequest, Recollection]:
            may = (await self.permits.may(agent.path, READ_MEMORY, agent.path)).decision is Decision.ALLOW
            recalled = await self.recaller.of(agent, user, turn, rows) if may else NOTHING
            prompt = await self.prompts.of(agent, user, turn.session, recalled.blocks, recalled.excerpts)
            return replace(prompt, messages=told), recalled

        thought = await self.thinker.think(agent, user, turn, rows, steps, prompting, steering)
        await self._end(agent, lane, turn, thought)

    async def _end(self, agent: Agent, lane: Activation, turn: Turn, thought: Thought | Aside) -> None:
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
            turn, rows, steps = await self.store.turns.resume(lane.turn.turn, alone=lane.alone)
        lane.drop({row.seq for row in rows})
        if turn.state != "open":
            lane.turn = None
            return turn, [], []
        lane.turn = turn
        if turn.attempt > ATTEMPTS_MAX:
            raise UnavailableError(
                "TURN_POISON", f"the daemon died each time that turn {turn.turn} of {agent.path} alone was at work"
            )
        if turn.attempt > 2 and len(rows) > 1 and not steps:
            await with_retry(lambda: self.store.turns.split(turn))  # perhaps only one of them is bad
            lane.turn = None
            lane.reread()
            return turn, [], []
        return turn, rows, steps

    async def _journaled(
        self, lane: Activation, turn: Turn, rows: list[InboxRow]
    ) -> tuple[Turn, list[InboxRow], list[Step]]:
        """A turn that was set aside brings its rows and its journal along."""
        if not turn.goes_on:
            return turn, rows, []
        turn, rows, steps = await with_retry(lambda: self.store.turns.load(turn.turn))
        lane.drop({row.seq for row in rows})
        return turn, rows, steps

    def _announce(self, agent: Agent, turn: Turn, rows: list[InboxRow]) -> None:
        # What nobody asked for just now is not shown before it is whole: perhaps there is nothing to tell.
        asked = [row for row in rows if not is_background(row)]
        addresses = [route(agent, row.envelope, self.connectors) for row in asked]
        self.bus.publish(
            TurnStarted(
                **about(self.clock, agent, turn.trace),
                turn=turn.turn,
                attempt=turn.attempt,
                messages=len(rows),
                seqs=tuple(row.seq for row in rows),
                traces=tuple(row.envelope.trace for row in rows),
                waits_ms=tuple(self.clock.now_ms() - row.created_at for row in rows),
                answers=tuple(dict.fromkeys(address[0] for address in addresses if address is not None)),
            )
        )

    async def _person(self, agent: Agent) -> User:
        return await self.store.people.get(agent.user) or User(id=agent.user, name=agent.user)

    # == out =========================================================================================================

    async def deliver(self, row: OutboxRow) -> float | None:
        """Deliver one part of a reply: journal the try, send, commit the receipt.

        Returns seconds until the next try or part, None when all of it is done with. A try that was journaled and not
        confirmed may have arrived: the next one is marked as a possible duplicate. Raises `StoreAwayError` before that.
        """
        target = await self._target(row)
        if target is None:
            nowhere = NotFoundError("NO_ADDRESS", f"{row.user} has no address on {row.connector}")
            await self._give_up(row, nowhere)
            return None
        try:
            parts = await self._parts(row, target)
            if (wait_s := self._connector(row, lambda it: it.delay_s(target))) > 0:
                return wait_s
            part = await self.files.loaded(parts[row.parts_sent], row.user)
        except StoreAwayError:
            raise  # the courier puts it off, and no try is counted
        except (BusyError, UnavailableError) as error:  # one of its files is not to be had: that may pass, or not
            return await self._unready(row, error)
        except DaycareError as refused:
            await self._give_up(row, refused)
            return None
        attempt = await with_retry(lambda: self.store.outbox.start(row.seq))
        if attempt == 0:
            return None  # confirmed or given up meanwhile
        try:
            receipt = await self._send(row, part)
        except UnavailableError as error:
            return await self._try_later(row, attempt, error)
        except BusyError as error:
            return await self._wait(row, error)
        except DaycareError as refused:
            await self._give_up(row, refused)
            return None
        done = row.parts_sent + 1
        if done < len(parts):
            await with_retry(lambda: self.store.outbox.part_sent(row.seq, done, receipt))
            return 0.0
        await self._confirm(row, receipt)
        return None

    async def _target(self, row: OutboxRow) -> str | None:
        return row.target if row.target is not None else await self.address(row.user, row.connector)

    async def address(self, user_id: str, connector: str) -> str | None:
        """Return where a user is on a connector, as it is known now."""
        user = await self.store.people.get(user_id)
        prefix = f"{connector}:"
        keys = [key for key in user.keys if key.startswith(prefix)] if user else []
        return keys[0].removeprefix(prefix) if keys else None

    async def _parts(self, row: OutboxRow, target: str) -> Sequence[Outgoing]:
        """Return what goes out, in parts that the platform takes; always the same for the same reply."""
        if row.damaged:
            raise InvalidError("OUTBOX_UNREADABLE", f"reading reply {row.seq}: only its text is left")
        files, missing = await self.files.outgoing(row.files, row.user)
        outgoing = Outgoing(
            outbox=row.seq,
            key=f"{row.agent_id}:{row.seq}",
            path=row.path,
            user=row.user,
            target=target,
            text="\n\n".join((row.text, *(f"[{name} is kept no longer]" for name in missing))),
            files=files,
            choices=row.choices,
            reply_to=row.reply_to,
            silent=row.silent,
            effect=row.effect,
            reaction=row.reaction,
        )
        if len(outgoing.text) > SPLIT_INLINE_MAX_CHARS:
            parts = await trio.to_thread.run_sync(lambda: self._connector(row, lambda it: parts_of(it, outgoing)))
        else:
            parts = self._connector(row, lambda it: parts_of(it, outgoing))
        if row.parts_sent >= len(parts):
            raise InvalidError("PARTS_GONE", f"{row.connector} now makes {len(parts)} parts of reply {row.seq}")
        again = row.state == "sending"
        return [
            replace(part, key=f"{outgoing.key}:{n}" if n else outgoing.key, maybe_duplicate=again)
            for n, part in enumerate(parts)
        ]

    def _connector(self, row: OutboxRow, ask: Callable[[Connector], T]) -> T:
        """Ask a connector for what needs no waiting; what it raises by mistake gives the reply up."""
        try:
            return ask(self.connectors[row.connector])
        except DaycareError:
            raise
        except Exception as defect:
            what = f"{row.connector} crashed: {type(defect).__name__}: {defect}"
            raise InvalidError("CONNECTOR_CRASHED", what, hint="daycare logs") from defect

    async def _send(self, row: OutboxRow, part: Outgoing) -> str:
        deadline_s = DELIVERY_DEADLINE_S + sum(file.travel_s for file in part.files)
        try:
            with trio.fail_after(deadline_s):
                return await bring(self.connectors[row.connector], part)
        except trio.TooSlowError as late:
            raise UnavailableError(
                "DELIVERY_LATE", f"{row.connector} did not answer within {deadline_s:.0f} s"
            ) from late
        except DaycareError:
            raise
        except Exception as defect:
            raise UnavailableError(
                "CONNECTOR_CRASHED", f"{row.connector} crashed: {type(defect).__name__}: {defect}", hint="daycare logs"
            ) from defect

    async def _confirm(self, row: OutboxRow, receipt: str) -> None:
        await with_retry(lambda: self.store.outbox.sent([row.seq], receipt))
        self.bus.publish(
            ReplySent(
                **about_row(self.clock, row),
                outbox=row.seq,
                connector=row.connector,
                waited_ms=self.clock.now_ms() - row.created_at,
            )
        )

    async def _give_up(self, row: OutboxRow, error: DaycareError, *, taken: bool = False) -> None:
        """Give a reply up; `taken`: its last try may have arrived."""
        untouched = row.state != "sending" and not taken
        await with_retry(lambda: self.store.outbox.give_up(row.seq, error.code, error.message, untouched=untouched))

    async def _try_later(self, row: OutboxRow, attempt: int, error: UnavailableError) -> float | None:
        """The platform did not confirm: try again, a few times, or for a day if it is away altogether."""
        now_ms = self.clock.now_ms()
        away = isinstance(error, AwayError)
        taken = not away and error.code != "NOT_SENT"
        if attempt >= DELIVERY_ATTEMPTS_MAX if not away else self.outage.is_over(row.seq, row.created_at):
            await self._give_up(row, error, taken=taken)
            return None
        retry_s = error.retry_after_s or (RETRY_MAX_S / 10 if away else min(2.0**attempt, RETRY_MAX_S))
        retry_at = now_ms + int(retry_s * 1000)
        untouched = row.state != "sending" and not taken
        await with_retry(
            lambda: self.store.outbox.retry(row.seq, error.message, retry_at, untouched=untouched, uncounted=away)
        )
        if row.error != error.message:
            failed = DeliveryFailed(
                **about_row(self.clock, row), outbox=row.seq, connector=row.connector, reason=error.message
            )
            self.bus.publish(failed)
        return retry_s

    async def _unready(self, row: OutboxRow, error: DaycareError) -> float | None:
        """A reply could not even be made ready: that counts as a try, so that it ends where somebody sees it."""
        attempt = await with_retry(lambda: self.store.outbox.start(row.seq))
        if attempt == 0:
            return None
        unsent = UnavailableError("NOT_SENT", error.message, hint=error.hint, retry_after_s=error.retry_after_s)
        return await self._try_later(row, attempt, unsent)

    async def _wait(self, row: OutboxRow, error: BusyError) -> float | None:
        """The platform takes nothing for a while, and surely not this: that costs the reply no try, for a day."""
        if self.outage.is_over(row.seq, row.created_at):
            await self._give_up(row, error)
            return None
        retry_s = error.retry_after_s or 1.0
        retry_at = self.clock.now_ms() + int(retry_s * 1000)
        untouched = row.state != "sending"  # a try before this one may have arrived
        await with_retry(
            lambda: self.store.outbox.retry(row.seq, error.message, retry_at, untouched=untouched, uncounted=True)
        )
        return retry_s


def _is_stale(row: InboxRow, turn: Turn) -> bool:
    """Whether nobody wants this answer: it only says that none came, or belongs to an earlier conversation."""
    it = row.envelope.answers
    return it is not None and (it.late or it.session not in (None, turn.session))
