"""The one path of a message, from top to bottom, in ten steps.

     connector / cron / API / another agent
          |  Inbound
     Intake.accept()      1 who, may they, which agent    2 commit it    3 let others hear of it
     Intake.receive()     the same for a batch of a connector, whose cursor is committed with it
          |                                                      == inbox row committed: only now acknowledge ==
     Turns.take_turn()    4 claim and journal             5 end what needs no thought
                          6 hand over what is no model's  7 make the prompt           8 think, with tools
                          9 finish                               == one transaction: history, replies, inbox ==
          |
     Delivery.deliver()  10 outbox row -> connector -> receipt   == receipt committed ==

Each is a list of named steps; each step is one call into the part that knows how.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from daycare.actors.lifecycle import Activation
from daycare.actors.loop_guard import LoopGuard
from daycare.actors.router import Posted, Router
from daycare.agent.admission import Admission, AdmissionEntry
from daycare.agent.dispatch import TurnDispatch
from daycare.agent.endings import Endings
from daycare.agent.journal import TurnJournal
from daycare.agent.kinds import asks_nothing, messages_of, unheard
from daycare.agent.prompting import Prompter
from daycare.agent.sending import DELIVERY_STARTS_MAX, Sending
from daycare.agent.steps import Aside, Thinker, Thought
from daycare.base.clock import Clock
from daycare.base.connector import Inbound, Outcome, Unreadable
from daycare.base.errors import BusyError, DaycareError, InvalidError, NotFoundError, StoreAwayError, UnavailableError
from daycare.base.events import PairingRequested
from daycare.base.limits import BATCH_MAX_ITEMS
from daycare.base.messages import Envelope
from daycare.base.path import FetchPolicy
from daycare.base.roles import of_connector
from daycare.observe.bus import Bus
from daycare.store.records import Agent, InboxRow, OutboxRow, PairingRequest, Policy, Receipt, Taken, Turn, User
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

Hear = Callable[[Envelope, Receipt], None]
# Returns what a turn came to with its reply spoken, where that is wanted; it may take a while, and raises nothing.
Speak = Callable[[Agent, Turn, Thought], Awaitable[Thought]]


@dataclass(frozen=True)
class Intake:
    """The way in. Those in `hearing` are called for each message that was committed."""

    store: Store
    admission: Admission
    router: Router
    bus: Bus
    clock: Clock
    hearing: list[Hear] = field(default_factory=list)
    role_of: Callable[[str], str] = of_connector  # which node may commit the cursor of a connector

    async def accept(self, inbound: Inbound) -> Receipt:
        """Make what somebody said a committed message; when this returns, the platform may be told so.

        Raises `ForbiddenError` for strangers, `InvalidError` for bad input, `BusyError` when the inbox is full.
        """
        began = self.clock.now_ms()
        arrival = await self.admission.admit(inbound)
        receipt = await self.router.post(arrival.envelope, arrival.create, began)
        self._accepted(arrival.envelope, receipt)
        return receipt

    async def accept_all(self, inbound: Inbound) -> list[Posted]:
        """Make what somebody said a committed message to each of their agents; raises as `accept` and the router do."""
        began = self.clock.now_ms()
        arrival = await self.admission.admit(inbound)
        posted = await self.router.post_to_user_agents(FetchPolicy.ALL_OF_USER, arrival.envelope, began)
        for envelope, it in posted:
            if isinstance(it, Receipt):
                self._accepted(envelope, it)
        return posted

    async def receive(self, connector: str, batch: Sequence[Inbound | Unreadable], cursor: str = "") -> list[Outcome]:
        """Make what came over a connector committed messages, together with where to read on; all or nothing.

        Strangers are counted, and shown a code at most. What is wrong with one item keeps no other out.
        """
        if len(batch) > BATCH_MAX_ITEMS:
            raise InvalidError("BATCH_TOO_LONG", f"receiving {len(batch)} items of {connector}: {BATCH_MAX_ITEMS} fit")
        entries: list[AdmissionEntry] = []
        parts: dict[str, User] = {}
        taken: list[Taken] | None = None
        began = self.clock.now_ms()
        try:
            for item in batch:
                entries.append(await self.admission.judge(connector, item, parts))
            rows = [entry.row for entry in entries if entry.row is not None]
            taken = await self.store.intake.take(connector, rows, cursor, self.role_of(connector))
        finally:
            if taken is None:
                self.admission.forgive(connector, entries)
        each = iter(taken)
        return [
            self._outcome(connector, item, entry, next(each) if entry.row is not None else Taken(), began)
            for item, entry in zip(batch, entries, strict=True)
        ]

    def _outcome(
        self, connector: str, item: Inbound | Unreadable, entry: AdmissionEntry, taken: Taken, began: int
    ) -> Outcome:
        """Tell what the commit made of an item; observers hear of messages only now."""
        if taken.stranger or isinstance(entry.row, PairingRequest):
            if taken.show_code and isinstance(entry.row, PairingRequest):
                self.bus.publish(PairingRequested(at_ms=self.clock.now_ms(), key=entry.row.key, name=entry.row.name))
            return Outcome(state="stranger", say=entry.say if taken.show_code else "")
        if taken.receipt is None or taken.envelope is None:
            if isinstance(item, Unreadable):
                return Outcome(state="unreadable")
            if entry.row is None:
                return Outcome(state="limited", say=self.admission.once(item.sender, entry.say))
            sorry = f"I could not take your message: {taken.refused}."
            return Outcome(state="refused", say=self.admission.once(item.sender, sorry))
        if taken.receipt.duplicate:
            self.admission.forgive(connector, [entry])
        self.router.announce(taken.envelope, taken.receipt, began)
        self._accepted(taken.envelope, taken.receipt)
        say = self.admission.once(taken.envelope.reply_target or "", entry.say)
        return Outcome(state="repeated" if taken.receipt.duplicate else "accepted", seq=taken.receipt.seq, say=say)

    def _accepted(self, envelope: Envelope, receipt: Receipt) -> None:
        for hear in self.hearing:
            hear(envelope, receipt)


@dataclass(frozen=True)
class Turns:
    """The turns of agents. How one ends otherwise is in `agent/endings.py`, control messages in `agent/control.py`."""

    journal: TurnJournal
    loop_guard: LoopGuard
    dispatch: TurnDispatch
    prompter: Prompter
    thinker: Thinker
    endings: Endings
    speaking: list[Speak] = field(default_factory=list)

    async def take_turn(self, agent: Agent, lane: Activation) -> None:
        """Take the lane's next turn, or go on with the open one.

        `lane.turn` is set as soon as the turn is journaled. Whatever this raises makes the supervisor try again over
        the journal.
        """
        turn, rows, steps = await self.journal.begin(agent, lane)
        if not rows:
            return  # the open turn was split: its messages come one by one
        if not steps and await self._needs_no_thought(agent, lane, turn, rows):
            return
        self.journal.announce(agent, turn, rows)
        user = await self.journal.person(agent)
        thought = await self.dispatch.take(agent, user, turn, rows, steps)
        if thought is None:
            prompting = await self.prompter.of(agent, user, turn, rows)
            first = turn.attempt == 1 and turn.error is None  # what is added to a turn that fails would fail with it
            steering = lane.steering if lane.policy is Policy.STEER and first else None
            thought = await self.thinker.think(agent, user, turn, rows, steps, prompting, steering)
        if isinstance(thought, Aside):
            await self.endings.set_aside(agent, lane, turn, thought)
            return
        for speak in self.speaking:
            thought = await speak(agent, turn, thought)
        await self.endings.finished(agent, lane, turn, thought)

    async def _needs_no_thought(self, agent: Agent, lane: Activation, turn: Turn, rows: Sequence[InboxRow]) -> bool:
        """End a turn of answers that nobody wants any more, of notes, of what nobody heard, or of a stopped chain."""
        if all(_is_stale(row, turn) for row in rows):
            await self.endings.finished(agent, lane, turn, Thought(rows=tuple(rows), history=(), reply=""))
        elif asks_nothing(rows):
            noted = Thought(rows=tuple(rows), history=tuple(messages_of(rows)), reply="")
            await self.endings.finished(agent, lane, turn, noted)
        elif sorry := unheard(rows):
            await self.endings.unheard(agent, lane, turn, rows, sorry)
        elif reason := self.loop_guard.reason_against(rows):
            await self.endings.refused(agent, lane, turn, reason)
        else:
            return False
        return True


@dataclass(frozen=True)
class Delivery:
    """The way out."""

    store: Store
    sending: Sending

    async def deliver(self, row: OutboxRow) -> float | None:
        """Deliver one part of a reply: journal the try, send, commit the receipt.

        Returns seconds until the next try or part, None when all of it is done with. A try that was journaled and not
        confirmed may have arrived: the next one is marked as a possible duplicate. Raises `StoreAwayError` before that.
        """
        sending = self.sending
        target = await sending.target(row)
        if target is None:
            nowhere = NotFoundError("NO_ADDRESS", f"{row.user} has no address on {row.connector}")
            await sending.give_up(row, nowhere)
            return None
        try:
            if (wait_s := sending.delay_s(row, target)) > 0:
                return wait_s
            part, last = await sending.part(row, target)
        except StoreAwayError:
            raise  # the courier puts it off, and no try is counted
        except (BusyError, UnavailableError) as error:  # one of its files is not to be had: that may pass, or not
            return await sending.unready(row, error)
        except DaycareError as refused:
            await sending.give_up(row, refused)
            return None
        attempt = await with_retry(lambda: self.store.outbox.start(row.seq))
        if attempt == 0:
            return None  # confirmed or given up meanwhile
        if attempt > DELIVERY_STARTS_MAX:
            await sending.cut_short(row, attempt - 1)
            return None
        try:
            receipt = await sending.send(row, part)
        except UnavailableError as error:
            return await sending.try_later(row, attempt, error)
        except BusyError as error:
            return await sending.wait(row, error)
        except DaycareError as refused:
            return await sending.refused(row, refused)
        return await sending.confirm(row, receipt, last=last)


def _is_stale(row: InboxRow, turn: Turn) -> bool:
    """Whether nobody wants this answer: it only says that none came, or belongs to an earlier conversation."""
    it = row.envelope.answers
    return it is not None and (it.late or it.session not in (None, turn.session))
