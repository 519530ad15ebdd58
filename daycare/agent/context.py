"""What of a conversation goes into a prompt, so that it fits: summary | later turns | this turn.

In this order, each only if the one before was not enough: older turns are compacted into a summary (`compaction.py`);
the oldest results of this turn's tools are shown by their ends; the oldest turns are left out. Only whole turns are
left out, so that no tool result stands without its call, and only of the prompt: the store keeps all. Between two
compactions a prompt only grows at its end, so that providers find the rest in their caches.
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import trio
from msgspec.structs import replace

from daycare.agent import tokens
from daycare.agent.attachments import AttachedFiles, shown
from daycare.agent.client_context import client_conversation
from daycare.agent.compaction import CompactionJob, Compactor
from daycare.agent.context_view import ContextView as ContextView
from daycare.agent.context_view import Sight as Sight
from daycare.agent.context_view import cut as cut
from daycare.agent.context_view import viewed
from daycare.agent.conversations import Conversations, StampedTurn, Stretch
from daycare.agent.prompt import recalled, stamped
from daycare.agent.recall import Recollection
from daycare.agent.shortening import Shortener
from daycare.agent.tokens import TokenBudget, TokenRatios, budget_of
from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.errors import DaycareError, InvalidError
from daycare.base.events import ContextTrimmed
from daycare.base.limits import COMPACTIONS_MAX, CONTEXT_CHARS_A_TOKEN, CONTEXT_KNOWN_MAX
from daycare.base.messages import Message
from daycare.inference.metering import Payer
from daycare.inference.names import ModelChoice
from daycare.inference.pool import Failure, ModelAnswer, Pool
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.plugin import InferRequest
from daycare.store.records import Agent, InboxRow, Step, Summary, Turn, User
from daycare.store.records_conversations import APART
from daycare.store.records_prompts import PromptBase, ShownPrompt
from daycare.store.sqlite.store import Store
from daycare.tools.offer import Offer, called_in

COMPACT_AGAIN_S: Final = 300.0  # before a summary that failed is tried again in the same conversation
PROMPT_SHARE: Final = 0.5  # of a prompt's budget for identity and memory: the rest is the conversation's

ALL: Final = 2**62  # no turn has a number as high


class Remembered(msgspec.Struct):
    """What the daemon remembers of an agent's prompts: lost with it, and found again.

    `left_out` are the turns of a session up to which prompts leave out; no summary is asked for before `again_s`,
    by the clock that nobody sets.
    """

    session: int = 0
    left_out: int = 0
    again_s: float = float("-inf")


class Contexts:
    """Opens the windows of turns, and keeps what one turn teaches the next."""

    def __init__(self, store: Store, files: AttachedFiles, pool: Pool, bus: Bus, clock: Clock, offer: Offer) -> None:
        self._offer = offer
        self.store = store
        self.files = files
        self.pool = pool
        self.bus = bus
        self.clock = clock
        self.conversations = Conversations(store.summaries)
        self.compactor = Compactor(store, pool, bus, clock)
        self.token_ratios = TokenRatios()
        self._remembered: Bounded[str, Remembered] = Bounded(CONTEXT_KNOWN_MAX)

    def open(
        self,
        agent: Agent,
        user: User,
        turn: Turn,
        rows: Sequence[InboxRow],
        steps: Sequence[Step],
        number: Callable[[], int],
    ) -> "Window":
        """Return a turn's window; `steps` are those journaled so far, `number` takes the next step's number."""
        compactions = sum(step.kind == "summary" for step in steps)
        instead = client_conversation(rows) if turn.session <= APART else None
        return Window(self, agent, user, turn, number, compactions, instead)

    def remembered(self, agent_id: str, session: int) -> Remembered:
        """Return what is remembered of a session, to be read or written."""
        known = self._remembered.touch(agent_id, Remembered(session))
        if known.session != session:
            known = self._remembered[agent_id] = Remembered(session)
        return known

    def budget(self, agent: Agent, plan: Sequence[ModelChoice]) -> TokenBudget:
        """Return the budget of the first choice of a plan."""
        learned = self.token_ratios.of(agent.id, str(plan[0]))
        return budget_of(self.pool.facts(plan[0]), learned.total_at(round(self.clock.steady_s() * 1000)))

    async def room(self, agent: Agent) -> int:
        """Return how many tokens identity and memory may have in an agent's prompt."""
        plan = await self.pool.plan(agent.role, agent.config.model or None)
        return int(self.budget(agent, plan).total * PROMPT_SHARE)

    async def view(
        self,
        agent: Agent,
        user: User,
        session: int,
        plan: Sequence[ModelChoice],
        budget: TokenBudget,
        request: InferRequest,
        said: Sequence[Message] = (),
        before: int = ALL,
        instead: Stretch | None = None,
    ) -> ContextView:
        """Read the conversation below a turn: summary and turns that may fit; or take the one given `instead`.

        `request` has all tools that the agent may use; of them the view has those that are shown.
        """
        summary = await self.store.summaries.latest(agent.id, session) if instead is None else None
        mark = summary.through if summary else 0
        left_out = self.remembered(agent.id, session).left_out if instead is None else 0
        past = instead or await self.conversations.newest(
            agent.id,
            session,
            user.zone,
            after=max(mark, left_out),
            before=before,
            max_chars=budget.total * CONTEXT_CHARS_A_TOKEN,
        )
        facts = [self.pool.facts(choice) for choice in plan]
        most = min(each.image_max_bytes for each in facts)  # a stand-in is sent the same
        sight = Sight(facts[0].images, most)
        whole = past.whole and left_out <= mark
        called = called_in(said).union(*(turn.called for turn in past.turns))
        request = replace(request, tools=self._offer(request.tools, called))
        return await self.put_together(agent.user, user.zone, request, summary, past.turns, said, sight, whole=whole)

    async def put_together(
        self,
        user: str,
        zone: str,
        request: InferRequest,
        summary: Summary | None,
        turns: Sequence[StampedTurn],
        said: Sequence[Message],
        sight: Sight,
        *,
        whole: bool = True,
    ) -> ContextView:
        """Return a conversation as a model reads it, the files of a user in it included."""
        with_files = [message for turn in turns if turn.files for message in turn.past.messages]
        flat = await shown(
            self.files,
            user,
            (*with_files, *stamped(said, zone)),
            sees=sight.images,
            image_max_bytes=sight.image_max_bytes,
        )
        view = viewed(request, recalled(summary) if summary else None, turns, flat, whole=whole)
        view.summary_through = summary.through if summary else 0
        view.sight = sight
        return view


