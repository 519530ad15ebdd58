"""How a turn ends: finished, stopped by a person, given up after its last try. Each ending is one commit."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from daycare.actors.lifecycle import Activation
from daycare.agent.hooks import Hooks
from daycare.agent.kinds import route, sender_connector
from daycare.agent.notify import Notifier
from daycare.agent.patience import patiently
from daycare.agent.steps import Aside, Thought, recorded
from daycare.base.clock import Clock
from daycare.base.errors import DaycareError
from daycare.base.events import TurnFinished, TurnWaiting
from daycare.base.limits import RESULT_MAX_CHARS
from daycare.base.messages import Choice, Envelope, EnvelopeKind, Origin
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.store.contract import Store
from daycare.store.records import Agent, InboxRow, Reply, Turn, TurnEnd


@dataclass(frozen=True)
class Endings:
    """Ends turns; the supervisor calls all but `finished`."""

    store: Store
    notifier: Notifier
    bus: Bus
    clock: Clock
    connectors: Collection[str]
    hooks: Hooks

    async def finished(self, agent: Agent, lane: Activation, turn: Turn, thought: Thought) -> None:
        """Commit what a turn came to, all at once; what waits may begin its own turn in the same commit."""
        following = lane.claim_ahead()
        lane.turn = await self._commit(agent, turn, thought, _answers(thought, thought.reply, "ok"), following)
        lane.begun = following

    async def set_aside(self, agent: Agent, lane: Activation, turn: Turn, aside: Aside) -> None:
        """Let a turn wait for answers, and free the lane for what comes meanwhile."""
        following = lane.claim_ahead()
        lane.turn = await patiently(lambda: self.store.turns.set_aside(agent, turn, aside.steps, following))
        lane.begun = following
        self.bus.publish(TurnWaiting(**about(self.clock, agent, turn.trace), turn=turn.turn, answers=len(aside.steps)))

    async def abandon(self, agent: Agent, lane: Activation, reason: str) -> None:
        """End the turns that were set aside: nobody wants their answers any more, not even those that have come."""
        for turn, rows, steps in await patiently(lambda: self.store.turns.aside(agent.id)):
            lane.drop({row.seq for row in rows})
            thought = recorded(rows, steps, f"[{reason}]", self.clock.now_ms())
            await self._commit(agent, turn, thought, _answers(thought, reason, "error"), stopped=True)

    async def _commit(
        self,
        agent: Agent,
        turn: Turn,
        thought: Thought,
        answers: list[Envelope],
        following: Sequence[InboxRow] = (),
        *,
        stopped: bool = False,
    ) -> Turn | None:
        replies = await self._replies(agent, thought)
        end = TurnEnd(
            turn=turn.turn,
            state="stopped" if stopped else "done",
            seqs=tuple(row.seq for row in (*thought.rows, *thought.answers)),
            history=thought.history,
            result=thought.reply,
            replies=replies,
            effects=replace(thought.effects, posts=(*thought.effects.posts, *answers)),
        )
        begun = await patiently(lambda: self.store.turns.finish(agent, turn, end, thought.spend, following))
        self.bus.publish(
            TurnFinished(
                **about(self.clock, agent, turn.trace),
                turn=turn.turn,
                reply=thought.reply,
                seqs=end.seqs,
                stopped=stopped,
            )
        )
        self.hooks.answered(
            agent, turn, thought.rows, thought.history, thought.reply, usage=thought.usage, stopped=stopped
        )
        return begun

    async def _replies(self, agent: Agent, thought: Thought, choices: tuple[Choice, ...] = ()) -> tuple[Reply, ...]:
        """Where the words go: to whoever asked, once per address, each uncertain effect in a line of its own.

        Files and choices go with the last words, which name the question they answer.
        """
        texts = [text for text in (thought.reply, *thought.warnings) if text]
        choices, files = choices or thought.effects.choices, thought.effects.files
        if not texts and (files or choices):
            texts = [""]
        questions = {
            address: row.envelope.meta.get("message", "")
            for row in thought.rows
            if (address := route(agent, row.envelope, self.connectors)) is not None
        }
        replies = [
            Reply(connector=connector, target=target, text=text, reply_to=question)
            for (connector, target), question in questions.items()
            for text in texts
        ]
        last = len(texts)
        return tuple(
            replace(reply, choices=choices, files=files) if number % last == 0 else reply
            for number, reply in enumerate(replies, 1)
        )

    async def stopped(self, agent: Agent, lane: Activation, reason: str) -> None:
        """Commit what a cancelled turn has done, so that the model will know."""
        assert lane.turn is not None
        turn, rows, steps = await patiently(lambda: self.store.turns.load(lane.turn.turn))  # type: ignore[union-attr]
        if turn.state != "open":
            lane.turn = None
            return
        lane.drop({row.seq for row in rows})
        thought = recorded(rows, steps, f"[{reason}]", self.clock.now_ms())
        parent = agent.path.rsplit("/", 2)[0]
        by_parent = any(
            row.envelope.kind is EnvelopeKind.DISMISS and row.envelope.sender == parent for row in lane.control
        )
        answers = _answers(thought, reason, "error")
        if by_parent:  # it does not want to hear what it has said itself
            answers = [answer for answer in answers if answer.agent_id != agent.parent]
        lane.turn = await self._commit(agent, turn, thought, answers, stopped=True)
        lane.begun = []

    async def postponed(self, agent: Agent, error: DaycareError) -> None:
        """Tell the person that the answer waits for a service that is away."""
        text = f"I cannot answer for now: {error.message}. What you wrote is kept, and I answer when it is back."
        await self.notifier.notify(agent.user, text, topic=f"postponed:{agent.id}", path=agent.path)

    async def give_up(self, agent: Agent, lane: Activation, error: DaycareError) -> None:
        """Park a turn whose tries are used up and tell its senders."""
        assert lane.turn is not None
        number = lane.turn.turn
        turn, rows, steps = await patiently(lambda: self.store.turns.load(number))
        if turn.state != "open":
            lane.turn = None
            return
        sorry = f"I could not answer this: {error.message}. It is kept; `daycare dead list` shows it."
        again = Choice("Try again", f"/retry turn {turn.turn}")
        thought = recorded(rows, steps, f"[failed: {error.code}]", self.clock.now_ms())
        replies = await self._replies(agent, replace(thought, reply=sorry), (again,))
        posts = [
            notice
            for row in thought.rows
            if row.envelope.answer("", "error") is None  # its burial tells
            if sender_connector(row.envelope, self.connectors) is None and row.envelope.origin is Origin.AGENT
            if (notice := self._failure_notice(agent, turn, row, sorry)) is not None
        ]
        await patiently(
            lambda: self.store.turns.park(
                agent,
                turn,
                code=error.code,
                reason=error.message,
                history=thought.history,
                replies=replies,
                posts=posts,
            )
        )
        lane.drop({row.seq for row in rows})
        lane.turn = None
        if not replies and not posts:  # a reminder of an agent that has no way to people: its owner should know
            text = (
                f"{agent.path} could not finish a turn: {error.message}. `daycare dead list` shows what it was about."
            )
            await self.notifier.notify(agent.user, text, topic=f"failed:{agent.id}", path=agent.path)

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
        """Tell whoever is responsible that an agent takes no more turns."""
        text = f"{agent.path} was parked: {reason}. `daycare agents unpark {agent.path}` lets it work again."
        await self.notifier.notify(agent.user, text, topic=f"parked:{agent.id}", path=agent.path)


def _answers(thought: Thought, text: str, status: Literal["ok", "error"]) -> list[Envelope]:
    """Return what the agents get that asked for this."""
    if len(text) > RESULT_MAX_CHARS:
        text = f"{text[:RESULT_MAX_CHARS]}\n[cut: {len(text)} characters in all]"
    found = (row.envelope.answer(text or "[no words]", status) for row in thought.rows)
    return [answer for answer in found if answer is not None]
