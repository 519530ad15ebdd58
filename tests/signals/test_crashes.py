"""A crash at each commit of a signal's or a heartbeat's life neither loses nor doubles a message."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from daycare.features.budgets.records import BudgetRow
from daycare.features.budgets.rows import BudgetRows
from daycare.features.signals.rows import HeartbeatRows
from daycare.plugin import Completion, InferRequest
from daycare.store.records import AgentConfig
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon
from daycare.testing.scripted import Scripted, call, say
from tests.chance import sliced
from tests.signals.helpers import ANN, IDA, TOM, heard, history

Story = Callable[[TestDaemon], Awaitable[None]]


def model() -> Scripted:
    def answer(request: InferRequest) -> Completion:
        last = request.messages[-1]
        if last.role == "user" and "tell them" in last.text:
            return call(("signal_send", {"type": "tea:ready", "data": "green", "after_s": 10, "repeat": "tea"}))
        if "Heartbeat:" in last.text:
            return say("The parcel is there.")
        return say("NO_REPLY")

    return Scripted(answer)


async def begin(house: TestDaemon) -> None:
    await house.hear(await house.say("hello", key="hello"))
    for path in (IDA, TOM):
        await house.agent(path)


async def tells(house: TestDaemon) -> None:
    """An agent sends a delayed signal; two get it, one as a note; it itself does not."""
    await begin(house)
    for path in (ANN, IDA, TOM):
        await house.daemon.signals.controls.subscribe(path, "tea:*", silent=path == TOM)
    await house.hear(await house.say("tell them", key="tell"))
    await trio.sleep(30)
    fired = [it for it in await history(house) if it.type == "tea:ready"]
    assert [(it.state, len(it.deliveries)) for it in fired] == [("fired", 2)]
    assert await heard(house, IDA) == ["tea:ready"]
    assert await heard(house, TOM) == ["tea:ready"]
    assert await heard(house, ANN) == []


async def falls_idle(house: TestDaemon) -> None:
    """A conversation becomes idle, and another agent hears of it."""
    await begin(house)
    await house.daemon.signals.controls.subscribe(IDA, f"agent:{ANN}:idle")
    await house.hear(await house.say("work", key="work"))
    await trio.sleep(90)
    assert await heard(house, IDA) == [f"agent:{ANN}:idle"]
    assert len(await history(house)) == 1


async def beats(house: TestDaemon) -> None:
    """A permanent agent's heart beats once, and its person hears what came of it."""
    await begin(house)
    row = BudgetRow(path="/", limits={"day.tokens": 10**9}, raises={}, set_by="ann", updated_at=1)
    await house.store.of(BudgetRows).put(row)
    agent = await house.daemon.directory.at(IDA)
    history = await house.store.turns.history(agent.id, agent.session, 10)
    shown = await house.store.of(HeartbeatRows).of(agent)
    if not history and (shown is None or not shown.beats):
        await house.store.agents.configure(agent.id, AgentConfig(heartbeat_s=60))
    for _ in range(40 if not history else 0):
        shown = await house.store.of(HeartbeatRows).of(await house.daemon.directory.at(IDA))
        if shown is not None and shown.beats and not shown.busy:
            break
        await trio.sleep(10)
    await house.store.agents.configure(agent.id, AgentConfig())
    await trio.sleep(60)
    told = [row.text for row in await house.store.outbox.unread(ANN)]
    assert told.count("The parcel is there.") == 1, told


@pytest.mark.parametrize("story", [tells, falls_idle, beats])
async def test_a_crash_anywhere_loses_and_doubles_nothing(tmp_path: Path, autojump_clock: object, story: Story) -> None:
    doom = Doom()
    (tmp_path / "whole").mkdir()
    clock = VirtualClock()
    assert not await live(tmp_path / "whole", model(), doom, story, clock=clock)
    assert doom.commits > 8
    for commit in sliced(range(1, doom.commits + 1), 4):
        folder = tmp_path / f"{commit}"
        folder.mkdir()
        await live(folder, model(), Doom(commit), story, clock=clock)
        try:
            assert not await live(folder, model(), Doom(), story, clock=clock)
        except AssertionError as error:
            raise AssertionError(f"after a crash at commit {commit}: {error}") from error
