"""How a turn ends: finished, stopped by a person, given up after its last try. Each ending is one commit."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from msgspec.structs import replace

from daycare.actors.lifecycle import Activation
from daycare.agent.deliveries import Deliveries, goes_elsewhere, is_silent
from daycare.agent.hooks import Hooks
from daycare.agent.kinds import messages_of, route, sender_connector
from daycare.agent.notify import Notifier
from daycare.agent.provenance import Provenance
from daycare.agent.reactions import reactions
from daycare.agent.steps import Aside, Thought, recorded
from daycare.agent.task_endings import cut_short
from daycare.agent.tool_results import answers_among
from daycare.base.bounded import Bounded
from daycare.base.causes import TaskWork
from daycare.base.clock import Clock
from daycare.base.cron import is_silence
from daycare.base.errors import BudgetError, DaycareError, SetupError
from daycare.base.events import TurnFailed, TurnFinished, TurnWaiting
from daycare.base.limits import BUDGET_TOLD_MAX
from daycare.base.messages import Choice, Envelope, EnvelopeKind, Message, Origin, Origins, Text
from daycare.base.path import Kind
from daycare.base.scope import user_in
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.store.records import Agent, InboxRow, Reply, Step, Turn, TurnEnd
from daycare.store.records_conversations import APART
from daycare.store.records_prompts import ShownPrompt
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

RESULT_MAX_CHARS: Final = 16_000  # of a helper's answer: 64 KiB of any script, so that it fits into an inbox


@dataclass(frozen=True)
class Endings:
    """Ends turns; the supervisor calls all but `finished`."""

    store: Store
    notifier: Notifier
    bus: Bus
    clock: Clock
    connectors: Collection[str]
    hooks: Hooks
    deliveries: Deliveries
    provenance: Provenance
    unanswered: Bounded[int, ShownPrompt]  # by turn, what its last call was shown, if that was not answered
    # (agent, why there is no budget)
    told: Bounded[tuple[str, str], None] = field(default_factory=lambda: Bounded(BUDGET_TOLD_MAX))

    async def finished(self, agent: Agent, lane: Activation, turn: Turn, thought: Thought) -> None:
        """Commit what a turn came to, all at once; what waits may begin its own turn in the same commit."""
        following = lane.claim_ahead()
        lane.turn = await self._commit(agent, turn, thought, thought.reply, following)
        lane.begun = following

    async def unheard(self, agent: Agent, lane: Activation, turn: Turn, rows: Sequence[InboxRow], sorry: str) -> None:
        """End a turn of what nobody could hear: `sorry` says why, and what to do."""
        said = Message("assistant", (Text(sorry),), self.clock.now_ms(), Origin.AGENT, agent.path)
        thought = Thought(rows=tuple(rows), history=(*messages_of(rows), said), reply=sorry)
        await self.finished(agent, lane, turn, thought)

    async def set_aside(self, agent: Agent, lane: Activation, turn: Turn, aside: Aside) -> None:
        """Let a turn wait for answers, and free the lane for what comes meanwhile."""
        following = lane.claim_ahead()
        lane.turn = await with_retry(lambda: self.store.turns.set_aside(agent, turn, aside.steps, following))
        lane.begun = following
        self.bus.publish(TurnWaiting(**about(self.clock, agent, turn.trace), turn=turn.turn, answers=len(aside.steps)))

    async def abandon(self, agent: Agent, lane: Activation, reason: str) -> None:
        """End the turns that were set aside: nobody wants their answers any more, not even those that have come."""
        for turn, rows, steps in await with_retry(lambda: self.store.turns.aside(agent.id)):
            lane.drop({row.seq for row in rows})
            thought, text, untold = self._cut_short(agent, lane, rows, steps, reason)
            await self._commit(agent, turn, thought, text, stopped=True, untold=untold)

    async def refused(self, agent: Agent, lane: Activation, turn: Turn, reason: str) -> None:
        """End a turn that is not worth a thought: its messages become dead letters, and only who waits for it hears."""
        await with_retry(lambda: self.store.turns.park(agent, turn, code="STORM_STOPPED", reason=reason))
        lane.turn = None

    async def _commit(
        self,
        agent: Agent,
        turn: Turn,
        thought: Thought,
        text: str,
        following: Sequence[InboxRow] = (),
        *,
        stopped: bool = False,
        untold: Collection[str | None] = (),
    ) -> Turn | None:
        """Commit a turn; the agents that asked for it hear `text`, but for those with the ids `untold`."""
        replies = await self._replies(agent, thought)
        history, origins = await self._spoken(agent, turn, thought)
        deliveries, notes = (
            await with_retry(lambda: self.deliveries.of(agent, turn, thought, origins)) if not stopped else ((), ())
        )
        answers = [
            answer
            for answer in _answers(thought, text, "error" if stopped else "ok", origins)
            if answer.agent_id not in untold
        ]
        end = TurnEnd(
            turn=turn.turn,
            state="stopped" if stopped else "done",
            seqs=tuple(row.seq for row in (*thought.rows, *thought.answers)),
            history=history if turn.session != APART else (),
            result=thought.reply,
            replies=replies,
            deliveries=deliveries,
            effects=replace(thought.effects, posts=(*thought.effects.posts, *answers, *notes)),
            shown=thought.shown or self.unanswered.pop(turn.turn, None),
        )
        begun = await with_retry(lambda: self.store.turns.finish(agent, turn, end, following))
        self._tell_finished(agent, turn, thought, end.seqs, stopped=stopped)
        self.hooks.answered(
            agent, turn, thought.rows, thought.history, thought.reply, usage=thought.usage, stopped=stopped
        )
        return begun

    async def _spoken(self, agent: Agent, turn: Turn, thought: Thought) -> tuple[tuple[Message, ...], Origins]:
        """Return the turn's messages, and where the words of others came from that went into the agent's among them."""
        if not any(message.role == "assistant" for message in thought.history):
            return thought.history, ()
        origins = await with_retry(lambda: self._origins(agent, turn, thought))
        history = (
            replace(message, origins=origins) if message.role == "assistant" else message for message in thought.history
        )
        return tuple(history), origins

    async def _origins(self, agent: Agent, turn: Turn, thought: Thought) -> tuple[Origin, ...]:
        rows: Sequence[InboxRow] = (*thought.rows, *thought.answers)
        steps: Sequence[Step] | None = thought.steps
        if steps is None:
            _, rows, steps = await self.store.turns.load(turn.turn)
        return await self.provenance.of_ended(agent, turn, rows, steps, thought.recalled)

    def _tell_finished(
        self, agent: Agent, turn: Turn, thought: Thought, seqs: tuple[int, ...], *, stopped: bool
    ) -> None:
        self.bus.publish(
            TurnFinished(
                **about(self.clock, agent, turn.trace),
                turn=turn.turn,
                reply=thought.reply,
                seqs=seqs,
                stopped=stopped,
            )
        )

    async def _replies(self, agent: Agent, thought: Thought, choices: tuple[Choice, ...] = ()) -> tuple[Reply, ...]:
        """Where the words go: to whoever asked, once per address, each uncertain effect in a line of its own.

        Files and choices go with the last words, which name the question they answer; a reaction to it goes after
        them, so that no word waits for it.
        """
        said = "" if is_silent(thought) else thought.reply
        texts = [text for text in (said, *thought.warnings) if text]
        choices, files = choices or thought.effects.choices, thought.effects.files
        if not texts and (files or choices):
            texts = [""]
        own = await self.notifier.own_connector(agent) if agent.kind != Kind.CONNECTOR else ""
        questions = {
            address: row.envelope.person.message
            for row in thought.rows
            if not goes_elsewhere(row)
            if (address := route(agent, row.envelope, self.connectors, own)) is not None
        }
        replies = [
            Reply(
                connector=connector,
                target=target,
                text=text,
                reply_to=question,
                spoken=thought.spoken if text == said else None,
            )
            for (connector, target), question in questions.items()
            for text in texts
        ]
        last = len(texts)
        words = (
            replace(reply, choices=choices, files=files) if number % last == 0 else reply
            for number, reply in enumerate(replies, 1)
        )
        return (*words, *reactions(thought.effects.reaction, questions))

    async def stopped(self, agent: Agent, lane: Activation, reason: str) -> None:
        """Commit what a cancelled turn has done, so that the model will know."""
        assert lane.turn is not None
        number = lane.turn.turn
        turn, rows, steps = await with_retry(lambda: self.store.turns.load(number, unread=True))
        if turn.state != "open":
            lane.turn = None
            if turn.state == "parked" and agent.state == "dead":  # with its agent: who shows it at work may stop
                self._tell_finished(agent, turn, Thought(rows=(), history=(), reply=""), turn.seqs, stopped=True)
            return
        lane.drop({row.seq for row in rows})
        thought, text, untold = self._cut_short(agent, lane, rows, steps, reason)
        lane.turn = await self._commit(agent, turn, thought, text, stopped=True, untold=untold)
        lane.begun = []

    def _cut_short(
        self, agent: Agent, lane: Activation, rows: Sequence[InboxRow], steps: Sequence[Step], reason: str
    ) -> tuple[Thought, str, set[str | None]]:
        """Return what a stopped turn came to, and what agents hear that asked for it, but for some: see `cut_short`."""
        thought = recorded(rows, steps, f"[{reason}]", self.clock.now_ms())
        return cut_short(agent, lane.control, thought, reason)

    async def postponed(self, agent: Agent, turn: Turn, error: DaycareError) -> None:
        """Tell the person that the answer waits for a service that is away, or for what somebody has to set right.

        Nobody waits for a memory worker: `daycare memory stats` says what it has not looked at, the log says why.
        """
        if isinstance(error, SetupError):
            await self._needs(agent, turn, error)
            return
        if agent.kind == Kind.MEMORY:
            return
        text = f"I cannot answer for now: {error.message}. What you wrote is kept, and I answer when it is back."
        await self.notifier.notify(agent.user, text, topic=f"postponed:{agent.id}", path=agent.path)

    async def _needs(self, agent: Agent, turn: Turn, error: SetupError) -> None:
        """Say in the conversation what is missing, and to those who can set it right how."""
        operators = await with_retry(self.store.people.operators)
        names = " or ".join(user.name for user in operators) or "an operator"
        mine = agent.user in {user.id for user in operators}
        how = f" {error.hint}." if mine and error.hint else "" if mine else f" I have told {names}."
        kept = "What you wrote is kept, and I answer when this is set right."
        sorry = f"I cannot answer yet: {error.message}.{how} {kept}"
        _, rows, _ = await with_retry(lambda: self.store.turns.load(turn.turn))
        asked = () if agent.kind == Kind.MEMORY else tuple(rows)
        replies = await self._replies(agent, Thought(rows=asked, history=(), reply=sorry))
        for reply in replies:
            await with_retry(lambda reply=reply: self.store.outbox.add(agent, reply, turn.trace))  # type: ignore[misc]
        for user in operators:
            if user.id != agent.user or not replies:
                text = f"{agent.path} cannot work: {error.message}. {error.hint}. What waits for it goes on after that."
                await self.notifier.notify(user.id, text, topic=f"setup:{error.code}", path=agent.path)

    async def give_up(self, agent: Agent, lane: Activation, error: DaycareError) -> None:
        """Park a turn whose tries are used up and tell its senders."""
        assert lane.turn is not None
        number = lane.turn.turn
        turn, rows, steps = await with_retry(lambda: self.store.turns.load(number, unread=True))
        if turn.state != "open":
            lane.turn = None
            return
        sorry = f"I could not answer this: {error.message}. It is kept; `daycare dead list` shows it."
        await self._park(agent, lane, turn, rows, steps, error, sorry)

    async def unaffordable(self, agent: Agent, lane: Activation, error: BudgetError) -> None:
        """End a turn for which there is no budget: what it has done stands, or its messages wait for a second try."""
        assert lane.turn is not None
        number = lane.turn.turn
        turn, rows, steps = await with_retry(lambda: self.store.turns.load(number, unread=True))
        if turn.state != "open":
            lane.turn = None
            return
        self.unanswered.pop(number, None)  # no model was shown it
        sorry = self._no_budget(agent, error)
        if any(step.kind in ("model", "tool") for step in steps):
            lane.drop({row.seq for row in rows})
            thought = recorded(rows, steps, f"[stopped: {error.message}]", self.clock.now_ms())
            sorry += " What I have done so far stands; tell me to go on when I may."
            lane.turn = await self._commit(agent, turn, replace(thought, reply=sorry), error.message, stopped=True)
            lane.begun = []
            return
        self.bus.publish(
            TurnFailed(
                **about(self.clock, agent, turn.trace),
                turn=turn.turn,
                attempt=turn.attempt,
                code=error.code,
                reason=error.message,
                hint=error.hint,
            )
        )
        due = [f"Due now: {row.envelope.text}" for row in rows if _is_reminder(row)]
        await self._park(agent, lane, turn, rows, steps, error, "\n".join([*due, f"{sorry} What came is kept."]))

    def _no_budget(self, agent: Agent, error: BudgetError) -> str:
        """Return what is said of a budget that is used up: all of it the first time, then a short line."""
        key = (agent.id, error.message)
        known = key in self.told
        self.told[key] = None
        return f"{error.brief}." if known else f"{error.message}. {error.hint}"

    async def _park(
        self,
        agent: Agent,
        lane: Activation,
        turn: Turn,
        rows: Sequence[InboxRow],
        steps: Sequence[Step],
        error: DaycareError,
        sorry: str,
    ) -> None:
        answers = answers_among(rows, steps)
        rows = [row for row in rows if row.seq in turn.seqs or row in answers]  # what else was added has its own turn
        again = Choice("Try again", f"/retry turn {turn.turn}")
        thought = recorded(rows, steps, f"[failed: {error.code}]", self.clock.now_ms())
        replies = await self._replies(agent, replace(thought, reply=sorry), (again,))
        history, origins = await self._spoken(agent, turn, thought)
        posts = [
            notice
            for row in thought.rows
            if row.envelope.answer("", "error", ()) is None  # its burial tells
            if sender_connector(row.envelope, self.connectors) is None and row.envelope.origin is Origin.AGENT
            if (notice := self._failure_notice(agent, turn, row, sorry, origins)) is not None
        ]
        await with_retry(
            lambda: self.store.turns.park(
                agent,
                turn,
                code=error.code,
                reason=error.message,
                hint=error.hint,
                history=history if turn.session != APART else (),
                shown=self.unanswered.pop(turn.turn, None),
                replies=replies,
                posts=posts,
                answers=[row.seq for row in answers if row.seq not in turn.seqs],
            )
        )
        lane.drop({row.seq for row in rows})
        lane.turn = None
        if agent.kind == Kind.MEMORY:
            return  # what was said is still there, and is handed off again
        if isinstance(error, BudgetError):
            return  # who answers for the budget was told of it
        if agent.kind == Kind.TASK:
            return  # whoever asked is told how it ended
        if not replies and not posts:  # a reminder of an agent that has no way to people: its owner should know
            text = (
                f"{agent.path} could not finish a turn: {error.message}. `daycare dead list` shows what it was about."
            )
            await self.notifier.notify(agent.user, text, topic=f"failed:{agent.id}", path=agent.path)

    def _failure_notice(self, agent: Agent, turn: Turn, row: InboxRow, text: str, origins: Origins) -> Envelope | None:
        if row.envelope.kind is EnvelopeKind.NOTICE:
            return None  # a failure about a failure would go back and forth
        return Envelope(
            to=row.envelope.sender,
            user=user_in(row.envelope.sender, agent.user),
            origin=Origin.SYSTEM,
            sender=agent.path,
            via=(*row.envelope.via, agent.path),
            key=f"failed:{turn.turn}:{row.seq}",
            text=text,
            trace=row.envelope.trace,
            kind=EnvelopeKind.NOTICE,
            origins=origins,
        )

    async def parked(self, agent: Agent, reason: str) -> None:
        """Tell whoever is responsible that an agent takes no more turns."""
        text = f"{agent.path} was parked: {reason}. `daycare agents unpark {agent.path}` lets it work again."
        await self.notifier.notify(agent.user, text, topic=f"parked:{agent.id}", path=agent.path)


def _is_reminder(row: InboxRow) -> bool:
    """Return whether a row says what somebody wanted to be told at this time."""
    return row.envelope.origin is Origin.TIMER and row.envelope.kind is not EnvelopeKind.RESULT


def _answers(thought: Thought, text: str, status: Literal["ok", "error"], origins: Origins) -> list[Envelope]:
    """Return what the agents get that asked for this."""
    if len(text) > RESULT_MAX_CHARS:
        text = f"{text[:RESULT_MAX_CHARS]}\n[cut: {len(text)} characters in all]"
    silent = status == "ok" and is_silence(text)
    found = []
    for row in thought.rows:
        said = text or "[no words]"
        if silent and isinstance(work := row.envelope.cause, TaskWork):
            if not work.waits:
                continue
            said = "[nothing to tell]"
        found.append(row.envelope.answer(said, status, origins, thought.told))
    return [answer for answer in found if answer is not None]
