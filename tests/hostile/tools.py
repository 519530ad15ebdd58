"""What models ask for: every tool there is, with arguments that fit, nearly fit, or do not: cron, reminders, memory."""

import re
from pathlib import Path
from random import Random
from typing import Final

from daycare.base.messages import Message, Text, ToolCall, Usage
from daycare.plugin import Completion, Inbound, InferRequest
from daycare.testing.scripted import say
from tests.hostile import schemas, texts
from tests.hostile.messages import learned
from tests.hostile.stage import PEOPLE, Streaming, at_once, opened, said
from tests.hostile.trial import Prepared, Trial

_NUMBER: Final = re.compile(r"#(\d+)#")


class Tools(Prepared):
    """See the module."""

    name = "tools"
    chunk = 200
    virtual = True

    async def play(self, trial: Trial, folder: Path) -> None:
        """Ask for each input by its number; the model calls what is drawn for it."""
        model = Streaming(lambda request: self._called(trial, request))
        async with opened(trial, folder, model) as house:

            async def one(number: int) -> None:
                user = PEOPLE[2 * (number % (len(PEOPLE) // 2))]
                inbound = Inbound(connector="direct", sender=f"direct:{user}", key=f"t:{number}", text=f"do #{number}#")
                await said(house, trial, number, inbound)

            await at_once(trial.numbers, one)

    def _called(self, trial: Trial, request: InferRequest) -> Completion:
        last = request.messages[-1]
        if request.output is not None:
            return say(learned(request.output, last.text))
        if last.role == "tool":
            results = "".join(part.text for part in last.parts if hasattr(part, "text"))
            return say(results[:20_000] or "done")
        numbers = [int(found) for found in _NUMBER.findall(last.text)]
        calls = [self._call(trial.draw(number), number, request) for number in numbers if number in trial.numbers]
        if not calls or not request.tools:
            return say(last.text[:2_000] or "?")
        return Completion(message=Message("assistant", tuple(calls)), finish="tools", usage=Usage(10, 5))

    def _call(self, rng: Random, number: int, request: InferRequest) -> ToolCall | Text:
        if rng.random() < 0.03:
            return ToolCall(f"c{number}", texts.short(rng, lone=False)[:200], {texts.short(rng)[:50]: texts.text(rng)})
        tool = sorted(request.tools, key=lambda each: each.name)[rng.randrange(len(request.tools))]
        arguments = schemas.hostile(rng, tool.schema)
        return ToolCall(f"c{number}", tool.name, arguments if isinstance(arguments, dict) else {"": arguments})

    def shown(self, rng: Random) -> str:
        """Its arguments depend on the tools there are."""
        return "a call of a tool"
