"""Heartbeats: off until a budget holds, one beat at a time, late ones left out."""

from pathlib import Path

import pytest
import trio

from daycare.base.documents import Attribution
from daycare.base.errors import ConflictError, InvalidError
from daycare.base.messages import Origin
from daycare.features.budgets.records import BudgetRow
from daycare.features.budgets.rows import BudgetRows
from daycare.features.signals.rows import SignalRows
from daycare.store.records import AgentConfig
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import say
from tests.signals.helpers import ANN, IDA, Several, living, subscribe

EVERY = 300


async def budget(house: TestDaemon, path: str = "/ann", **limits: int) -> None:
    """Set a budget, as `daycare budget set` does; none without limits."""
    if limits:
        row = BudgetRow(path=path, limits={f"day.{name}": amount for name, amount in limits.items()}, raises={},
                        set_by="ann", updated_at=house.daemon.clock.now_ms())  # fmt: skip
        await house.store.of(BudgetRows).put(row)
    else:
        await house.store.of(BudgetRows).remove(path)


async def beat(house: TestDaemon, path: str, every_s: int = EVERY) -> None:
    """Set an agent's heartbeat, past the check of the API."""
    agent = await house.daemon.directory.at(path)
    config = AgentConfig(system_prompt=f"You are the agent {path}.", heartbeat_s=every_s)
    await house.store.agents.configure(agent.id, config)


async def told(house: TestDaemon, path: str) -> dict[str, object]:
    """Return what `agents show` says of a heartbeat."""
    found = await house.daemon.signals.heartbeats.told(await house.daemon.directory.at(path))
    assert found is not None
    return found


