"""A plugin for the daemon under test: a model that kills the process when it reads a certain word.

What is at work together with the deadly message goes down with it: while others are asked, too, an answer takes longer
than the death.
"""

import os
import signal
from collections.abc import AsyncGenerator

import trio

from daycare.base.messages import Message, Text
from daycare.plugin import Completion, InferRequest, Plugin, ProviderConfig, StreamEvent

DEADLY = "nightshade"
ALONE_S, KILL_S, TOGETHER_S = 0.1, 0.3, 5.0


class Mortal:
    """The provider."""

    name = "mind"
    needs_key = False

    def __init__(self) -> None:
        self._asked = 0

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Answer, or die."""
        self._asked += 1
        try:
            if DEADLY in request.messages[-1].text:
                await trio.sleep(KILL_S)
                os.kill(os.getpid(), signal.SIGKILL)
            with trio.move_on_after(TOGETHER_S):
                await trio.sleep(ALONE_S)
                while self._asked > 1:
                    await trio.sleep(ALONE_S)
        finally:
            self._asked -= 1
        yield Completion(message=Message("assistant", (Text("fine"),)), finish="stop")

    async def models(self) -> list[str]:
        """There is one model."""
        return ["errands"]


def _make(config: ProviderConfig) -> Mortal:
    return Mortal()


plugin = Plugin(name="poison", providers={"mind": _make})
