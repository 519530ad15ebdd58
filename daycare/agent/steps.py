"""Thinking: a bounded loop of model and tools in which each step is journaled before the next begins.

After a crash the loop runs again over the journal: finished model calls and tools are read, not repeated. A tool that
had started and did not finish runs again if it is idempotent; if not, its step is `uncertain`, and the model and the
person are told.

A call whose result comes later, from another agent, sets the turn aside: nothing waits in memory, and the turn goes on
over its journal when the answer is among its rows.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import msgspec
import trio
from msgspec.structs import replace

from daycare.agent.context import Contexts, Window
from daycare.agent.kinds import chains_of, is_background, messages_of
from daycare.agent.recall import NOTHING, Recollection
from daycare.agent.tool_results import answer_to, answers_among, tool_message, uncertain, warning
from daycare.base import foreign
from daycare.base.bounded import Bounded
from daycare.base.clock import Clock
from daycare.base.events import ModelFailed, ToolFinished, ToolProgress, ToolStarted, TurnDelta
from daycare.base.limits import PROGRESS_MAX_CHARS
from daycare.base.messages import Chains, File, Message, Origin, Text, Told, ToolCall, Usage
from daycare.inference.metering import Payer
from daycare.inference.pool import Failure, ModelAnswer, ModelChoice, Pool
from daycare.observe.about import about
from daycare.observe.bus import Bus
from daycare.plugin import Completion, InferRequest
from daycare.store.records import Agent, Effects, InboxRow, Step, Turn, User
from daycare.store.records_conversations import APART
from daycare.store.records_prompts import PromptBase, ShownPrompt
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store
from daycare.tools.runner import Done, Runner

PROMPTS_UNANSWERED_MAX: Final = 256  # turns whose last call failed and that have not ended, some KB each
MODEL_STEPS_MAX: Final = 16  # model calls in one turn; ends a loop of tool calls
TOOL_CALLS_MAX: Final = 32  # in one reply of a model; parallel calls are a handful

Steering = Callable[[list[InboxRow]], list[InboxRow]]


class TurnPrompt(NamedTuple):
    """What the model calls of a turn have in common, what was recalled for it, and what stands before that."""

    request: InferRequest
    recalled: Recollection
    base: PromptBase


Prompting = Callable[[Sequence[InboxRow]], Awaitable[TurnPrompt]]


class Thought(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn came to: its messages for the history, the words for the sender, and what else it changes.

    `answers` are rows that hold the results of calls: they belong to the turn and are no messages of it. `recalled` is
    where the memories came from that stood in the prompt, as far as the journal does not say so; `steps` are the
    journal, None where only the store knows it; `told` is what of the reply is out of memory; `shown` is what the last
    call of the model was shown; `spoken` is the reply as a sound.
    """

    rows: tuple[InboxRow, ...]
    answers: tuple[InboxRow, ...] = ()
    history: tuple[Message, ...]
    reply: str
    warnings: tuple[str, ...] = ()
    effects: Effects = Effects()
    usage: Usage = Usage()
    recalled: tuple[Origin, ...] = ()
    steps: tuple[Step, ...] | None = None
    told: Told | None = None
    shown: ShownPrompt | None = None
    spoken: File | None = None


class Aside(msgspec.Struct, frozen=True):
    """The turn cannot go on before these steps are answered."""

    steps: tuple[Step, ...]


class StepNumbers:
    """The numbers of a turn's steps.

    They are apart from its `Course`: a window that numbered its steps by that would be part of a cycle, and each turn
    would leave forty objects that only a look for garbage finds.
    """

    def __init__(self) -> None:
        self.next = 0

    def take(self) -> int:
        """Return the next number."""
        self.next += 1
        return self.next - 1