async def test_a_heart_beats_while_nothing_else_happens(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await budget(house, tokens=10_000_000)
        house.model.default = lambda _: say("NO_REPLY")
        await house.talk("hello")
        await beat(house, ANN)
        await trio.sleep(EVERY - 40)
        assert len(house.model.history) == 1
        await trio.sleep(10 * EVERY)
        beats = len(house.model.history) - 1
        assert beats == 10, "a turn takes no time here"
        assert [row.text for row in await house.store.outbox.unread(ANN)] == ["NO_REPLY"], "the first was talk"
        message = house.model.history[-1].messages[-1]
        assert message.origin is Origin.CRON
        assert "Heartbeat: your user has set up that you look by yourself" in message.text
        assert "Look whether something is to be done now" in message.text
        shown = await told(house, ANN)
        assert (shown["beats"], shown["paused"], shown["every_s"]) == (10, "", EVERY)


async def test_it_waits_as_long_after_work_and_never_beats_twice_at_once(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house:
        await budget(house, tokens=10_000_000)
        house.model.default = lambda _: say("NO_REPLY")
        await house.talk("hello")
        await beat(house, ANN)
        for _ in range(5):
            await trio.sleep(EVERY - 60)
            await house.talk("I am here")
        assert len(house.model.history) == 6
        house.model.enqueue(3 * EVERY, say("NO_REPLY"))  # its turn is stopped by its deadline, and tried again
        await trio.sleep(EVERY + 60)
        assert (await told(house, ANN))["beats"] == 1
        await trio.sleep(60)
        assert (await told(house, ANN))["beats"] == 1


async def test_after_downtime_there_is_one_beat(tmp_path: Path, autojump_clock: object) -> None:
    model, clock = Several(), VirtualClock()
    model.default = lambda _: say("NO_REPLY")
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        await budget(house, tokens=10_000_000)
        await house.talk("hello")
        await beat(house, ANN)
        await trio.sleep(60)
    await trio.sleep(100_000)
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        await trio.sleep(60)
        assert len(model.history) == 2
        await trio.sleep(EVERY - 60)
        assert len(model.history) == 2
        await trio.sleep(120)
        assert len(model.history) == 3


async def test_what_a_heartbeat_finds_reaches_the_last_conversation(tmp_path: Path, autojump_clock: object) -> None:
    model = Several()
    model.script(IDA).enqueue(say("The parcel is there."))
    async with open_daemon(tmp_path, model) as house:
        await budget(house, tokens=10_000_000)
        await house.talk("hello")
        await living(house, IDA)
        await beat(house, IDA)
        await trio.sleep(3 * EVERY + 120)
        assert len(model.of[IDA].history) == 3
        assert [row.text for row in await house.store.outbox.unread(ANN)] == ["echo: hello", "The parcel is there."]
        await house.talk("which?")
        assert any(f"a heartbeat of {IDA}" in message.text for message in model.history[-1].messages)


async def test_without_a_budget_none_may_be_set_and_none_beats(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        house.model.default = lambda _: say("NO_REPLY")
        await house.talk("hello")
        check = house.daemon.signals.heartbeats.check
        config = AgentConfig(heartbeat_s=EVERY)
        with pytest.raises(ConflictError) as refused:
            await check(ANN, "connector", "ann", config)
        assert refused.value.code == "HEARTBEAT_NO_BUDGET" and "daycare budget set" in refused.value.hint
        await budget(house, tokens=10_000_000)
        await check(ANN, "connector", "ann", config)
        await check(ANN, "connector", "ann", AgentConfig())
        for every_s in (60, 8 * 86_400):
            with pytest.raises(InvalidError, match="300 to 604800"):
                await check(ANN, "connector", "ann", AgentConfig(heartbeat_s=every_s))
        with pytest.raises(InvalidError, match="a task has no heartbeat"):
            await check("/ann/task/x", "task", "ann", config)
        await beat(house, ANN)
        await trio.sleep(2 * EVERY + 120)
        assert (await told(house, ANN))["beats"] == 2
        await budget(house)
        await trio.sleep(10 * EVERY)
        shown = await told(house, ANN)
        assert (shown["beats"], shown["next_at"]) == (2, None)
        assert "nobody has set a budget" in str(shown["paused"]) and "daycare budget set /ann/direct" in str(
            shown["paused"]
        )
        await budget(house, tokens=10_000_000)
        await trio.sleep(60)
        assert (await told(house, ANN))["beats"] == 3
        await beat(house, ANN, 0)
        await trio.sleep(10 * EVERY)
        assert len(house.model.history) == 4


async def test_a_budget_that_is_used_up_pauses_it_without_a_word(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        house.model.default = lambda _: say("NO_REPLY")
        await budget(house, calls=5)
        await house.talk("hello")
        await beat(house, ANN)
        await trio.sleep(10 * EVERY)
        shown = await told(house, ANN)
        assert shown["beats"] == 3, "nobody waits for it: it has 80 % of five calls"
        assert "is used" in str(shown["paused"])
        assert await house.store.dead.count() == 0


async def test_a_document_says_what_to_look_at(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        house.model.default = lambda _: say("NO_REPLY")
        await budget(house, tokens=10_000_000)
        await house.talk("hello")
        by = Attribution(origin=Origin.PERSON, author="direct:ann")
        ann = await house.daemon.directory.at(ANN)
        await house.daemon.memory.documents.write(ann, "knowledge/heartbeat.md", "Look at the oven.", by)
        await beat(house, ANN)
        await trio.sleep(EVERY + 60)
        text = house.model.history[-1].messages[-1].text
        assert text.endswith("\nLook at the oven.") and "whether something is to be done now" not in text


async def test_a_heartbeat_is_no_work_that_others_hear_of(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        house.model.default = lambda _: say("NO_REPLY")
        await budget(house, tokens=10_000_000)
        await living(house, IDA)
        await house.agent(ANN)
        await subscribe(house, IDA, "agent:*:*")
        await beat(house, ANN)
        await trio.sleep(3 * EVERY + 120)
        assert len(house.model.history) == 3
        assert await house.store.of(SignalRows).find() == []


async def test_a_clock_set_back_stops_no_heart(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, clock=clock) as house:
        house.model.default = lambda _: say("NO_REPLY")
        await budget(house, tokens=10_000_000)
        await house.agent(ANN)
        await beat(house, ANN)
        await trio.sleep(EVERY + 60)
        clock.shift(-86_400 * 3)
        await trio.sleep(3 * EVERY)
        assert 2 <= len(house.model.history) <= 4
        clock.shift(86_400 * 10)
        await trio.sleep(60)
        assert 3 <= len(house.model.history) <= 5
