"""What was imported lives: jobs run at their time, memory is found, people reach their agents."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.base.messages import Origin
from daycare.features.cron.rows import CronRows
from daycare.ops.importers.running import dry_run, migrate
from daycare.plugin import Inbound
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted
from tests.cron.helpers import clock_of, ledger, ms
from tests.importers.homes import NOW_MS, clock, daycare_ts, hermes, openclaw, ours, put
from tests.importers.test_importers import wish


@asynccontextmanager
async def living(tmp: Path, model: Scripted | None = None, *, at_ms: int = NOW_MS) -> AsyncIterator[TestDaemon]:
    """Open a house over an imported home; it is the moment of the import there."""
    async with open_daemon(tmp / "home", model, location="daycare.db", clock=VirtualClock(at_ms)) as house:
        yield house


def imported(tmp: Path, product: str, source: Path, **more: Any) -> None:
    migrate(ours(tmp / "home"), wish(product, source, **more), clock=clock())


async def write(house: TestDaemon, key: str, text: str) -> str:
    inbound = Inbound(connector="telegram", sender=key, key=f"{key}:{text}", text=text)
    receipt = await house.daemon.intake.accept(inbound)
    await house.hear(receipt)
    return receipt.path


@pytest.fixture
def openclaw_home(tmp_path: Path) -> Path:
    imported(tmp_path, "openclaw", openclaw(tmp_path / "source"))
    return tmp_path


async def test_an_imported_job_runs_at_its_local_time_over_a_change_of_the_clocks(
    openclaw_home: Path, autojump_clock: trio.testing.MockClock
) -> None:
    # Summer time in Berlin ends on 2026-10-25: half past seven is 05:30 UTC before, and 06:30 from then on.
    for moment in ("2026-10-24T05:29:40", "2026-10-25T06:29:40"):
        async with living(openclaw_home, at_ms=ms(moment)) as house:
            await trio.sleep(60.0)
            runs = [run for run in await ledger(house, "morning-news") if run.state == "ran"]
            job = await house.store.of(CronRows).at("/ann/cron/morning-news")
            assert job is not None and job.next_at is not None and clock_of(job.next_at) == "06:30"
            assert await ledger(house, "sleeping") == []
    assert [clock_of(run.due_at) for run in runs] == ["05:30", "06:30"]
    assert {run.connector for run in runs} == {"telegram"}, "its answers go where they went"


async def test_a_person_reaches_their_agent_by_their_account(
    openclaw_home: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with living(openclaw_home) as house:
        assert await write(house, "telegram:424242", "hello") == "/ann/telegram"
        assert await house.store.people.by_key("telegram:1") is None


async def test_imported_memory_is_found(openclaw_home: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with living(openclaw_home) as house:
        await write(house, "telegram:424242", "hello")
        await trio.sleep(60.0)  # until documents are cut
        agent = await house.daemon.directory.at("/ann/telegram")
        for question, answer in (("which boiler is it", "Zephyrine"), ("beams of the pergola", "larchwood")):
            found = [each.text for each in await house.daemon.memory.controls.search(agent, question)]
            assert any(answer in text for text in found), question
        for word in ("xylophone", "quincetree"):
            hits = await house.daemon.memory.documents.search(agent, f"where is the {word}")
            assert hits and word in hits[0].passage, word


async def test_what_says_who_somebody_is_stands_in_no_prompt_before_it_is_approved(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    source = openclaw(tmp_path / "source")
    for name, approve, there in (("a", False, False), ("b", True, True)):
        (tmp_path / name).mkdir()
        model = Scripted()
        await trio.to_thread.run_sync(partial(imported, tmp_path / name, "openclaw", source, approve=approve))
        async with living(tmp_path / name, model) as house:
            await write(house, "telegram:424242", "hello")
            prompt = "\n".join(part for request in model.history for part in (request.system, str(request.messages)))
            assert ("patient lobster" in prompt) is there
            assert ("plays the viola" in prompt) is there
            assert "Zephyrine" in prompt, "MEMORY.md is data that each prompt has"


async def test_agents_of_the_typescript_daycare_work_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    await trio.to_thread.run_sync(lambda: imported(tmp_path, "daycare-ts", daycare_ts(tmp_path / "source")))
    async with living(tmp_path, at_ms=ms("2026-10-19T17:59:40")) as house:
        assert await write(house, "telegram:424242", "hello") == "/ann/telegram"
        receipt = await house.say("write this down", path="/ann/agent/scribe")
        assert await house.hear(receipt)
        assert [clock_of(run.due_at) for run in await _after(house, 60.0, "/ben/cron/water")] == ["18:00"]
        assert await ledger(house, "morning") == [], "what was a program waits until somebody has looked at it"
        agent = await house.store.agents.at("/ann/agent/scribe")
        assert agent is not None and agent.origin is Origin.FILE
        await house.store.agents.revive("/ann/telegram/sub/0", 0)


async def _after(house: TestDaemon, seconds: float, path: str) -> Any:
    await trio.sleep(seconds)
    return await house.store.of(CronRows).runs(path=path, limit=10)


async def test_a_dry_run_works_while_a_daemon_does(tmp_path: Path) -> None:
    home = await trio.to_thread.run_sync(ours, tmp_path / "home")
    source = hermes(tmp_path / "source")
    async with open_daemon(tmp_path / "home", location="daycare.db", clock=clock(), inline=False):
        report = await trio.to_thread.run_sync(lambda: dry_run(home, wish("hermes", source), clock=clock()))
    assert report.dry_run and report.counts["changed"]


def test_every_half_of_an_unusual_interval_becomes_the_nearest(tmp_path: Path) -> None:
    from daycare.ops.importers.schedules import every

    minute, hour, day = 60_000, 3_600_000, 86_400_000
    anchor = 1_790_000_000_000  # 2026-09-21T14:13:20Z, a Monday
    found = {
        (interval, start): every(interval, start, "UTC").cron
        for interval in (30_000, 10 * minute, 45 * minute, hour, 5 * hour, day, 3 * day, 7 * day, 30 * day)
        for start in (None, anchor)
    }
    assert list(found.values()) == [
        "*/1 * * * *", "*/1 * * * *", "*/10 * * * *", "*/10 * * * *", "0 * * * *", "0 * * * *",
        "0 * * * *", "13 * * * *", "0 */6 * * *", "13 */6 * * *", "0 9 * * *", "13 14 * * *",
        "0 9 */3 * *", "13 14 */3 * *", "0 9 * * 1", "13 14 * * 1", "0 9 1 * *", "13 14 21 * *",
    ]  # fmt: skip


def test_jobs_wait_when_that_is_asked_for(tmp_path: Path) -> None:
    source = put(tmp_path / "source", {"cron/jobs.json": {"jobs": []}})
    openclaw(source)
    report = migrate(ours(tmp_path / "home"), wish("openclaw", source, pause_jobs=True), clock=clock())
    jobs = [item for item in report.items if item.what == "job" and item.outcome in ("taken", "changed")]
    assert jobs and all(item.notes[-1] == "paused" for item in jobs)
