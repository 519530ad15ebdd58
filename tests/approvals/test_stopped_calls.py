"""A call during which a server asks a person is stopped once its turn waits for it no more, without a server here."""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
import trio

from daycare.feature import Core
from daycare.features.mcp.asking import AskingCalls, Make
from daycare.features.mcp.frames import FoundTool, McpQuestion
from daycare.features.mcp.records import PinnedTool
from daycare.plugin import ToolContext, Waiting
from daycare.store.records import Step
from daycare.testing.daemon import OWNER, open_daemon
from daycare.testing.scripted import Scripted

PINNED = PinnedTool(server="s", tool="t", now=FoundTool(name="t", digest="d"), here=True, found_at=0)


@dataclass
class OfATurn:
    """What a call knows of its turn."""

    path: str
    turn: int
    step: int = 1
    trace: str = "trace"

    def progress(self, text: str) -> None:
        """Nobody listens."""


@pytest.mark.parametrize("waits", [True, False])
async def test_a_call_is_stopped_at_the_first_commit_after_which_its_turn_waits_no_more(
    tmp_path: Path, autojump_clock: object, waits: bool
) -> None:
    stopped = trio.Event()
    model = Scripted()

    async def make(pinned: object, arguments: object, ears: object) -> object:
        ears(lambda answer: None).asked(McpQuestion(id=1, call=1, message="really?"))  # type: ignore[operator]
        try:
            await trio.sleep_forever()
        finally:
            stopped.set()

    async with open_daemon(tmp_path, model) as house, trio.open_nursery() as nursery:
        it = house.daemon
        core = Core(it.store, it.directory, it.router, it.bus, it.clock, it.live, it.permissions.check, OWNER)
        model.enqueue(1_000.0)  # a turn that runs
        await house.say("think hard")
        agent = await it.directory.at("/ann/direct")
        while (turn := await it.store.turns.open_turn(agent.id)) is None:
            await trio.sleep(0.01)
        if waits:
            step = Step(turn=turn.turn, step=1, kind="tool", name="t", state="started", idempotent=False)
            await it.store.turns.journal([step])
        calls = AskingCalls(core, it.approvals, nursery, cast(Make, make))
        nursery.start_soon(calls.tend)
        context = cast(ToolContext, OfATurn(agent.path, turn.turn))
        assert isinstance(await calls.run(PINNED, {}, context, 60.0), Waiting)
        calls.committed()
        await trio.sleep(1)
        assert stopped.is_set() is not waits
        nursery.cancel_scope.cancel()