class Window:
    """The context of one turn's model calls; `instead` is what one that stands alone has as its conversation."""

    def __init__(
        self,
        contexts: Contexts,
        agent: Agent,
        user: User,
        turn: Turn,
        number: Callable[[], int],
        compactions: int,
        instead: Stretch | None,
    ) -> None:
        self._contexts = contexts
        self._agent = agent
        self._user = user
        self._turn = turn
        self._number = number
        self._compactions = compactions
        self._instead = instead
        self._alone = Remembered() if instead is not None else None
        self._shortener = Shortener(contexts.store, agent, turn)
        self._told: tuple[int, int] = (0, 0)  # what was last reported: left out up to, and results
        self._last: tuple[ContextView, Sequence[Message]] | None = None  # what was sent, and the turn's own words in it

    def shown(self, base: PromptBase, recollection: Recollection, said: int) -> ShownPrompt | None:
        """Return what the last call was shown, which had `said` messages of the turn; None where there was none."""
        if self._last is None:
            return None
        view, own = self._last
        changed = self._shortener.count or len(own) > said  # shortened, or with what plugins have added
        return ShownPrompt(
            turn=self._turn.turn,
            agent_id=self._agent.id,
            user=self._agent.user,
            said=said,
            since=said,
            base=base,
            tools=view.request.tools,
            images=view.sight.images,
            image_max_bytes=view.sight.image_max_bytes,
            summary=view.summary_through,
            first=view.turns[0].turn if view.turns else 0,
            recalled=tuple(memory.no for memory in recollection.memories),
            kept=msgspec.json.encode(self._shortener.shortened(own)) if changed else b"",
            digest=view.digest,
        )

    async def infer(
        self,
        plan: Sequence[ModelChoice],
        request: InferRequest,
        said: Sequence[Message],
        payer: Payer,
        on_delta: Callable[[str], None],
        on_failure: Callable[[Failure], None],
    ) -> ModelAnswer:
        """Ask the plan's models, with as much of the conversation as fits, and what was `said` in this turn.

        `request` has no messages yet. If the prompt is too long all the same it is shortened and sent once more. Raises
        what `Pool.infer` does.
        """
        pool = self._contexts.pool
        failed = plan[0]

        def note(failure: Failure) -> None:
            nonlocal failed
            failed = failure.choice
            on_failure(failure)

        asked, size = await self._fit(plan, request, said, self._contexts.budget(self._agent, plan), forced=False)
        payer = replace(payer, ratio=self._ratio(plan))
        await trio.lowlevel.checkpoint()  # fitting took some ms, and so will encoding
        try:
            answer = await pool.infer(plan, asked, on_delta, note, payer)
        except InvalidError as error:
            if error.code != "CONTEXT_OVERFLOW":
                raise
            asked, size = await self._smaller(plan, request, said, size, failed, error)
            try:
                answer = await pool.infer(plan, asked, on_delta, on_failure, payer)
            except InvalidError as again:
                raise self._too_long(again) if again.code == "CONTEXT_OVERFLOW" else again from error
        self._contexts.token_ratios.counted(
            self._agent.id, str(answer.choice), size, answer.completion.usage.input_tokens
        )
        return answer

    async def _smaller(
        self,
        plan: Sequence[ModelChoice],
        request: InferRequest,
        said: Sequence[Message],
        refused: int,
        by: ModelChoice,
        error: InvalidError,
    ) -> tuple[InferRequest, int]:
        """Return a request, and its tokens, that is shorter than one that was too long for a model of the plan."""
        size = int(self._ratio(plan) * refused)
        # Only of the one who refused: a first choice that is away may read more than its stand-in.
        now_ms = round(self._contexts.clock.steady_s() * 1000)
        at_most = self._contexts.token_ratios.refused(self._agent.id, str(by), size, now_ms)
        budget = budget_of(self._contexts.pool.facts(by), at_most)
        asked, size = await self._fit(plan, request, said, budget, forced=True)
        if size >= refused:
            raise self._too_long(error) from error
        return asked, size

    def _too_long(self, error: InvalidError) -> InvalidError:
        return InvalidError(
            "CONTEXT_OVERFLOW",
            f"{self._agent.path} cannot make its prompt short enough for the model: {error.message}",
            hint="send less at a time, /reset the conversation, or choose a model that reads more",
        )

    # -- fitting -----------------------------------------------------------------------------------------------------

    async def _fit(
        self,
        plan: Sequence[ModelChoice],
        request: InferRequest,
        said: Sequence[Message],
        budget: TokenBudget,
        *,
        forced: bool,
    ) -> tuple[InferRequest, int]:
        ratio = self._ratio(plan)
        view = await self._view(plan, budget, request, said)
        while forced or not view.whole or view.total * ratio > budget.compact_at:
            if not await self._compact(plan, budget, view, ratio, forced=forced):
                break
            forced = False
            view = await self._view(plan, budget, request, said)
        if view.total * ratio > budget.total:
            await self._trim(view, budget, ratio)
        if not view.whole and view.turns:  # what is left out stays out, so that the prompt begins the same next time
            self._remembered.left_out = view.turns[0].turn - 1
        self._report(view, ratio)
        self._last = view, said
        return replace(view.request, messages=view.messages), view.total

    @property
    def _remembered(self) -> Remembered:
        alone, contexts = self._alone, self._contexts
        return contexts.remembered(self._agent.id, self._turn.session) if alone is None else alone

    def _ratio(self, plan: Sequence[ModelChoice]) -> float:
        return self._contexts.token_ratios.of(self._agent.id, str(plan[0])).ratio

    async def _view(
        self, plan: Sequence[ModelChoice], budget: TokenBudget, request: InferRequest, said: Sequence[Message]
    ) -> ContextView:
        said = self._shortener.shortened(said)
        turn = self._turn
        return await self._contexts.view(
            self._agent,
            self._user,
            turn.session,
            plan,
            budget,
            request,
            said,
            before=turn.turn,
            instead=self._instead,
        )

    async def _compact(
        self, plan: Sequence[ModelChoice], budget: TokenBudget, view: ContextView, ratio: float, *, forced: bool
    ) -> bool:
        """Sum up the turns that are older than those to keep; whether that changed anything."""
        too_soon = not forced and self._contexts.clock.steady_s() < self._remembered.again_s
        if too_soon or self._compactions >= COMPACTIONS_MAX or self._instead is not None:
            return False
        room = int(budget.compact_at / ratio) - view.fixed_tokens - view.said_tokens - budget.summary
        before, older = cut(view, min(int(budget.keep / ratio), room), self._turn.turn)
        if view.whole and older <= budget.summary // 2:
            return False  # it is not the conversation that takes the room
        job = CompactionJob(
            agent=self._agent,
            turn=self._turn.turn,
            user=self._user,
            session=self._turn.session,
            plan=plan,
            budget=budget,
            ratio=ratio,
            trace=self._turn.trace,
        )
        try:
            summary = await self._contexts.compactor.compact(job, before, self._count)
        except DaycareError:  # the bus has told why; the turn goes on without
            summary = None
        if summary is None:
            self._remembered.again_s = self._contexts.clock.steady_s() + COMPACT_AGAIN_S
        return summary is not None

    def _count(self) -> int:
        """Count one more summary that was asked for; return its step's number."""
        self._compactions += 1
        return self._number()

    # -- the last resort ---------------------------------------------------------------------------------------------

    async def _trim(self, view: ContextView, budget: TokenBudget, ratio: float) -> None:
        """Make a view fit that no summary made fit, with some room to grow, so that the next call finds it the same."""
        aim = int(budget.compact_at / ratio)
        if view.said_tokens > aim // 2:
            await self._shorten(view, aim, keep_last=True)
        while view.turns and view.total > aim:
            self._remembered.left_out = view.leave_out()
        if view.total * ratio > budget.total:
            await self._shorten(view, aim, keep_last=False)

    async def _shorten(self, view: ContextView, aim: int, *, keep_last: bool) -> None:
        """Shorten the oldest results of this turn's tools; those of the last calls the model has not read yet."""
        over = view.total - aim
        view.said = await self._shortener.shorten(view.said, over, keep_last=keep_last, tools=view.request.tools)
        view.said_tokens = tokens.of_messages(view.said)

    def _report(self, view: ContextView, ratio: float) -> None:
        """Tell what is left out, once for each change."""
        first = view.turns[0].turn if view.turns else self._turn.turn
        told = (0 if view.whole else first - 1, self._shortener.count)
        if told == self._told or told == (0, 0):
            return
        self._told = told
        bus, clock = self._contexts.bus, self._contexts.clock
        bus.publish(
            ContextTrimmed(
                **about(clock, self._agent, self._turn.trace),
                turn=self._turn.turn,
                through=told[0],
                results=told[1],
                tokens=int(view.total * ratio),
            )
        )