@dataclass
class Course:
    """Where a turn stands: what was said and done so far, in order."""

    agent: Agent
    user: User
    turn: Turn
    prompt: TurnPrompt
    prompting: Prompting
    rows: list[InboxRow]
    said: list[Message]
    recalled: Recollection  # as far as the journal does not have it
    journal: dict[int, Step]  # by number; without those of summaries, which say nothing
    window: Window = field(init=False)
    plan: Sequence[ModelChoice] = ()
    numbers: StepNumbers = field(default_factory=StepNumbers)
    model_calls: int = 0
    open_calls: list[ToolCall] = field(default_factory=list)
    begun: Step | None = None  # of the first open call, if it is journaled already
    results: list[Message | Step] = field(default_factory=list)  # of the last calls; a step that waits has none yet
    warnings: list[str] = field(default_factory=list)
    effects: Effects = field(default_factory=Effects)
    usage: Usage = field(default_factory=Usage)  # since the last interruption
    shown: ShownPrompt | None = None  # in the last call

    def close_calls(self) -> None:
        """Let the model read the results of its last calls, all together."""
        self.said += [result for result in self.results if isinstance(result, Message)]
        self.results.clear()

    @property
    def chains(self) -> Chains:
        """How the turn came about: the longest chains of its rows."""
        return chains_of(self.rows)

    def add_effects(self, more: Effects | None) -> None:
        """Add what a tool wants done when the turn commits."""
        self.effects += more or Effects()


