"""A stage: a bus, a connector that notes what it is shown, and a presence between them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
import trio.testing

from daycare.base.events import (
    Event,
    ModelFailed,
    ReplySent,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnDelta,
    TurnFailed,
    TurnFinished,
    TurnStarted,
    TurnWaiting,
)
from daycare.connectors.typing_status import TypingStatus
from daycare.observe.about import About
from daycare.observe.bus import Bus
from daycare.plugin import Capabilities
from daycare.testing.fake_connector import FakeConnector, ShownInChat

PRIVATE = Capabilities(typing_s=5.0, drafts=True, preview_every_s=1.0)
GROUP = Capabilities(typing_s=5.0, edits=True, withdrawals=True, preview_every_s=3.0)
QUIET = Capabilities(edits=True, withdrawals=True, preview_every_s=3.0)


class Stage:
    """A bus with somebody who watches; `memory` outlives it."""

    def __init__(self, pigeon: FakeConnector, memory: dict[tuple[str, str], str]) -> None:
        self.bus = Bus()
        self.pigeon = pigeon
        self.memory = memory
        self.asked: list[tuple[str, str, str]] = []
        self.nowhere: set[str] = set()
        self.zero = 0.0  # when the curtain rose

    async def target(self, path: str, user: str, connector: str) -> str | None:
        self.asked.append((path, user, connector))
        await trio.sleep(0)
        return None if user in self.nowhere else f"chat:{user}"

    async def remember(self, connector: str, name: str, value: str) -> None:
        await trio.sleep(0)
        self.memory[connector, name] = value
        if not value:
            del self.memory[connector, name]

    async def recall_all(self, connector: str, prefix: str) -> dict[str, str]:
        await trio.sleep(0)
        return {
            name: value
            for (owner, name), value in self.memory.items()
            if owner == connector and name.startswith(prefix)
        }

    # -- events --

    def start(self, turn: int = 1, user: str = "ann", path: str = "") -> None:
        self.publish(TurnStarted(**self._where(user, path), turn=turn, attempt=1, messages=1))

    def write(self, text: str, turn: int = 1, user: str = "ann") -> None:
        self.publish(TurnDelta(**self._where(user), turn=turn, text=text))

    def tool(self, step: int = 1, name: str = "weather", turn: int = 1, user: str = "ann") -> None:
        self.publish(ToolStarted(**self._where(user), turn=turn, step=step, tool=name))

    def progress(self, text: str, step: int = 1, turn: int = 1, user: str = "ann") -> None:
        self.publish(ToolProgress(**self._where(user), turn=turn, step=step, tool="weather", text=text))

    def tool_done(self, step: int = 1, turn: int = 1, user: str = "ann") -> None:
        self.publish(ToolFinished(**self._where(user), turn=turn, step=step, tool="weather", status="ok"))

    def void(self, turn: int = 1, user: str = "ann") -> None:
        self.publish(
            ModelFailed(
                **self._where(user), turn=turn, provider="p", model="m", code="CUT", reason="cut", retry_in_s=1.0
            )
        )

    def finish(self, reply: str = "done", turn: int = 1, user: str = "ann", *, stopped: bool = False) -> None:
        self.publish(TurnFinished(**self._where(user), turn=turn, reply=reply, seqs=(1,), stopped=stopped))

    def wait(self, turn: int = 1) -> None:
        self.publish(TurnWaiting(**self._where(), turn=turn, answers=1))

    def fail(self, turn: int = 1, retry_in_s: float | None = None) -> None:
        self.publish(TurnFailed(**self._where(), turn=turn, attempt=1, code="BAD", reason="bad", retry_in_s=retry_in_s))

    def sent(self, user: str = "ann", connector: str = "pigeon") -> None:
        self.publish(ReplySent(**self._where(user), outbox=1, connector=connector))

    def publish(self, event: Event) -> None:
        self.bus.publish(event)

    def _where(self, user: str = "ann", path: str = "") -> About:
        return {"at_ms": 1, "path": path or f"/{user}/pigeon", "user": user, "agent_id": "a", "trace": "t"}

    # -- what was seen --

    def times(self, call: str) -> list[float]:
        return [round(shown.at - self.zero, 3) for shown in self.of(call)]

    def texts(self, call: str) -> list[str]:
        return [shown.text for shown in self.of(call)]

    def of(self, call: str) -> list[ShownInChat]:
        return [shown for shown in self.pigeon.shown if shown.call == call]


@asynccontextmanager
async def on_stage(
    able: Capabilities = PRIVATE,
    *,
    pigeon: FakeConnector | None = None,
    memory: dict[tuple[str, str], str] | None = None,
    progress: bool = True,
    stream: bool = True,
) -> AsyncIterator[Stage]:
    """Leaving the block is a crash."""
    stage = Stage(pigeon or FakeConnector(able), {} if memory is None else memory)
    typing_status = TypingStatus(
        stage.bus,
        {"pigeon": stage.pigeon},
        stage.target,
        stage.remember,
        stage.recall_all,
        progress=progress,
        stream=stream,
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(typing_status.run)
        await trio.testing.wait_all_tasks_blocked()
        stage.zero = trio.current_time()
        yield stage
        nursery.cancel_scope.cancel()
