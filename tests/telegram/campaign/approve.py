"""Approving: people decide on their phones what agents propose to remember, and the daemon is killed all the while.

The kills come at random moments, while it starts, and at named points: before and after the commits of a request's
life, at moments of the calls to Telegram, and while the model thinks.
"""

import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Final

import trio

from daycare.base.limits import ATTEMPTS_MAX
from daycare.testing.openai_server import FakeOpenAI
from tests.planted.plugin import patience_s
from tests.telegram.campaign import papers
from tests.telegram.campaign.killer import Asked, Call, Commit, Killer, Point
from tests.telegram.campaign.phone import Deed, Phone, Plan
from tests.telegram.campaign.presses import Presses
from tests.telegram.campaign.proposer import TOLD, Proposer
from tests.telegram.campaign.report import Report, say
from tests.telegram.campaign.stage import Stage, rooms_of, staged

POLL_S: Final = 2
PLANS: Final[dict[Plan, int]] = {
    "approve": 6, "edit": 4, "reject": 3, "undo": 4, "race": 4, "stale": 4, "ignore": 1,
}  # fmt: skip
DEEDS_MAX: Final = 25  # of one person: an agent may ask for 30 things an hour
IGNORED_MAX: Final = 5  # of one person: 10 requests may be open
PAUSE_S: Final = 2.0  # on average, between two deeds of one person
PATIENT_SHARE: Final = 0.5  # of the people never press twice
PATIENCE_S: Final = (1.5, 6.0)  # of the others
KILLS_A_PERSON: Final = 6
START_SHARE: Final = 0.15  # of the kills come while the daemon starts ...
MOMENT_SHARE: Final = 0.25  # ... or at any moment later, the others at a point
START_S: Final = 1.5
MOMENT_S: Final = 2.5
ATTEMPTS_LEFT: Final = 3  # of a turn, when it is let be: one that crashes interrupt five times is given up
STRIKE_S: Final = 10.0  # a point that does not come by then: the daemon is killed as it is
SKIP_MAX: Final = 3
STUCK_S: Final = 600.0  # of one thing that a person waits for: daemons that die at once do not get on
REST_S: Final = 180.0  # by then all decided requests say so: that is less urgent than anything else
_QUIET_S: Final = 300.0

HEARD: Final = "SELECT count(*) FROM inbox"
REQUESTED: Final = "SELECT count(*) FROM approvals"
REVISED: Final = "SELECT total(revision - 1) FROM approvals"
DECIDED: Final = "SELECT count(*) FROM approvals WHERE state <> 'pending'"
UNDONE: Final = "SELECT count(undone) FROM approvals"
SHOWN: Final = "SELECT count(*) FROM approval_messages m JOIN outbox o ON o.seq = m.outbox WHERE o.state = 2"
PRESSED: Final = "SELECT count(*) FROM inbox WHERE kind = 'command'"
ANSWERED: Final = "SELECT count(*) FROM outbox WHERE turn IS NULL AND text LIKE 'Approved%'"
FOLLOW_UP_BEGUN: Final = (
    "SELECT count(*) FROM turns WHERE origin = 'system'"
    " AND agent_id NOT IN (SELECT id FROM agents WHERE kind = 'system')"
)
TURN_OVER: Final = "SELECT count(*) FROM history"
NOTED: Final = "SELECT count(*) FROM history WHERE messages LIKE '%was undone%'"
FOLLOWED_UP: Final = f"SELECT count(*) FROM outbox WHERE text LIKE '{TOLD}%'"
SETTLED: Final = "SELECT count(*) FROM approval_messages WHERE content_hash = ''"
DELIVERED: Final = f"SELECT count(*) FROM outbox WHERE text LIKE '{TOLD}%' AND state = 2"

_COMMITS: Final = {
    "heard": HEARD, "requested": REQUESTED, "shown": SHOWN, "pressed": PRESSED, "revised": REVISED, "decided": DECIDED,
    "undone": UNDONE, "answered": ANSWERED, "follow-up begun": FOLLOW_UP_BEGUN, "turn over": TURN_OVER,
    "delivered": DELIVERED, "settled": SETTLED,
}  # fmt: skip
POINTS: Final[dict[str, Point]] = {
    **{f"before {name}": Commit("before", when) for name, when in _COMMITS.items()},
    **{f"after {name}": Commit("after", when) for name, when in _COMMITS.items()},
    "the model asked": Asked(),
    "the model told": Asked("/system/approvals"),
    "request arrived": Call("arrived", words="Request "),
    "request executed": Call("executed", words="Request "),
    "request answered": Call("answered", words="Request "),
    "any executed": Call("executed"),
    "follow-up arrived": Call("arrived", words=TOLD),
    "follow-up executed": Call("executed", words=TOLD),
    "buttons going": Call("arrived", "editMessageText", "Decided"),
    "buttons gone": Call("executed", "editMessageText", "Decided"),
    "press acknowledged": Call("arrived", "answerCallbackQuery"),
    "updates given": Call("answered", "getUpdates"),
}


