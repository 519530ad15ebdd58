"""Short ways to say what the tests of scheduled jobs are about."""

from typing import Any

from daycare.base.cron import CronSpec
from daycare.base.crontab import instant
from daycare.base.zones import zone_of
from daycare.features.cron.model import CronJob, CronRun
from daycare.features.cron.rows import CronRows
from daycare.testing.daemon import OWNER, TestDaemon

TEN_S = 601.0  # ten minutes and a moment, in which happens what is due then
DAY_S = 86_400.0


async def schedule(house: TestDaemon, name: str = "sum", prompt: str = "sum it up", **fields: Any) -> CronJob:
    """Add a job as somebody at the command line would; due every ten minutes unless said otherwise."""
    if "at" not in fields:
        fields.setdefault("cron", "*/10 * * * *")
    spec = CronSpec(prompt=prompt, **fields)
    return await house.daemon.cron.controls.add(OWNER, name, spec, source="cli")


async def ledger(house: TestDaemon, name: str = "sum") -> list[CronRun]:
    """Return what became of each time, oldest first."""
    runs = await house.store.of(CronRows).runs(path=f"/{OWNER}/cron/{name}", limit=1000)
    return sorted(runs, key=lambda run: run.due_at)


async def states(house: TestDaemon, name: str = "sum") -> list[tuple[str, str]]:
    """Return (UTC time of day, state) of each entry, oldest first."""
    return [(clock_of(run.due_at), run.state) for run in await ledger(house, name)]


async def delivered(house: TestDaemon, path: str = f"/{OWNER}/direct") -> list[str]:
    """Return what a terminal would show of a conversation."""
    return [row.text for row in await house.store.outbox.unread(path)]


def clock_of(at_ms: int) -> str:
    """Return the time of day in UTC."""
    minutes = at_ms // 60_000 % 1440
    return f"{minutes // 60:02}:{minutes % 60:02}"


def ms(text: str, zone: str = "UTC") -> int:
    """Return the wall milliseconds of an ISO time."""
    return instant(text, zone_of(zone))
