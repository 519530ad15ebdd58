"""Receiving: thousands of events, repeated and in any order, connections that break, and a daemon that is killed."""

import random
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import trio

from daycare_plugins.slack.testing.link import SlackEnvelope
from daycare_plugins.slack.testing.server import SlackFault, busy, lost, refused, unreached
from tests.slack.campaign.crowd import SlackCrowd
from tests.slack.campaign.judge import KINDS, delivered, judge_answers, judge_deleted
from tests.slack.campaign.stage import SlackStage, rooms_of, staged
from tests.telegram.campaign import judge
from tests.telegram.campaign.mind import told
from tests.telegram.campaign.report import Report, percentile, say

A_LIFE_S: Final = 4.0  # on average, start included
START_SHARE: Final = 0.25  # of the kills come while the daemon starts
FAULT_EVERY_S: Final = 0.8  # on average
AGAIN_MAX: Final = 30
_MIN_PER_S: Final = 40.0
_QUIET_S: Final = 1_800.0
_CALLS: Final = ("chat.postMessage", "chat.postMessage", "chat.update", "users.info", "files.info", "auth.test",
                 "apps.connections.open", "conversations.history", "conversations.open")  # fmt: skip


async def run(events: int, rooms: int, kills: int, seed: int) -> Report:
    """Run a campaign."""
    began = time.perf_counter()
    report = Report("receive", seed, KINDS)
    rng = random.Random(f"slack/receive/{seed}")
    async with staged(report) as stage:
        await stage.introduce(rooms_of(stage.slack, rooms, channels=max(1, rooms // 4)))
        crowd = SlackCrowd(stage, rng)
        faults: Counter[str] = Counter()
        before = stage.slack.links.pushed
        async with trio.open_nursery() as nursery:
            pushed = trio.Event()
            nursery.start_soon(
                _push, stage, crowd, events, max(_MIN_PER_S, events / max(kills * A_LIFE_S, 1.0)), pushed
            )
            nursery.start_soon(_make_trouble, stage, rng, faults)
            await _kill(stage, rng, kills, events)
            await pushed.wait()
            nursery.cancel_scope.cancel()
        stage.slack.no_more_faults()
        stage.slack.links.paused = False
        stage.slack.links.tell()
        pushed_s = time.perf_counter() - began
        say(f"{stage.slack.links.pushed} events pushed after {pushed_s:.0f} s; waiting until all is answered")
        quiet = await stage.quiet(_QUIET_S)
        pressed = sum(crowd.press(room) for room in stage.rooms)  # what was offered only now
        if quiet and (not pressed or await stage.quiet(_QUIET_S)):
            assert stage.process is not None
            await stage.process.stop()
        figures = _judge(stage, crowd, kills, report)
        links = stage.slack.links
        report.figures = {
            "events": links.pushed - before,
            "rooms": rooms,
            "kills": kills,
            "messages": len(crowd.said),
            "deeds": dict(sorted(crowd.deeds.items())),
            "faults": dict(sorted(faults.items())),
            "delivered": links.delivered,
            "connections": links.opened,
            "paced": stage.slack.paced,
            **figures,
            "ready_p50_s": percentile(stage.ready_s, 50),
            "pushed_s": round(pushed_s, 1),
            "seconds": round(time.perf_counter() - began, 1),
        }
    return report


async def _push(stage: SlackStage, crowd: SlackCrowd, events: int, per_s: float, done: trio.Event) -> None:
    """Let the crowd act at a steady pace until there were so many events."""
    began = trio.current_time()
    links = stage.slack.links
    while links.pushed < events:
        due = (trio.current_time() - began) * per_s
        while links.pushed < min(due, events):
            crowd.act(stage.rooms)
        await trio.sleep(0.02)
    done.set()


async def _kill(stage: SlackStage, rng: random.Random, kills: int, events: int) -> None:
    """Kill the daemon so many times, evenly over the events, and leave one running."""
    for number in range(kills):
        if stage.process is None or number:
            stage.start()
        assert stage.process is not None
        if rng.random() < START_SHARE:
            await trio.sleep(rng.uniform(0.0, 1.5))
        else:
            await stage.process.ready()
            while stage.slack.links.pushed < events * (number + 0.5) / kills:
                await trio.sleep(0.05)
            await trio.sleep(rng.uniform(0.2, 1.8))
        await stage.process.kill()
        if (number + 1) % 5 == 0:
            say(f"{number + 1} of {kills} kills, {stage.slack.links.pushed} events, {stage.report.harm} findings")
    if kills:
        await stage.up()


async def _make_trouble(stage: SlackStage, rng: random.Random, counted: Counter[str]) -> None:
    """Let calls and connections go wrong, and envelopes come again and in another order."""
    links, slack = stage.slack.links, stage.slack
    done: deque[SlackEnvelope] = deque(maxlen=200)
    links.on_acknowledged.append(done.append)
    faults: dict[str, Callable[[], SlackFault]] = {
        "rate limit": lambda: busy(rng.randint(1, 3)),
        "lost answer": lost,
        "no connection": unreached,
        "503": lambda: SlackFault(status=503),
        "internal_error": lambda: refused("internal_error"),
    }
    deeds = [*faults, "rate limit", "again", "again", "mix", "mix", "disconnect", "drop", "pause"]
    while True:
        await trio.sleep(rng.expovariate(1 / FAULT_EVERY_S))
        deed = rng.choice(deeds)
        counted[deed] += 1
        if deed == "again":
            for each in rng.sample(list(done), min(len(done), rng.randint(1, AGAIN_MAX))):
                links.push(each.kind, each.payload)
        elif deed == "mix":
            links.mix(rng)
        elif deed == "disconnect":
            await links.disconnect()
        elif deed == "drop":
            await links.drop()
        elif deed == "pause":
            links.paused = True
            await trio.sleep(rng.uniform(0.1, 2.0))
            links.paused = False
            links.tell()
        else:
            slack.fault(rng.choice(_CALLS), faults[deed]())


def _judge(stage: SlackStage, crowd: SlackCrowd, kills: int, report: Report) -> dict[str, int]:
    with stage.store() as db:
        store = judge.read(db)
        judge.left_over(db, report, kills)
    kept = [one for one in crowd.said if (one.edit_of or one.name) not in crowd.deleted]
    judge.judge_inbox(store, kept, report, in_order=False)
    judge_deleted(store, [one.name for one in crowd.said if one not in kept], report)
    found = delivered(stage.slack, stage.rooms, report)
    judge_answers(store, found, kept, report, in_order=False)
    judge.judge_told(store, told(stage.home.folder), crowd.said, report, may_miss_files=True)
    crowd.judge(store, report)
    return {"turns": store.turns, "answers": found.messages, "marked": found.marked, "repeats": len(found.repeats),
            "stale": _stale(store, kept),
            "deleted_unread": sum(not store.heard.get(name) for name in crowd.deleted),
            "parked": store.parked}  # fmt: skip


def _stale(store: judge.Store, said: list[judge.Said]) -> int:
    """Return how many messages were read in words that had been corrected once more: the last edit came first."""
    last = {one.edit_of: one.name for one in said if one.edit_of}
    earlier = {one.edit_of for one in said if store.heard.get(one.name) and one.name != last.get(one.edit_of)}
    return sum(not store.heard.get(name) for message, name in last.items() if message in earlier)
