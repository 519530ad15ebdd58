"""A plugin for the daemon under measurement: its model answers at once, and runs what a message tells it to run."""

import re
from collections.abc import AsyncGenerator

from daycare.base.messages import Message, Text, ToolCall, Usage
from daycare.plugin import Completion, InferRequest, Plugin, ProviderConfig, StreamEvent

_RUN = re.compile(r"\brun (.+)$")  # behind the time at which it was said


class Ready:
    """The provider."""

    name = "ready"
    needs_key = False

    async def infer(self, request: InferRequest) -> AsyncGenerator[StreamEvent, None]:
        """Call `shell` once for a message that says so; answer."""
        last = request.messages[-1]
        order = _RUN.search(last.text) if last.role == "user" else None
        if order is None:
            yield Completion(message=Message("assistant", (Text("ok"),)), finish="stop", usage=Usage(10, 1))
        else:
            call = ToolCall("call-shell", "shell", {"command": order[1]})
            yield Completion(message=Message("assistant", (call,)), finish="tools", usage=Usage(10, 1))

    async def models(self) -> list[str]:
        """There is one model."""
        return ["ready"]


def _make(_config: ProviderConfig) -> Ready:
    return Ready()


plugin = Plugin(name="ready", providers={"ready": _make})
