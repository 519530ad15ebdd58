"""A scheduled job whose runs are tasks: one for each time, whatever crashes, and the ledger takes over what became of
it."""

from pathlib import Path

import pytest
import trio

from daycare.base.cron import CronSpec
from daycare.base.errors import BusyError, ForbiddenError, InvalidError
from daycare.base.messages import Origin
from daycare.features.cron.model import CronRun, section_of
from daycare.features.cron.rows import CronRows
from daycare.features.tasks.records import Task
from daycare.features.tasks.rows import TaskRows
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say
from tests.chance import sliced
from tests.cron.helpers import TEN_S, delivered, ledger, schedule

NOON = "2027-01-01T00:10"


async def tasks(house: TestDaemon) -> list[Task]:
    return sorted(await house.store.of(TaskRows).find(), key=lambda task: task.no)


async def test_each_time_is_a_task_and_the_ledger_has_its_end_cost_and_receipt(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        await schedule(house, prompt="report on {{city}}", at=NOON, task="report", parameters={"city": "Bonn"})
        model.enqueue(call(("task_progress", {"text": "half"})), 60.0, say("It rains."))
        await trio.sleep(TEN_S)
        [task] = await tasks(house)
        [run] = await ledger(house)
        assert (task.path, task.state, task.origin) == (f"/ann/task/report-{run.no}", "running", Origin.CRON)
        assert (run.state, run.task, run.seq, run.trace) == ("due", task.path, task.seq, task.trace)
        assert (task.prompt, task.parameters) == ("report on Bonn", {"city": "Bonn"})
        await trio.sleep(120)
        [task], [run] = await tasks(house), await ledger(house)
        assert (task.state, run.state, run.reason) == ("done", "ran", "")
        assert (run.tokens, run.cost_micros, run.answer) == (30, 0, "It rains.")
        assert (run.tokens, run.outbox) == (task.tokens, task.outbox)
        assert run.ended_at == task.ended_at and run.started_at == task.started_at
        assert await delivered(house) == ["echo: hello", "It rains."]
        assert run.outbox is not None
        await house.store.outbox.sent([run.outbox], "shown")
        [run] = await ledger(house)
        assert (run.delivery, run.receipt) == ("sent", "shown")
        [message, *_] = model.history[-1].messages
        assert "Scheduled job /ann/cron/sum, due Fri 2027-01-01 00:10 UTC" in message.text
        assert f"It is the task {task.path}, to be done by Sat 2027-01-02 00:10 UTC" in message.text
        await trio.sleep(5)
        assert await house.store.agents.at(task.path) is None, "its agent goes with it"
        assert await house.store.agents.at("/ann/cron/sum") is None, "the job needs none of its own"


async def test_each_run_knows_what_the_last_one_said(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted(lambda request: say(f"answer {len(model.history)}"))
    async with open_daemon(tmp_path, model) as house:
        await schedule(house, task="report")
        await trio.sleep(2 * TEN_S)
        assert [task.state for task in await tasks(house)] == ["done", "done"]
        assert "answer 1" in model.history[1].messages[0].text


async def test_a_task_that_is_cancelled_or_expires_is_no_failure_to_try_again(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await schedule(house, at=NOON, task="report", retry=3)
        await schedule(house, "short", at=NOON, task="short", retry=3, deadline_s=60.0)
        model.enqueue(100.0, 100.0, say("late"), say("late"))
        await trio.sleep(TEN_S)
        [run], [short] = await ledger(house), await ledger(house, "short")
        await house.daemon.tasks.controls.cancel(run.task)
        await trio.sleep(2 * 3600)
        [run], [short] = await ledger(house), await ledger(house, "short")
        assert (run.state, run.attempt, run.reason) == ("failed", 1, "cancelled: cancelled by the user")
        assert (short.state, short.attempt, short.reason) == ("failed", 1, "expired: its deadline has passed")
        assert [task.state for task in await tasks(house)] == ["cancelled", "expired"]


async def test_a_failed_task_is_tried_again_as_another_one(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    refused = BusyError("BAD_REQUEST", "the model refuses the request")
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        await schedule(house, at=NOON, task="report", retry=1)
        model.enqueue(*[refused] * 5, say("Now it works."))
        await trio.sleep(3 * TEN_S)
        [run] = await ledger(house)
        assert (run.state, run.attempt, run.answer) == ("late", 2, "Now it works.")
        assert [(task.path, task.state) for task in await tasks(house)] == [
            (f"/ann/task/report-{run.no}", "failed"),
            (f"/ann/task/report-{run.no}-2", "done"),
        ]
        assert (await delivered(house))[-1] == "Now it works."


async def test_what_a_task_says_when_it_fails_has_its_receipt_in_the_ledger(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await house.talk("hello")
        await schedule(house, at=NOON, task="report", deadline_s=60.0)
        model.enqueue(call(("task_progress", {"text": "half"})), 3600.0, say("late"))
        await trio.sleep(2 * TEN_S)
        [run], [task] = await ledger(house), await tasks(house)
        assert (run.state, run.reason) == ("failed", "expired: its deadline has passed")
        assert task.state == "expired" and run.outbox == task.outbox is not None
        assert "its deadline has passed. What it had:\nhalf" in (await delivered(house))[-1]


@pytest.mark.parametrize(("overlap", "states"), [("skip", ["ran", "skipped"]), ("queue", ["ran", "ran"])])
async def test_overlap_counts_a_task_that_has_not_ended(
    tmp_path: Path, autojump_clock: object, overlap: str, states: list[str]
) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        await schedule(house, cron="* * * * *", task="report", overlap=overlap)
        model.enqueue(100.0, say("slow"))
        await trio.sleep(170)
        assert [run.state for run in await ledger(house)][:2] == states


async def test_a_run_that_finds_no_room_for_its_task_says_so(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model, work=False) as house:
        from tests.tasks.helpers import start

        for number in range(50):
            await start(house, name=f"t{number}", key=f"t{number}")
        job = await schedule(house, task="report")
        await house.daemon.cron.controls.run(job.path)
        run = (await ledger(house))[0]
        posted = await house.store.of(CronRows).post(
            run.no, await house.daemon.cron.schedule._message(job, run, "UTC", house.daemon.clock.now_ms())
        )
        assert posted is not None and posted.state == "failed"
        assert "50 have not ended" in posted.reason


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({"task": "Report!"}, "the name of a task"),
        ({"task": "a" * 41}, "40"),
        ({"task": "r", "target": "/ann/direct"}, "target does not go with task"),
        ({"task": "r", "session": "continue"}, "session does not go with task"),
        ({"deadline_s": 60}, "only a task has a deadline"),
        ({"task": "r", "deadline_s": 0}, ">= 1"),
    ],
)
async def test_a_task_that_makes_no_sense_is_refused_by_its_field(
    tmp_path: Path, autojump_clock: object, fields: dict[str, object], what: str
) -> None:
    async with open_daemon(tmp_path) as house:
        await schedule(house, task="r")
        with pytest.raises(InvalidError, match=what):
            await house.daemon.cron.controls.change("/ann/cron/sum", {"task": None} | fields)


def test_a_file_names_the_task_in_its_fields() -> None:
    section = section_of("---\ncron: 0 7 * * *\ntask: report\ndeadline_s: 7200\n---\nSum it up.\n")
    assert section.spec() == CronSpec(cron="0 7 * * *", task="report", deadline_s=7200.0, prompt="Sum it up.")


async def test_an_agent_schedules_tasks_where_it_may_start_some(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    async with open_daemon(tmp_path, model) as house:
        arguments = {"name": "daily", "prompt": "sum it up", "cron": "0 7 * * *", "task": "report"}
        model.enqueue(call(("cron_add", arguments)), say("done"))
        await house.talk("go")
        assert (await house.daemon.cron.controls.at("/ann/cron/daily")).spec.task == "report"
        controls = house.daemon.cron.controls
        asked: list[tuple[str, str]] = []

        async def may(subject: str, action: str, target: str) -> None:
            asked.append((action, target))
            if action == "spawn":
                raise ForbiddenError("PERMISSION_DENIED", "no")

        controls.may = may
        with pytest.raises(ForbiddenError):
            spec = CronSpec(cron="0 7 * * *", prompt="x", task="report")
            await controls.add("ann", "other", spec, source="agent", by="/ann/direct")
        assert asked == [("schedule", "/ann/cron/other"), ("spawn", "/ann/task/report")]


async def test_a_crash_anywhere_between_due_and_done_neither_loses_nor_doubles_the_task(
    tmp_path: Path, autojump_clock: object
) -> None:
    async def story(house: TestDaemon) -> None:
        if not await house.store.of(CronRows).find():
            await house.talk("hello", key="hello")
            await schedule(house, at=NOON, task="report")
        while not (runs := await ledger(house)) or runs[0].ended_at is None:
            await trio.sleep(60)
        await trio.sleep(60)

    def model() -> Scripted:
        return Scripted(lambda request: say("found" if "sum it up" in request.messages[-1].text else "hi"))

    doom, clock = Doom(), VirtualClock()
    (tmp_path / "whole").mkdir()
    assert not await live(tmp_path / "whole", model(), doom, story, clock=clock)
    assert doom.commits > 6
    for commit in sliced(range(1, doom.commits + 1), 5):
        folder, clock = tmp_path / f"{commit}", VirtualClock()
        folder.mkdir()
        await live(folder, model(), Doom(commit), story, clock=clock)
        found: list[Task] = []
        runs: list[CronRun] = []
        replies: list[str] = []

        async def again(
            house: TestDaemon,
            found: list[Task] = found,
            runs: list[CronRun] = runs,
            replies: list[str] = replies,
        ) -> None:
            await story(house)
            found += await tasks(house)
            runs += await ledger(house)
            replies += await delivered(house)
            assert await house.store.agents.find(kinds=["task"]) == []

        assert not await live(folder, model(), Doom(), again, clock=clock)
        where = f"after a crash at commit {commit}"
        assert [(task.state, task.path) for task in found] == [("done", runs[0].task)], where
        assert [run.state in ("ran", "late") for run in runs] == [True], where
        assert sum(reply == "found" for reply in replies) == 1, where
