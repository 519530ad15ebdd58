"""Sending: the daemon is killed around the moment in which an answer, a part of a long one, or a file reaches Slack.

Sends to one conversation follow each other, so a kill interrupts one of them at most. A message is looked up before it
is sent again; a file cannot be, nor can a message where Slack refuses to tell, and then it may come twice, marked.
"""

import random
import re
import time
from collections import Counter
from typing import Final, Literal

import trio

from daycare.testing.http_server import Params
from daycare_plugins.slack.testing.server import TEAM, Moment, refused, unreached
from tests.slack.campaign.judge import KINDS, delivered
from tests.slack.campaign.stage import SlackRoom, SlackStage, rooms_of, staged
from tests.telegram.campaign import judge
from tests.telegram.campaign.mind import units
from tests.telegram.campaign.report import Report, percentile, say

WAITING_MAX: Final = 3  # messages of one room without an answer: there is always something to send
LONG_SHARE: Final = 0.3  # of the messages want an answer of several parts
FILE_SHARE: Final = 0.2  # want a file
LINES: Final = (30, 50, 80)  # of about 110 characters: two to four parts
LATE_MAX_S: Final = 0.03  # after an answer, in which its receipt is committed or not
SENDS_MAX: Final = 4  # that a daemon may finish before it is hit
STRIKE_S: Final = 25.0  # by then there was a send
BLIND_SHARE: Final = 0.25  # of the daemons cannot look up what has arrived
SENDS: Final = ("chat.postMessage", "files.completeUploadExternal")
LOOK_UPS: Final = ("conversations.history", "conversations.replies")
_QUIET_S: Final = 300.0
_FILE: Final = re.compile(r'"name":"(m[\d-]+f)"')
_PAUSE_S: Final = 0.02

# `never` reaches Slack: the connection is cut before; after `late` the receipt may be committed
When = Literal["never", "arrived", "executed", "answered", "late"]
WHEN: Final[tuple[When, ...]] = ("never", "arrived", "executed", "answered", "late")
_MOMENT: Final[dict[When, Moment]] = {
    "never": "arrived",
    "arrived": "arrived",
    "executed": "executed",
    "answered": "answered",
    "late": "answered",
}


class _Assassin:
    """Hits the daemon at a chosen moment of a chosen send."""

    def __init__(self, stage: SlackStage, rng: random.Random) -> None:
        self.hits: Counter[str] = Counter()
        self.struck = trio.Event()
        self.last: When | None = None
        self._stage = stage
        self._rng = rng
        self._when: When | None = None
        self._skip = 0

    def arm(self) -> None:
        """Choose the next moment."""
        self.struck = trio.Event()
        self._skip = self._rng.randrange(SENDS_MAX)
        self._when = self._rng.choice(WHEN)

    def disarm(self) -> None:
        """Let the daemon live."""
        self._when = None

    def see(self, method: str, params: Params, moment: Moment) -> None:
        """Strike, if this is the moment."""
        when = self._when
        if when is None or moment != _MOMENT[when] or method not in SENDS or not _is_reply(method, params):
            return
        if self._skip:
            self._skip -= 1
            return
        self._when, self.last = None, when
        self.hits[when] += 1
        if when == "never":
            self._stage.slack.fault(method, unreached())
        if when != "late" and self._stage.process is not None:
            self._stage.process.hit()
        self.struck.set()


def _is_reply(method: str, params: Params) -> bool:
    return method != "chat.postMessage" or "metadata" in params