class _People:
    """Everybody who has things remembered, until told to finish."""

    def __init__(self, phones: list[Phone], rng: random.Random) -> None:
        self.finish = trio.Event()
        self._phones = phones
        self._rng = rng

    async def run(self) -> None:
        """Let all of them go about it."""
        async with trio.open_nursery() as nursery:
            for phone in self._phones:
                nursery.start_soon(self._live, phone, random.Random(self._rng.random()))

    async def _live(self, phone: Phone, rng: random.Random) -> None:
        while not self.finish.is_set() and len(phone.deeds) < DEEDS_MAX:
            with trio.move_on_after(rng.expovariate(1 / PAUSE_S)):
                await self.finish.wait()
            [plan] = rng.choices([*PLANS], [*PLANS.values()])
            if plan == "ignore" and sum(deed.plan == plan for deed in phone.deeds) >= IGNORED_MAX:
                plan = "approve"
            if (await phone.do(plan)).stuck:
                return


async def run(kills: int, chats: int, seed: int) -> Report:
    """Run a campaign; 0 chats: as many as it takes."""
    began = time.perf_counter()
    report = Report("approve", seed, papers.KINDS)
    rng = random.Random(f"approve/{seed}")
    proposer = Proposer()
    async with FakeOpenAI.serve(reply=proposer) as models, staged(report, poll_s=POLL_S, models=models) as stage:
        await stage.introduce(rooms_of(stage.server, chats or max(4, kills // KILLS_A_PERSON)))
        await stage.down()
        killer, presses = Killer(stage), Presses(stage.server)
        killed_at: list[float] = []
        proposer.on_asked.append(killer.asked)
        phones = [
            Phone(stage, room, random.Random(rng.random()), _patience_s(rng), stuck_s=patience_s(STUCK_S))
            for room in stage.rooms
        ]
        people = _People(phones, rng)
        hits: Counter[str] = Counter()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(people.run)
            for number in range(kills):
                hits[await _kill(stage, killer, rng)] += 1
                killed_at.append(trio.current_time())
                if (number + 1) % 10 == 0:
                    proposals = sum(len(phone.deeds) for phone in phones)
                    stuck = sum(bool(deed.stuck) for phone in phones for deed in phone.deeds)
                    say(f"{number + 1} of {kills} kills, {proposals} proposals, {stuck} stuck")
            killer.start(None)
            people.finish.set()
        deeds = [deed for phone in phones for deed in phone.deeds]
        quiet = await stage.quiet(_QUIET_S)
        found = await at_rest(stage, deeds)
        if quiet:
            assert stage.process is not None
            await presses.answered(killed_at)
            await stage.process.stop()
        with stage.store() as db:
            papers.left_over(db, report)
        counted = papers.judge(found, deeds, stage.server, report)
        presses.judge(killed_at, report)
        report.figures = {
            "kills": kills,
            "chats": len(phones),
            **{name: counted[name] for name in ("proposals", "applied_once", "pending", "rejected", "undone")},
            "races": {who: counted[f"won by {who}"] for who in ("telegram", "direct")},
            "shown_again": counted["shown_again"],
            "presses": sum(deed.presses for deed in deeds),
            "marked": counted["marked"],
            "hits": dict(sorted(hits.items())),
            "seconds": round(time.perf_counter() - began, 1),
        }
    return report


def _patience_s(rng: random.Random) -> float:
    return math.inf if rng.random() < PATIENT_SHARE else rng.uniform(*PATIENCE_S)


async def at_rest(stage: Stage, deeds: Sequence[Deed]) -> papers.Papers:
    """Return what the store says once no decided request has buttons any more; a finding if that takes too long."""
    left: list[int] = []
    with trio.move_on_after(patience_s(REST_S)):
        while True:
            with stage.store() as db:
                found = papers.read(db)
            if not (left := papers.buttons_left(found, deeds, stage.server)):
                return found
            await trio.sleep(0.1)
    stage.report.find("broken", f"requests {left} are decided, and have their buttons")
    return found


def _is_in_danger(stage: Stage) -> bool:
    """Return whether few more kills may end a turn for good, which is no fault."""
    open_turns = "SELECT max(attempt) FROM turns t WHERE NOT EXISTS (SELECT 1 FROM history h WHERE h.turn = t.turn)"
    with stage.store() as db:
        [(attempt,)] = db.execute(open_turns).fetchall()
    return int(str(attempt or 0)) > ATTEMPTS_MAX - ATTEMPTS_LEFT


async def _kill(stage: Stage, killer: Killer, rng: random.Random) -> str:
    """Start a daemon and kill it; return where."""
    chance = rng.random()
    if _is_in_danger(stage):
        process = killer.start(None)
        await process.ready()
        with trio.move_on_after(_QUIET_S):
            while _is_in_danger(stage):
                await trio.sleep(0.05)
        hit = "out of danger"
    elif chance < START_SHARE:
        process = killer.start(None)
        await trio.sleep(rng.uniform(0.0, START_S))
        hit = "start"
    elif chance < START_SHARE + MOMENT_SHARE:
        process = killer.start(None)
        await process.ready()
        await trio.sleep(rng.uniform(0.0, MOMENT_S))
        hit = "any moment"
    else:
        hit = rng.choice([*POINTS])
        process = killer.start(POINTS[hit], rng.randrange(SKIP_MAX))
        if not await process.died(STRIKE_S):
            hit = "missed"
        killer.disarm()
    await process.kill()
    return hit
