"""A trial: what a proposed agent would answer to one message, without anything coming of it.

Its prompt is made as it would be, and a model is asked; the tools that it may use are shown to it, and none is run. The
person's builder pays.
"""

from dataclasses import dataclass
from typing import Final

import trio
from msgspec.structs import replace

from daycare.agent.prompt import stamped
from daycare.agent.sections import Prompts
from daycare.agent.tool_results import shorten, tool_message
from daycare.base.clock import Clock
from daycare.base.errors import UnavailableError
from daycare.base.messages import Message, Origin, Text
from daycare.features.builder.checking import proposed
from daycare.features.builder.records import AgentTrial, BuiltAgent
from daycare.inference.metering import Payer
from daycare.inference.pool import Pool
from daycare.store.records import Agent, User
from daycare.tools.catalogue import Catalogue

TRIAL_CALLS_MAX: Final = 4  # of a model: a tool that is asked for is answered, and it goes on
TRIAL_S: Final = 90.0  # a call of a tool has 120 s
TRIAL_OUTPUT_TOKENS: Final = 2_000  # of each call: an answer, and no book
_NOT_RUN: Final = "[This is a trial: nothing was done. Go on as if it had worked, or had found nothing.]"


@dataclass(frozen=True)
class Trials:
    """Makes them."""

    prompts: Prompts
    pool: Pool
    catalogue: Catalogue
    clock: Clock

    async def run(
        self, maker: Agent, user: User, it: AgentTrial, there: Agent | None, wanted: BuiltAgent, turn: int, trace: str
    ) -> str:
        """Return what was said, with the calls that it would have made. Raises what a call of a model raises."""
        agent = replace(there, config=wanted.config) if there else proposed(user, wanted.path, wanted.config)
        request = await self.prompts.trial(agent, user, wanted.documents)
        said = Message("user", (Text(it.message),), self.clock.now_ms(), Origin.PERSON, user.id)
        request = replace(
            request,
            tools=self.catalogue.specs(agent),
            messages=stamped((said,), user.zone),
            max_output_tokens=TRIAL_OUTPUT_TOKENS,
            now_ms=self.clock.now_ms(),
        )
        payer = Payer.of(maker, turn, trace)
        plan = await self.pool.plan(agent.role, agent.config.model or None)
        lines: list[str] = []
        with trio.move_on_after(TRIAL_S):
            for number in range(TRIAL_CALLS_MAX):
                asked = replace(request, may_call=number < TRIAL_CALLS_MAX - 1)
                answer = (await self.pool.infer(plan, asked, payer=payer)).completion.message
                lines += [answer.text.strip()] if answer.text.strip() else []
                if not answer.tool_calls:
                    return _told(it, lines)
                lines += [f"[would use {call.name}: {shorten(call)}]" for call in answer.tool_calls]
                results = (tool_message(call, _NOT_RUN, "ok", self.clock.now_ms(), ()) for call in answer.tool_calls)
                request = replace(request, messages=(*request.messages, answer, *results))
            return _told(it, lines)
        raise UnavailableError("TRIAL_LATE", f"trying {it.name}: no answer within {TRIAL_S:g} s", hint="try it again")


def _told(it: AgentTrial, lines: list[str]) -> str:
    return f"A trial of {it.name}; nothing was done, and nothing is kept.\n> {it.message}\n\n" + "\n\n".join(lines)