async def run(kills: int, rooms: int, seed: int) -> Report:
    """Run a campaign."""
    began = time.perf_counter()
    report = Report("send", seed, KINDS)
    rng = random.Random(f"slack/send/{seed}")
    async with staged(report) as stage:
        await stage.introduce(rooms_of(stage.slack, rooms))
        said: dict[str, tuple[SlackRoom, list[str], str]] = {}  # what is to come of each message, and its key
        repeats: list[int] = []  # after each kill, how many messages came that said nothing new
        assassin = _Assassin(stage, rng)
        stage.slack.on_call.append(assassin.see)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_talk, stage, rng, said)
            await stage.down()
            for number in range(kills):
                stage.slack.no_more_faults()
                if rng.random() < BLIND_SHARE:
                    for method in LOOK_UPS:
                        stage.slack.fault(method, refused("missing_scope"), times=5)
                    assassin.hits["blind"] += 1
                assassin.arm()
                process = stage.start()
                with trio.move_on_after(STRIKE_S):
                    await assassin.struck.wait()
                if not assassin.struck.is_set():
                    assassin.hits["missed"] += 1
                    assassin.disarm()
                elif assassin.last == "late":
                    await trio.sleep(rng.uniform(0.0, LATE_MAX_S))
                await process.kill()
                repeats.append(len(delivered(stage.slack, stage.rooms, Report("", seed)).repeats))
                if (number + 1) % 25 == 0:
                    say(f"{number + 1} of {kills} kills, {len(said)} messages, {report.harm} findings")
            nursery.cancel_scope.cancel()
        assassin.disarm()
        stage.slack.no_more_faults()
        await stage.up()
        if await stage.quiet(_QUIET_S):
            assert stage.process is not None
            await stage.process.stop()
        _judge(stage, said, repeats, kills, report)
        report.figures = {
            "kills": kills,
            "rooms": rooms,
            "hits": dict(sorted(assassin.hits.items())),
            **report.figures,
            "ready_p50_s": percentile(stage.ready_s, 50),
            "seconds": round(time.perf_counter() - began, 1),
        }
    return report


async def _talk(stage: SlackStage, rng: random.Random, said: dict[str, tuple[SlackRoom, list[str], str]]) -> None:
    """Keep some messages of each room waiting for their answers."""
    waiting: dict[int, list[str]] = {room.number: [] for room in stage.rooms}
    while True:
        for room in stage.rooms:
            answered = {unit for message in stage.slack.sent(room.id)[-40:] for unit in units(message["text"])}
            left = waiting[room.number] = [last for last in waiting[room.number] if last not in answered]
            if len(left) < WAITING_MAX:
                name, chance = room.name(), rng.random()
                lines = rng.choice(LINES) if chance < LONG_SHARE else 0
                file = not lines and chance < LONG_SHARE + FILE_SHARE
                text = f"{name} long {lines}" if lines else f"{name} file" if file else name
                key = f"{TEAM}:{room.id}:m:{stage.slack.say(room.writers[0], text)['event']['ts']}"
                expected = [f"{name}/{number:04}" for number in range(1, lines + 1)] or [name]
                said[name] = room, [*expected, f"{name}f"] if file else expected, key
                left.append(expected[-1])
        await trio.sleep(_PAUSE_S)


def _judge(
    stage: SlackStage,
    said: dict[str, tuple[SlackRoom, list[str], str]],
    repeats: list[int],
    kills: int,
    report: Report,
) -> None:
    with stage.store() as db:
        store = judge.read(db)
        judge.left_over(db, report, kills)
        given_up = judge.given_up_keys(db)
        extras = [str(extra) for (extra,) in db.execute("SELECT extra FROM outbox WHERE extra LIKE '%\"files\"%'")]
    replied = Counter(name for extra in extras for name in set(_FILE.findall(extra)))
    found = delivered(stage.slack, stage.rooms, report, replied=replied)
    newest: dict[int, tuple[int, str]] = {}
    for room, expected, key in said.values():
        if key in given_up:
            continue  # the daemon died of it, as it seemed, and its sender was told so
        for unit in expected:
            number, _ = found.first.get(unit, (-1, None))
            before = newest.get(room.number, (-1, ""))
            if number < 0:
                report.find("lost", f"{unit} in room {room.number}")
            elif unit.endswith("f"):
                continue  # the files of an answer that names several messages come after it
            elif number < before[0]:
                report.find("reordered", f"{unit} came before {before[1]}")
            else:
                newest[room.number] = number, unit
    steps = [after - before for before, after in zip([0, *repeats], [*repeats, len(found.repeats)], strict=True)]
    for kill, times in enumerate(steps):
        if times > len(stage.rooms):
            report.find("doubled", f"{times} parts came once more after kill {kill}")
    files = [message for message in _all(stage) if message.get("files")]
    report.figures = {
        "messages": len(said),
        "parts": found.messages,
        "files": len(files),
        "turns": store.turns,
        "marked": found.marked,
        "duplicates": len(found.repeats),
        "looked_up": sum(len(stage.slack.asked_for(method)) for method in LOOK_UPS),
        "parked": store.parked,
    }


def _all(stage: SlackStage) -> list[dict[str, object]]:
    return [message for room in stage.rooms for message in stage.slack.sent(room.id)]