class Thinker:
    """Runs the loop of a turn with the pool's models and the runner's tools.

    `unanswered` has what models were shown last in turns that failed, or were cancelled, before one answered.
    """

    def __init__(self, store: Store, pool: Pool, runner: Runner, contexts: Contexts, bus: Bus, clock: Clock) -> None:
        self._store = store
        self._pool = pool
        self._runner = runner
        self._contexts = contexts
        self.unanswered: Bounded[int, ShownPrompt] = Bounded(PROMPTS_UNANSWERED_MAX)  # by turn
        self._bus = bus
        self._clock = clock

    async def think(
        self,
        agent: Agent,
        user: User,
        turn: Turn,
        rows: Sequence[InboxRow],
        steps: Sequence[Step],
        prompting: Prompting,
        steering: Steering | None,
    ) -> Thought | Aside:
        """Think until the model has answered, or has to wait for others.

        `prompting` makes the prompt for what the turn reads, and again when a person adds something. What was recalled
        for it is journaled with the next step. Raises when a model call fails: the journal is kept for the retry.
        """
        named = set(turn.seqs)
        answers = answers_among(rows, steps)
        first = [row for row in rows if row.seq in named and row not in answers]
        prompt = await prompting(rows)
        await trio.lowlevel.checkpoint()  # the prompt took some ms, and so will what fits of the conversation
        journal = {step.step: step for step in steps}
        course = Course(agent, user, turn, prompt, prompting, first, messages_of(first), prompt.recalled, journal)
        course.window = self._contexts.open(agent, user, turn, rows, steps, course.numbers.take)
        await self._replay(course, rows, steps)
        if not course.model_calls:
            await self._call_as_approved(course)
        while True:
            await self._run_tools(course)
            waiting = tuple(result for result in course.results if isinstance(result, Step))
            if waiting:
                return Aside(waiting)
            course.close_calls()
            if steering is not None:
                await self._steer(course, steering)
            answer = await self._infer(course)
            if _says_nothing(course, answer.completion):
                answer = await self._infer(course)
            if not answer.completion.message.tool_calls or course.model_calls > MODEL_STEPS_MAX:
                return self._conclude(course, answers, answer.completion)
            await self._journal_model(course, answer)

    async def _journal(self, course: Course, *steps: Step, shown: ShownPrompt | None = None) -> None:
        await with_retry(lambda: self._store.turns.journal(steps, shown))
        course.journal |= {step.step: step for step in steps}

    async def _call_as_approved(self, course: Course) -> None:
        """Make the calls that a person has approved, before the model is asked: it reads what came of them."""
        calls = await with_retry(lambda: self._runner.claim(course.agent, course.turn, course.rows))
        if calls:
            await self._journal_calls(course, "approved", Message("assistant", tuple(calls)))

    # -- replay ------------------------------------------------------------------------------------------------------

    async def _replay(self, course: Course, rows: Sequence[InboxRow], steps: Sequence[Step]) -> None:
        for step in steps:
            course.numbers.next = step.step + 1
            if step.kind == "model" and step.message is not None:
                course.close_calls()
                course.model_calls += 1
                course.said.append(step.message)
                course.open_calls = list(step.message.tool_calls)
            elif step.kind in ("summary", "recall"):
                pass  # the summary itself is in the store, and memories stand in the prompt
            elif step.kind == "steer":
                course.close_calls()
                added = [row for row in rows if row.seq in step.seqs]
                course.rows += added
                course.said += messages_of(added)
            elif step.message is not None:
                course.results.append(step.message)
                course.add_effects(step.effects)
                call = course.open_calls.pop(0)
                if uncertain(step.message):
                    course.warnings.append(warning(call))
            elif step.state == "waiting":
                course.add_effects(step.effects)
                await self._replay_waiting(course, step, rows)
            else:
                await self._replay_started(course, step)

    async def _replay_waiting(self, course: Course, step: Step, rows: Sequence[InboxRow]) -> None:
        """A call had asked another agent: its answer is among the rows, or still to come."""
        call = course.open_calls.pop(0)
        answer = answer_to(call, step, rows, self._clock.now_ms())
        if answer is None:
            course.results.append(step)
            return
        message, status = answer
        await self._journal(course, replace(step, state="done", message=message))
        course.results.append(message)
        if uncertain(message):
            course.warnings.append(warning(call))
        self._tool_finished(course, step.step, call, status)

    async def _replay_started(self, course: Course, step: Step) -> None:
        """A tool had started when the daemon stopped."""
        if step.idempotent:
            course.numbers.next = step.step  # it runs again under its number, so that its keys stay the same
            return
        call = course.open_calls.pop(0)
        text = (
            f"uncertain: the daemon was interrupted while `{call.name}` ran. It may or may not have taken effect and "
            "was not run again."
        )
        message = tool_message(call, text, "uncertain", self._clock.now_ms(), ())
        await self._journal(course, replace(step, state="done", message=message))
        course.results.append(message)
        course.warnings.append(warning(call))
        self._tool_finished(course, step.step, call, "uncertain")

    # -- the model ---------------------------------------------------------------------------------------------------

    async def _infer(self, course: Course) -> ModelAnswer:
        agent, turn = course.agent, course.turn
        # Made once: what is set anew meanwhile counts from the next turn on.
        plan = course.plan = course.plan or await self._pool.plan(agent.role, agent.config.model or None)
        request = replace(
            course.prompt.request,
            tools=self._runner.specs(agent),
            may_call=course.model_calls < MODEL_STEPS_MAX - 1,
            now_ms=self._clock.now_ms(),
        )

        def show(text: str) -> None:
            self._bus.publish(
                TurnDelta(
                    **about(self._clock, agent, turn.trace),
                    turn=turn.turn,
                    text=text,
                )
            )

        def failed(failure: Failure) -> None:
            self._bus.publish(
                ModelFailed(
                    **about(self._clock, agent, turn.trace),
                    turn=turn.turn,
                    provider=failure.choice.provider,
                    model=failure.choice.model,
                    code=failure.error.code,
                    reason=failure.error.message,
                    retry_in_s=failure.retry_in_s,
                )
            )

        background = {row.envelope.origin for row in course.rows} <= {Origin.CRON, Origin.WEBHOOK}
        payer = Payer.of(agent, turn.turn, turn.trace, background=background)
        said = [*request.messages, *course.said]
        try:
            answer = await course.window.infer(plan, request, said, payer, show, failed)
        finally:
            shown = course.window.shown(course.prompt.base, course.prompt.recalled, len(course.said))
            if shown is not None and turn.session > APART:  # else nothing is kept of which it could be made again
                self.unanswered[turn.turn] = shown.goes_on(course.shown)
        course.shown = self.unanswered.pop(turn.turn, None)
        course.model_calls += 1
        course.usage = course.usage + answer.completion.usage
        return answer

    async def _journal_model(self, course: Course, answer: ModelAnswer) -> None:
        await self._journal_calls(course, str(answer.choice), answer.completion.message)

    async def _journal_calls(self, course: Course, by: str, said: Message) -> None:
        message = replace(said, at_ms=self._clock.now_ms(), origin=Origin.AGENT, sender=course.agent.path)
        steps = []
        if course.recalled.memories:
            steps.append(course.recalled.step(course.turn.turn, course.numbers.take(), message.at_ms))
            course.recalled = NOTHING
        step = Step(
            turn=course.turn.turn,
            step=course.numbers.take(),
            kind="model",
            name=by,
            state="done",
            at_ms=message.at_ms,
            message=message,
        )
        course.open_calls = list(message.tool_calls)
        course.begun = self._begun(course)
        steps += [step] if course.begun is None else [step, course.begun]
        await self._journal(course, *steps, shown=course.shown)
        course.said.append(message)

    def _conclude(self, course: Course, answers: list[InboxRow], completion: Completion) -> Thought:
        reply = completion.message.text
        if completion.finish == "length":
            reply += "\n[cut: the model reached its limit of output]"
        elif completion.finish == "refused":
            reply = reply or "[the model's filter refused to answer]"
        elif completion.message.tool_calls:
            reply = reply or f"[I have used the {MODEL_STEPS_MAX} steps of a turn; tell me to go on]"
        elif _says_nothing(course, completion):
            reply = "[the model gave an empty answer, twice: ask again, or choose another with /model]"
        message = Message("assistant", (Text(reply),), self._clock.now_ms(), Origin.AGENT, course.agent.path)
        return Thought(
            rows=tuple(course.rows),
            answers=tuple(answers),
            history=(*course.said, message),
            reply=reply,
            warnings=tuple(course.warnings),
            effects=course.effects,
            usage=course.usage,
            recalled=course.recalled.origins,
            steps=tuple(course.journal.values()),
            shown=course.shown,
        )

    # -- tools -------------------------------------------------------------------------------------------------------

    def _begun(self, course: Course) -> Step | None:
        """Return the step of the next open call, to be journaled before it begins; None if all are made."""
        if not course.open_calls:
            return None
        call = course.open_calls[0]
        return Step(
            turn=course.turn.turn,
            step=course.numbers.take(),
            kind="tool",
            name=call.name,
            state="started",
            idempotent=True,  # as long as it is only looked at, and a person asked
            at_ms=self._clock.now_ms(),
            call_id=call.id,
            arguments=call.arguments,
        )

    async def _run_tools(self, course: Course) -> None:
        """Make the open calls; each begins in the journal with the commit of what came before it."""
        step, course.begun = course.begun, None
        if step is None and (step := self._begun(course)) is not None:
            await self._journal(course, step)
        while step is not None:
            call, number = course.open_calls.pop(0), step.step
            self._bus.publish(
                ToolStarted(
                    **about(self._clock, course.agent, course.turn.trace),
                    turn=course.turn.turn,
                    step=number,
                    tool=call.name,
                )
            )
            if course.model_calls >= MODEL_STEPS_MAX:  # one more call is made, for its words
                done = Done("not run: this turn has no step left; answer in words now", "error")
            elif len(course.results) < TOOL_CALLS_MAX:
                done = await self._runner.run(
                    course.agent,
                    course.user,
                    course.turn,
                    number,
                    call,
                    course.chains,
                    self._progress(course, step),
                    partial(self._begin, course, step),
                )
            else:
                done = Done(f"not run: {TOOL_CALLS_MAX} calls at a time are the most", "error")
            result: Message | Step
            if done.waiting is not None:
                until = self._clock.now_ms() + round(1000 * done.waiting.deadline_s)
                finished = result = replace(
                    step, state="waiting", wait=done.waiting.key, wait_until=until, effects=done.effects
                )
            else:
                result = tool_message(call, done.text, done.status, self._clock.now_ms(), done.origins, done.told)
                finished = replace(step, state="done", message=result, effects=done.effects)
            following = self._begun(course)
            await self._journal(course, *([finished] if following is None else [finished, following]))
            course.results.append(result)
            course.add_effects(done.effects)
            if done.status == "uncertain":
                course.warnings.append(warning(call))
            self._tool_finished(course, number, call, done.status)
            step = following

    async def _begin(self, course: Course, step: Step) -> None:
        """Note that a tool begins now that must not run again."""
        if not self._runner.idempotent(step.name):
            await self._journal(course, replace(step, idempotent=False))

    def _progress(self, course: Course, step: Step) -> Callable[[str], None]:
        def say(text: str) -> None:
            self._bus.publish(
                ToolProgress(
                    **about(self._clock, course.agent, course.turn.trace),
                    turn=step.turn,
                    step=step.step,
                    tool=step.name,
                    text=foreign.text(text, PROGRESS_MAX_CHARS),
                )
            )

        return say

    async def _steer(self, course: Course, steering: Steering) -> None:
        """Let the model see what the person added while a step ran."""
        if not course.model_calls:
            return  # before the first answer there is nothing to correct: the next turn takes it
        added = steering(course.rows)
        if not added:
            return
        step = Step(
            turn=course.turn.turn,
            step=course.numbers.take(),
            kind="steer",
            name=f"{len(added)} messages",
            state="done",
            at_ms=self._clock.now_ms(),
            seqs=tuple(row.seq for row in added),
        )
        await self._journal(course, step)
        course.rows += added
        course.said += messages_of(added)
        course.prompt = await course.prompting(course.rows)
        course.recalled = course.prompt.recalled

    def _tool_finished(self, course: Course, number: int, call: ToolCall, status: str) -> None:
        self._bus.publish(
            ToolFinished(
                **about(self._clock, course.agent, course.turn.trace),
                turn=course.turn.turn,
                step=number,
                tool=call.name,
                status=status,
            )
        )


