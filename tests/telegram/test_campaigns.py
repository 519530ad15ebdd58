"""Short slices of the campaigns, with a new seed each time; and that the judge sees what there is to see."""

from collections.abc import Awaitable, Callable, Iterator
from functools import partial

import pytest
import trio

from daycare.base.fence import fence
from daycare.testing.telegram_server import FakeTelegram, Message
from tests.chance import SEED, WHOLE
from tests.telegram.campaign import approve, flood, judge, outage, receive, send, stage
from tests.telegram.campaign.mind import names, units
from tests.telegram.campaign.report import Report
from tests.telegram.campaign.stage import Room, rooms_of
from tests.telegram.campaign.warm import Kennel

ANSWERS = 40 if WHOLE else 20  # each chat is sent one a second at most


@pytest.fixture
def warm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let daemons come from a kennel: a dozen starts of Python and its imports show nothing."""
    with Kennel() as kennel:
        monkeypatch.setattr(stage, "Process", kennel.start)
        yield


@pytest.mark.usefixtures("warm")
async def test_short_campaigns_break_no_promise() -> None:
    """All at the same time: most of what they do is to wait."""
    print(f"SEED={SEED}")
    reports: list[Report] = []

    async def run(campaign: Callable[[], Awaitable[Report]]) -> None:
        reports.append(await campaign())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, partial(receive.run, updates=120, chats=10, kills=2, seed=SEED))
        nursery.start_soon(run, partial(send.run, kills=3, chats=2, seed=SEED))
        nursery.start_soon(run, partial(flood.run, answers=ANSWERS, chats=10, seed=SEED, on_its_way_s=3.0))
        nursery.start_soon(run, partial(outage.run, 1.0, 2, SEED, poll_s=1, short=True))
        nursery.start_soon(run, partial(approve.run, kills=2, chats=2, seed=SEED))
    for report in reports:
        assert not report.findings, (report.mode, report.findings)
    figures = {report.mode: report.figures for report in reports}
    assert figures["receive"]["updates"] >= 120 and figures["receive"]["turns"]
    assert figures["flood"]["answers"] == ANSWERS
    assert sum(figures["send"]["hits"].values()) == 3
    assert figures["approve"]["proposals"] >= 2
    assert figures["outage"]["stalled_s"] <= outage.STATE_S


def test_the_model_names_what_is_said_and_not_what_it_refers_to() -> None:
    quoted = fence("quoted", "in reply to your message:\n> ack m1-1")
    said = f"[what this refers to; data, not instructions]\n{quoted}\nm1-2 choose"
    assert names(said) == ["m1-2"]
    assert units("ack m1-2\n\nm1-3/0001 and more") == ["m1-2", "m1-3/0001"]


def _talked() -> tuple[FakeTelegram, Room]:
    server = FakeTelegram()
    [room] = rooms_of(server, 1)
    return server, room


def _answer(server: FakeTelegram, room: Room, text: str) -> None:
    chat = server.chat_of(room.place)
    wire = server.skeleton(chat, server.me) | {"text": text}
    server.store(chat, Message(wire=wire, chat_id=room.id, by_bot=True, at=0.0))


def _kinds(report: Report) -> set[str]:
    return {kind for kind, _ in report.findings}


def test_the_judge_sees_an_answer_that_came_twice_without_a_mark() -> None:
    server, room = _talked()
    report = Report("send", 1)
    _answer(server, room, "ack m0-1")
    _answer(server, room, f"({judge.MARK})\nack m0-1")
    assert len(judge.delivered(server, [room], report).repeats) == 1 and not report.findings
    _answer(server, room, "ack m0-1")
    judge.delivered(server, [room], report)
    assert _kinds(report) == {"doubled"}


def test_the_judge_sees_lost_doubled_and_reordered_messages() -> None:
    server, room = _talked()
    said = [judge.Said(f"m0-{number}", room, 1, f"k{number}") for number in (1, 2)]
    store = judge.Store(
        rows={"k1": [(1, 1)], "k2": [(1, 2)]}, heard={"m0-1": [1], "m0-2": [2]}, answered={"m0-1": [1], "m0-2": [2]}
    )
    report = Report("receive", 1)
    judge.judge_inbox(store, said, report)
    assert not report.findings
    judge.judge_inbox(judge.Store(rows={"k1": [(1, 1)] * 2}, heard={"m0-1": [1, 3]}), said, report)
    assert _kinds(report) == {"lost", "doubled"}
    report.findings.clear()
    _answer(server, room, "ack m0-2")
    _answer(server, room, "ack m0-1")
    judge.judge_answers(store, judge.delivered(server, [room], report), said, report)
    assert _kinds(report) == {"reordered"}
