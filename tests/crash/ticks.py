"""The model of a daemon with scheduled jobs: it answers `tick NAME` with `tock NAME.`, and errands as the mind does."""

import re
from collections.abc import AsyncGenerator

import trio

from daycare.base.messages import Message, Text, Usage
from daycare.plugin import Completion, InferRequest, Plugin, ProviderConfig, StreamEvent, TextDelta
from tests.crash import mind

_TICK = re.compile(r"^tick (\w+)$", re.MULTILINE)


class Ticks(mind.Mind):
    """The provider."""

    name = "ticks"

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Think for a moment, then say it."""
        await trio.sleep(mind.THINK_S)
        last = next(message for message in reversed(request.messages) if message.role == "user")
        found = _TICK.search(last.text)
        completion = mind.think(request)
        if found:
            answer = Message("assistant", (Text(f"tock {found[1]}."),))
            completion = Completion(message=answer, finish="stop", usage=Usage(10, 5))
        yield TextDelta(completion.message.text)
        yield completion


def _make(_config: ProviderConfig) -> Ticks:
    return Ticks()


plugin = Plugin(name="ticks", providers={"ticks": _make})
