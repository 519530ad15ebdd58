"""Flood control: a thousand answers to fifty chats under Telegram's limits and scripted 429s."""

import random
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

import trio

from daycare_plugins.telegram.rates import PERSON
from daycare_plugins.telegram.testing.limits import EVERYWHERE, Impatient
from daycare_plugins.telegram.testing.server import BotCall, FakeMessage, FakeTelegram, FloodLimits, Moment, flood
from tests.telegram.campaign import judge
from tests.telegram.campaign.mind import units
from tests.telegram.campaign.report import Report, percentile, say
from tests.telegram.campaign.stage import Stage, rooms_of, staged

POLL_S: Final = 2
EVERYWHERE_SHARE: Final = 0.05  # of the refusals are for all chats
REFUSED: Final = ("sendMessage", "editMessageText", "sendMessageDraft", "sendChatAction", "deleteMessage")
ON_ITS_WAY_S: Final = 0.25  # on a machine that does nothing else
KNOWS_CHATS: Final = 2  # refused beside the first one, and it is known that all are meant
NOTICED_S: Final = 0.25  # after so long everybody knows that an answer waits
_QUIET_S: Final = 900.0
_LOOK_S: Final = 0.1
_REPLIED: Final = "SELECT user, count(*) FROM outbox GROUP BY user"
_UNIMPORTANT: Final = ("editMessageText", "sendMessageDraft")


@dataclass(frozen=True)
class Shares:
    """How much there is of what makes it hard."""

    groups: float = 0.2  # of the chats
    slow: float = 0.25  # of the messages are answered slowly, so that there are previews and status lines
    slow_s: tuple[float, float] = (1.0, 4.0)  # how slowly: a cool-down of all chats lasts 1 to 5 s
    refused: float = 0.07  # of the calls are refused with 429


async def run(
    answers: int, chats: int, seed: int, on_its_way_s: float = ON_ITS_WAY_S, shares: Shares = Shares()
) -> Report:
    """Run a campaign. `on_its_way_s`: so soon after a 429 a call may come that was on its way already."""
    began = time.perf_counter()
    report = Report("flood", seed)
    rng = random.Random(f"flood/{seed}")
    async with staged(report, poll_s=POLL_S, policy="followup") as stage:
        server = stage.server
        await stage.introduce(rooms_of(server, chats, groups=round(chats * shares.groups)))
        server.limits = FloodLimits()
        zero_s = time.time() - trio.current_time()
        sent_at: dict[tuple[int, int], float] = {}
        server.on_sent.append(lambda message: _note(message, sent_at))
        flooder = _Flooder(server, rng, shares.refused)
        server.on_call.append(flooder.see)
        said: list[str] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_tell, stage)
            await _ask(stage, answers, shares, rng, said)
            quiet = await stage.quiet(_QUIET_S)
            nursery.cancel_scope.cancel()
        finished_s = time.perf_counter() - began
        if quiet:
            assert stage.process is not None
            await stage.process.stop()
        _judge(stage, said, on_its_way_s, report)
        _judge_order(stage, zero_s, sent_at, report)
        statuses = Counter(call.status for call in server.calls if call.method not in ("getUpdates", "getMe"))
        report.figures = {
            "answers_wanted": answers,
            "chats": chats,
            "scripted_429": dict(sorted(flooder.scripted.items())),
            "all_429": statuses[429],
            **report.figures,
            "seconds_to_all": round(finished_s, 1),
            "seconds": round(time.perf_counter() - began, 1),
        }
    return report


async def _ask(stage: Stage, answers: int, shares: Shares, rng: random.Random, said: list[str]) -> None:
    """Let each room ask its next question when the last one is answered, though perhaps not delivered: none merge."""
    asked = dict.fromkeys((f"c{room.number}" for room in stage.rooms), 0)
    while len(said) < answers:
        with stage.store() as db:
            replied = {str(user): int(str(rows)) for user, rows in db.execute(_REPLIED)}
        for room in stage.rooms:
            user = f"c{room.number}"
            if len(said) < answers and replied.get(user, 0) == asked[user]:
                name, asked[user] = room.name(), asked[user] + 1
                slow = f" {rng.choice(('stream', 'work'))} {rng.uniform(*shares.slow_s):.1f}"
                text = f"{name}{slow if rng.random() < shares.slow else ''}"
                stage.server.say(room.place, rng.choice(room.writers), text)
                said.append(name)
        await trio.sleep(_LOOK_S)


def _note(message: FakeMessage, sent_at: dict[tuple[int, int], float]) -> None:
    sent_at.setdefault((message.chat_id, message.id), trio.current_time())


class _Flooder:
    """Refuses some of the calls with 429, each for as long as the dice say."""

    def __init__(self, server: FakeTelegram, rng: random.Random, share: float) -> None:
        self._share = share
        self.scripted: Counter[str] = Counter()
        self._server = server
        self._rng = rng

    def see(self, call: BotCall, moment: Moment) -> None:
        """Refuse a call that arrives."""
        if moment != "arrived" or call.method not in REFUSED or self._rng.random() > self._share:
            return
        everywhere = self._rng.random() < EVERYWHERE_SHARE
        self.scripted["everywhere" if everywhere else call.method] += 1
        self._server.fault(call.method, flood(self._rng.randint(1, 5), everywhere=everywhere), chat=call.chat_id)