def _says_nothing(course: Course, completion: Completion) -> bool:
    """Return whether a reply is silence for somebody who waits for words."""
    message = completion.message
    done = course.effects
    heard = message.tool_calls or message.text.strip() or done.files or done.choices or done.reaction
    return completion.finish == "stop" and not heard and not all(map(is_background, course.rows))


def recorded(rows: Sequence[InboxRow], steps: Sequence[Step], ending: str, now_ms: int) -> Thought:
    """Return what a turn came to that ends early: every call has a result, an answer that came for it if any did."""
    answers = answers_among(rows, steps)
    rows = [row for row in rows if row not in answers]
    said = messages_of(rows)
    open_calls: list[ToolCall] = []
    warnings: list[str] = []
    kept = Effects()
    for step in steps:
        if step.kind == "model" and step.message is not None:
            said.append(step.message)
            open_calls = list(step.message.tool_calls)
        elif step.kind == "tool":
            call = open_calls.pop(0)
            while_ = "before it was answered" if step.wait else "while it ran"
            message = step.message
            if message is None and (unread := answer_to(call, step, answers, now_ms)) is not None:
                message = unread[0]
            if message is None:
                status = "error" if step.idempotent else "uncertain"
                message = tool_message(call, f"{ending} {while_}", status, now_ms, ())
            said.append(message)
            if uncertain(message):
                warnings.append(warning(call))
            kept += step.effects or Effects()
    said += [tool_message(call, f"not run: {ending}", "error", now_ms, ()) for call in open_calls]
    said.append(Message("assistant", (Text(ending),), now_ms, Origin.SYSTEM))
    return Thought(
        rows=tuple(rows),
        answers=tuple(answers),
        history=tuple(said),
        reply="",
        warnings=tuple(warnings),
        effects=kept,
    )
