"""Outages: the server away, a second poller, a connection that stands still; the daemon says so, and recovers."""

import random
import time
from typing import Final

import httpx
import trio

from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.telegram.campaign import judge
from tests.telegram.campaign.report import Report, say
from tests.telegram.campaign.stage import Room, Stage, rooms_of, staged

STATE_S: Final = 45.0  # within which a state has to change
CONFLICT_SHARE: Final = 0.25  # of the outage's time the second poller and the stall take each
OTHER_POLL_S: Final = 30  # the hold of the second poller's polls
TALK_EVERY_S: Final = 0.7
BACK_AFTER_CONFLICT_S: Final = 330.0  # the longest pause of the escalation
_QUIET_S: Final = 180.0


async def run(seconds: float, chats: int, seed: int, poll_s: int = 20, *, short: bool = False) -> Report:
    """Run a campaign: the server is away for so long, and a quarter of it each for the others.

    A `short` one lets no answer be on its way when the connection begins to stand still, which would be sent again half
    a minute later, and does not wait for the end of the conflict.
    """
    began = time.perf_counter()
    report = Report("outage", seed)
    rng = random.Random(f"outage/{seed}")
    async with staged(report, poll_s=poll_s) as stage:
        server = stage.server
        await stage.introduce(rooms_of(server, chats))
        if await stage.until_state({"up"}, STATE_S) is None:
            report.find("late", f"not up after {STATE_S:g} s: {await stage.health()}")
        talk = _Talk(stage, rng)
        figures: dict[str, float | None] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(talk.run)
            server.away = True
            figures["away_s"] = await _changes(stage, "away", {"away"})
            await _stays(stage, seconds, "away")
            server.away = False
            figures["back_from_away_s"] = await _changes(stage, "up", {"up"})
            if short:
                talk.resting = True
                await stage.quiet(_QUIET_S)
            server.stalled = True
            talk.resting = False
            figures["stalled_s"] = await _changes(stage, "stalled", {"stalled"})
            await _stays(stage, seconds * CONFLICT_SHARE, "stalled", "away")
            server.stalled = False
            figures["back_from_stall_s"] = await _changes(stage, "up", {"up"})
            if not short:
                await _conflict(stage, seconds * CONFLICT_SHARE, figures, nursery)
                figures["back_from_conflict_s"] = await _changes(stage, "up", {"up"}, BACK_AFTER_CONFLICT_S)
            nursery.cancel_scope.cancel()
        quiet = await stage.quiet(_QUIET_S)
        if short:
            async with trio.open_nursery() as nursery:
                await _conflict(stage, 0.0, figures, nursery)
        assert stage.process is not None
        if quiet:
            await stage.process.stop()
            _judge(stage, talk.said, report)
        rounded = {name: None if value is None else round(value, 1) for name, value in figures.items()}
        report.figures = {"messages": len(talk.said), **rounded, "seconds": round(time.perf_counter() - began, 1)}
    return report


async def _conflict(stage: Stage, seconds: float, figures: dict[str, float | None], nursery: trio.Nursery) -> None:
    """Let somebody else poll for a while."""
    other = trio.CancelScope()
    nursery.start_soon(_other_poller, stage.server, other)
    figures["conflict_s"] = await _changes(stage, "conflict", {"conflict"})
    health = await stage.health()
    if "somebody else" not in health["reason"]:
        stage.report.find("broken", f"the conflict names nobody: {health}")
    await _stays(stage, seconds, "conflict", "up")
    other.cancel()


async def _changes(stage: Stage, what: str, wanted: set[str], deadline_s: float = STATE_S) -> float | None:
    took_s = await stage.until_state(wanted, deadline_s)
    if took_s is None:
        stage.report.find("late", f"not {what} after {deadline_s:g} s: {await stage.health()}")
    else:
        say(f"{what} after {took_s:.1f} s")
    return took_s


async def _stays(stage: Stage, seconds: float, *allowed: str) -> None:
    """Let it last; a deaf bot is never called healthy meanwhile."""
    until = trio.current_time() + seconds
    while trio.current_time() < until:
        health = await stage.health()
        if health["state"] not in allowed:
            stage.report.find("broken", f"{health} while it is to be one of {allowed}")
            return
        await trio.sleep(min(1.0, max(until - trio.current_time(), 0.01)))


class _Talk:
    """People who write all the while."""

    def __init__(self, stage: Stage, rng: random.Random) -> None:
        self.said: list[tuple[Room, str]] = []
        self.resting = False
        self._stage = stage
        self._rng = rng

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            if not self.resting:
                room = self._rng.choice(self._stage.rooms)
                name = room.name()
                self._stage.server.say(room.place, room.writers[0], name)
                self.said.append((room, name))
            await trio.sleep(self._rng.expovariate(1 / TALK_EVERY_S))


async def _other_poller(server: FakeTelegram, scope: trio.CancelScope) -> None:
    """Poll as another program does that has the same token. It confirms nothing."""
    url = f"{server.base_url}{server.token}/getUpdates"
    with scope:
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=OTHER_POLL_S + 10) as client:
            while True:
                await client.post(url, json={"timeout": OTHER_POLL_S, "limit": 1})
                await trio.sleep(0.5)


def _judge(stage: Stage, said: list[tuple[Room, str]], report: Report) -> None:
    with stage.store() as db:
        judge.left_over(db, report)
    found = judge.delivered(stage.server, stage.rooms, report)
    newest: dict[int, int] = {}
    for room, name in said:
        message = found.first.get(name)
        if message is None:
            report.find("lost", f"the answer to {name}")
            continue
        if message.id < newest.get(room.number, 0):
            report.find("reordered", f"the answer to {name}")
        newest[room.number] = max(newest.get(room.number, 0), message.id)