async def _tell(stage: Stage) -> None:
    while True:
        await trio.sleep(20)
        say(f"{sum(len(stage.server.sent(room.id)) for room in stage.rooms)} messages sent; left: {stage.left()}")


def _judge(stage: Stage, said: list[str], on_its_way_s: float, report: Report) -> None:
    server: FakeTelegram = stage.server
    with stage.store() as db:
        store = judge.read(db)
        judge.left_over(db, report)
    found = judge.delivered(server, stage.rooms, report)
    for name in said:
        message = found.first.get(name)
        if message is None:
            report.find("lost", f"the answer to {name}")
        elif {entity["type"] for entity in message.entities} < {"bold", "code"} or "**" in message.text:
            report.find("unformatted", f"{name}: {message.text!r} {message.entities}")
    for room in stage.rooms:
        for message in server.sent(room.id):
            if not units(message.text):
                report.find("left", f"room {room.number}: {message.text!r} stands there beside the answers")
    if found.marked or found.repeats:
        report.find("doubled", f"{found.marked} answers are marked, {len(found.repeats)} came again")
    for room in stage.rooms:
        order = [int(unit.partition("-")[2]) for note in server.sent(room.id) for unit in units(note.text)]
        if order != sorted(order):
            report.find("reordered", f"room {room.number}: {order}")
    late = _impatient(server, on_its_way_s)
    for call in late:
        what = f"{call.method} came {call.early_s:.2f} s too early, {call.since_s:.2f} s after the 429 for {call.scope}"
        report.find("impatient", what)
    report.figures = {
        "answers": found.messages,
        "turns": store.turns,
        "on_their_way": len(server.impatient) - len(late),
    }


def _impatient(server: FakeTelegram, on_its_way_s: float) -> list[Impatient]:
    """Return the calls that came too early, though the bot knew.

    A 429 does not say whether it is for a chat or for all. Whoever is refused in two more chats knows; the refusal of
    a burst is put down to its chat.
    """
    found: list[Impatient] = []
    refused: dict[int, set[object]] = defaultdict(set)  # chats, by the time of the announcement
    for call in server.impatient:
        if call.since_s <= on_its_way_s:
            continue
        known = refused[round(10 * (call.at - call.since_s))]
        if call.scope != EVERYWHERE or len(known) >= KNOWS_CHATS:
            found.append(call)
        if not _is_burst(server, call):
            known.add(call.params.get("chat_id"))
    return found


def _is_burst(server: FakeTelegram, late: Impatient) -> bool:
    chat = int(str(late.params.get("chat_id", 0)))
    since = late.at - PERSON.interval_s
    return any(call.chat_id == chat and call.status == 200 and since < call.at < late.at for call in server.calls)


def _judge_order(stage: Stage, zero_s: float, sent_at: dict[tuple[int, int], float], report: Report) -> None:
    """No preview, edit or status line may take the place of an answer that waits in the same chat, or altogether."""
    chats = {f"c{room.number}": room.id for room in stage.rooms}
    waits: dict[int, list[tuple[float, float]]] = defaultdict(list)
    delays: list[float] = []
    with stage.store() as db:
        for user, created_ms, receipt in db.execute("SELECT user, created_at, receipt FROM outbox WHERE state = 2"):
            chat = chats[str(user)]
            ready = int(str(created_ms)) / 1000 - zero_s
            if (chat, int(str(receipt))) not in sent_at:
                report.find("lost", f"the receipt {receipt} of {user} is of nothing that was sent")
                continue
            arrived = sent_at[chat, int(str(receipt))]
            waits[chat].append((ready, arrived))
            delays.append(arrived - ready)
    unimportant = [call for call in stage.server.calls if call.status == 200 and _is_unimportant(call, stage)]
    for call in unimportant:
        at = call.at
        here = [wait for wait in waits.get(call.chat_id or 0, ()) if wait[0] + NOTICED_S < at < wait[1]]
        if here:
            ready, arrived = here[0]
            around = [
                f"{other.method} {other.status} at {other.at - ready:+.2f} s"
                for other in stage.server.calls
                if other.chat_id == call.chat_id
                and ready - 2 < other.at <= arrived
                and other.method != "sendChatAction"
            ]
            what = f"{call.method} went to {call.chat_id} {at - ready:.2f} s after an answer was ready"
            report.find("outranked", f"{what}, which went {arrived - at:.2f} s later: {', '.join(around)}")
    report.figures |= {
        "unimportant_calls": dict(sorted(Counter(call.method for call in unimportant).items())),
        "answer_delay_p50_s": percentile(delays, 50),
        "answer_delay_p99_s": percentile(delays, 99),
    }


def _is_unimportant(call: BotCall, stage: Stage) -> bool:
    """Whether a call counts against the limits and is no answer; drafts are those that people see change."""
    if call.method in _UNIMPORTANT:
        return True
    return call.method == "sendMessage" and not units(str(call.params.get("text", "")))
