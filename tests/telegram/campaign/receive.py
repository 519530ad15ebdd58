"""Receiving: thousands of updates, every fault of getUpdates, ids that start anew, and a daemon that is killed."""

import random
import time
from typing import Final

import trio

from daycare_plugins.telegram.testing.server import FakeTelegram, TelegramFault, bad_gateway, garbage, lost, refused
from tests.telegram.campaign import judge
from tests.telegram.campaign.crowd import Crowd
from tests.telegram.campaign.mind import told
from tests.telegram.campaign.presses import Presses
from tests.telegram.campaign.report import Report, percentile, say
from tests.telegram.campaign.stage import Stage, open_topics, rooms_of, staged

POLL_S: Final = 2
A_LIFE_S: Final = 4.0  # on average, start included
START_SHARE: Final = 0.25  # of the kills come while the daemon starts
FAULT_EVERY_S: Final = 1.5  # on average
RESTARTS: Final = 8
_MIN_PER_S: Final = 40.0
_QUIET_S: Final = 900.0
_AGAIN_MAX: Final = 30


class _Pusher:
    """Lets the crowd act, at a steady pace."""

    def __init__(self, stage: Stage, crowd: Crowd, updates: int, per_s: float) -> None:
        self.done = trio.Event()
        self.resting = False  # while the ids start anew
        self._stage, self._crowd, self._updates, self._per_s = stage, crowd, updates, per_s

    async def run(self) -> None:
        """Push so many updates."""
        began, paused_s = trio.current_time(), 0.0
        while self._crowd.updates < self._updates:
            if self.resting:
                paused_s += 0.02
                await trio.sleep(0.02)
                continue
            due = (trio.current_time() - began - paused_s) * self._per_s
            while self._crowd.updates < min(due, self._updates):
                self._crowd.act(self._stage.rooms)
            await trio.sleep(0.02)
        self.done.set()


async def run(updates: int, chats: int, kills: int, seed: int) -> Report:
    """Run a campaign."""
    began = time.perf_counter()
    report = Report("receive", seed)
    rng = random.Random(f"receive/{seed}")
    async with staged(report, poll_s=POLL_S) as stage:
        groups = max(2, chats // 8)
        rooms = rooms_of(stage.server, chats, groups=groups, forums=groups // 2)
        rooms[groups - 1].addressed = True
        stage.configure(rooms)
        await stage.introduce(rooms)
        open_topics(stage.server, stage.rooms)
        crowd, presses = Crowd(stage, rng), Presses(stage.server)
        stage.server.queue.on_confirm.append(crowd.confirmed)
        pusher = _Pusher(stage, crowd, updates, max(_MIN_PER_S, updates / max(kills * A_LIFE_S, 1.0)))
        faults: dict[str, int] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pusher.run)
            nursery.start_soon(_make_trouble, stage.server, pusher, rng, faults, max(1, min(RESTARTS, updates // 100)))
            killed_at = await _kill(stage, crowd, rng, kills, updates)
            await pusher.done.wait()
            nursery.cancel_scope.cancel()
        stage.server.no_more_faults()
        say(f"{crowd.updates} updates pushed after {time.perf_counter() - began:.0f} s; waiting until all is answered")
        pushed_s = time.perf_counter() - began
        quiet = await stage.quiet(_QUIET_S)
        pressed = sum(crowd.press(room) for room in stage.rooms)  # what was offered only now
        if quiet and (not pressed or await stage.quiet(_QUIET_S)):
            assert stage.process is not None
            await presses.answered(killed_at)
            await stage.process.stop()
        _judge(stage, crowd, presses, killed_at, report)
        report.figures = {
            "updates": crowd.updates,
            "chats": chats,
            "kills": kills,
            "messages": len(crowd.said),
            "presses": len(crowd.pressed),
            "malformed": len(crowd.malformed),
            "knocks": sum(crowd.knocks.values()),
            "faults": dict(sorted(faults.items())),
            **report.figures,
            "ready_p50_s": percentile(stage.ready_s, 50),
            "pushed_s": round(pushed_s, 1),
            "seconds": round(time.perf_counter() - began, 1),
        }
    return report


async def _kill(stage: Stage, crowd: Crowd, rng: random.Random, kills: int, updates: int) -> list[float]:
    """Kill the daemon so many times, evenly over the updates, and leave one running; return when."""
    killed_at: list[float] = []
    for number in range(kills):
        if stage.process is None or number:
            stage.start()
        assert stage.process is not None
        if rng.random() < START_SHARE:
            await trio.sleep(rng.uniform(0.0, 1.2))
        else:
            await stage.process.ready()
            while crowd.updates < updates * (number + 0.5) / kills:
                await trio.sleep(0.05)
            await trio.sleep(rng.uniform(0.2, 1.5))
        await stage.process.kill()
        killed_at.append(trio.current_time())
        if (number + 1) % 5 == 0:
            say(f"{number + 1} of {kills} kills, {crowd.updates} updates, {stage.report.harm} findings")
    if kills:
        await stage.up()
    return killed_at


async def _make_trouble(
    server: FakeTelegram, pusher: _Pusher, rng: random.Random, counted: dict[str, int], restarts: int
) -> None:
    """Let getUpdates go wrong, give out updates once more, and let ids start anew."""
    faults = {
        "lost": lost(),
        "dropped": TelegramFault(drop="before"),
        "500": refused(500, "Internal Server Error"),
        "502": bad_gateway(),
        "garbage": garbage(),
        "cut": TelegramFault(cut_after_bytes=40),
        "slow": TelegramFault(delay_s=0.4),
        "slow and lost": TelegramFault(delay_s=0.2, drop="after"),
    }
    deeds = [*faults, "again", "again", *["anew"] * 2]
    while True:
        await trio.sleep(rng.expovariate(1 / FAULT_EVERY_S))
        deed = rng.choice(deeds)
        if deed == "anew" and restarts <= 0:
            deed = "lost"
        counted[deed] = counted.get(deed, 0) + 1
        if deed == "again":
            server.redeliver(rng.randint(1, _AGAIN_MAX))
        elif deed == "anew":
            restarts -= 1
            if rng.random() < 0.5:
                counted["anew in the middle"] = counted.get("anew in the middle", 0) + bool(server.queue)
                server.next_update_id = _lower(server, rng)
                continue
            pusher.resting = True  # the real server does it when all is confirmed
            with trio.move_on_after(20):
                while server.queue:
                    await trio.sleep(0.05)
                server.next_update_id = _lower(server, rng)
            pusher.resting = False
        else:
            server.fault("getUpdates", faults[deed])


def _lower(server: FakeTelegram, rng: random.Random) -> int:
    return rng.randrange(1_000, max(server.next_update_id - 20_000, 2_000))


def _judge(stage: Stage, crowd: Crowd, presses: Presses, killed_at: list[float], report: Report) -> None:
    with stage.store() as db:
        store = judge.read(db)
        judge.left_over(db, report)
    judge.judge_inbox(store, crowd.said, report)
    found = judge.delivered(stage.server, stage.rooms, report)
    judge.judge_answers(store, found, crowd.said, report)
    judge.judge_told(store, told(stage.home.folder), crowd.said, report)
    crowd.judge_strangers(report)
    crowd.judge_asides(store, report)
    presses.judge(killed_at, report)
    report.figures = {
        "turns": store.turns,
        "answers": found.messages,
        "marked": found.marked,
        "parked": store.parked,
        "polls": len(stage.server.called("getUpdates")),
        "confirmed": stage.server.confirmed,
    }
