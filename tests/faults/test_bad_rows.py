"""A background part that meets a row it cannot work with sets it aside, tells so, and serves all others."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.messages import Envelope, Origin
from daycare.features.signals.rows import SignalRows
from daycare.features.tasks.rows import TaskRows
from daycare.store.records import NewTimer, Reply
from daycare.testing.daemon import open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted, call, say


def poisoned(what: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Let a method of the store fail on whatever holds a word, as a defect would."""

    async def run(*args: Any, **more: Any) -> Any:
        if "poison" in repr(args[1:]) or (what == "one" and "poison" in repr(args)):
            raise ValueError("a defect that this row brings up")
        return await method(*args, **more)

    return run


async def test_a_timer_that_cannot_be_read_becomes_a_dead_letter_and_the_next_one_fires(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        agent = await house.daemon.directory.at("/ann/direct")
        due = house.daemon.clock.now_ms() + 10_000
        for number in (1, 2):
            envelope = Envelope(
                to=agent.path, user="ann", origin=Origin.SYSTEM, sender="system", key=f"t{number}",
                text=f"timer {number}", trace=f"trace-{number}",
            )  # fmt: skip
            await house.store.timers.add(NewTimer(agent_id=agent.id, key=f"t{number}", due_at=due, envelope=envelope))
        house.store._db.execute("UPDATE timers SET envelope = '{half' WHERE key = 't1'")
        await trio.sleep(60)
        [letter] = [each for each in await house.store.dead.find() if each.source == "timer"]
        assert (letter.code, letter.body) == ("TIMER_UNREADABLE", "{half")
        assert "timer 2" in repr(house.model.history[-1].messages[-1])
        assert house.daemon.keeper.problems() == {}


async def test_a_reply_that_cannot_be_read_becomes_a_dead_letter_and_the_next_one_is_delivered(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        agent = await house.agent("/ann/pigeon")
        for text in ("poison", "fine"):
            await house.store.outbox.add(agent, Reply(connector="pigeon", target="1", text=text), "trace")
            house.store._db.execute("UPDATE outbox SET extra = '{half' WHERE text = 'poison'")  # before it is read
        await trio.sleep(60)
        [letter] = await house.store.dead.find()
        assert (letter.source, letter.code, letter.body) == ("outbox", "OUTBOX_UNREADABLE", "poison")
        assert [flight.text for flight in pigeon.arrived] == ["fine"]
        assert house.daemon.keeper.problems() == {}


async def test_a_signal_that_cannot_be_sent_ends_and_the_next_one_is_sent(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        await house.store.of(SignalRows).subscribe(
            await house.daemon.directory.at("/ann/direct"), "*:*", silent=False, origin=Origin.PERSON
        )
        firing = house.daemon.signals.firing
        monkeypatch.setattr(firing, "_wanted", poisoned("one", firing._wanted))
        for data in ("poison", "fine"):
            await house.daemon.signals.controls.send("ann", "deploy:done", data, call=data)
        await trio.sleep(60)
        [told] = house.events("row.set_aside")
        assert told["part"] == "signals"
        assert await house.store.of(SignalRows).find(waiting=True) == []
        assert "fine" in repr(house.model.history[-1].messages)


async def test_a_task_whose_end_cannot_be_told_is_settled_and_so_is_the_next(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        tasks = house.daemon.tasks.ends
        monkeypatch.setattr(tasks, "_settle", poisoned("one", tasks._settle))
        model.enqueue(call(("task_start", {"name": "poison", "prompt": "p"})), say("started"))
        await house.talk("do it")
        await trio.sleep(600)
        assert await house.store.of(TaskRows).unsettled(10) == []
        assert [event["part"] for event in house.events("row.set_aside")] == ["tasks"]
        assert house.daemon.keeper.problems() == {}


async def test_a_job_that_cannot_be_planned_stops_and_the_next_one_runs(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        for name in ("poison", "fine"):
            arguments = {"name": name, "cron": "*/10 * * * *", "prompt": f"say {name}"}
            model.enqueue(call(("cron_add", arguments)), say("scheduled"))
            assert await house.talk("schedule it") == "scheduled"
        schedule = house.daemon.cron.schedule
        monkeypatch.setattr(schedule, "_firing", poisoned("one", schedule._firing))
        await trio.sleep(1_800)
        [told] = house.events("row.set_aside")
        assert told["what"] == "the job /ann/cron/poison"
        runs = [event for event in house.events("cron.ran") if event["path"] == "/ann/cron/fine"]
        assert len(runs) >= 2
        assert house.daemon.keeper.problems() == {}


async def test_a_sweep_that_fails_keeps_no_other_from_sweeping(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        swept: list[str] = []
        gc = house.daemon.behaviours.parts["/system/gc"]

        async def broken(now_ms: int) -> int:
            raise ValueError("cannot be swept")

        async def fine(now_ms: int) -> int:
            swept.append("fine")
            return 0

        monkeypatch.setattr(gc, "sweeps", {"broken": broken, "fine": fine})
        await trio.sleep(2 * 3_600)
        agent = await house.daemon.directory.at("/system/gc")
        kept = await house.store.behaviours.kept(agent.id)
        assert kept is not None
        assert "broken: ValueError: cannot be swept" in repr(kept.value())
        assert swept
