"""Short slices of the campaigns; and that their judges see what there is to see."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio

from daycare_plugins.slack.testing.server import FakeWorkspace
from tests.chance import SEED
from tests.slack.campaign import judge, receive, send
from tests.slack.campaign.stage import SlackRoom, rooms_of
from tests.telegram.campaign import running
from tests.telegram.campaign.judge import MARK, Said, Store
from tests.telegram.campaign.report import Report
from tests.telegram.campaign.warm import Kennel

HEAVY = ("daycare_plugins.slack.outgoing", "daycare_plugins.slack.serving", "daycare_plugins.slack.socket_mode")


async def test_short_campaigns_break_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    print(f"SEED={SEED}")
    reports: list[Report] = []

    async def run(campaign: Callable[[], Awaitable[Report]]) -> None:
        reports.append(await campaign())

    with Kennel(also=HEAVY) as kennel:
        monkeypatch.setattr(running, "DaemonProcess", kennel.start)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, partial(receive.run, 50, 10, 1, SEED))
            nursery.start_soon(run, partial(send.run, 2, 1, SEED))
    for report in reports:
        assert not report.findings, (report.mode, report.findings)
    figures = {report.mode: report.figures for report in reports}
    assert figures["receive"]["events"] >= 50 and figures["receive"]["turns"]
    assert figures["send"]["parts"] >= 2 and "missed" not in figures["send"]["hits"]


def _said(slack: FakeWorkspace, room: SlackRoom, text: str, **more: object) -> None:
    message = {"type": "message", "user": "U0BOT", "ts": slack.ts(), "text": text, "metadata": {}}
    slack.channels[room.id].messages[str(message["ts"])] = message | more


def _kinds(report: Report) -> set[str]:
    return {kind for kind, _ in report.findings}


def test_the_judge_sees_what_came_twice_what_stays_and_what_went_astray() -> None:
    slack = FakeWorkspace()
    one, other = rooms_of(slack, 2)
    report = Report("send", 1)
    _said(slack, one, "ack m0-1")
    _said(slack, one, f"({MARK})\nack m0-1")
    found = judge.delivered(slack, [one], report)
    assert (len(found.repeats), found.marked, _kinds(report)) == (1, 1, set())
    _said(slack, one, "ack m0-1")
    assert judge.delivered(slack, [one], report) and _kinds(report) == {"doubled"}
    report.findings.clear()
    slack.channels[other.id].messages["5.5"] = {"user": "U0BOT", "ts": "5.5", "text": "m1-4 is worked on"}
    _said(slack, other, "ack m0-1")
    judge.delivered(slack, [other], report)
    assert _kinds(report) == {"left", "astray"}


def test_the_judge_sees_a_lost_answer_another_thread_and_another_order() -> None:
    slack = FakeWorkspace()
    [room] = rooms_of(slack, 1, channels=1)
    report = Report("receive", 1)
    said = [Said(f"m0-{number}", room, "U1", f"k{number}", room.threads[0]) for number in (1, 2)]
    store = Store(answered={"m0-1": [1], "m0-2": [1], "m0-3": [2]})
    _said(slack, room, "ack m0-2", thread_ts=room.threads[0])
    _said(slack, room, "ack m0-1", thread_ts=room.threads[1])
    judge.judge_answers(store, judge.delivered(slack, [room], report), said, report, in_order=True)
    assert _kinds(report) == {"lost", "astray", "reordered"}
    report.findings.clear()
    slack.channels[room.id].messages.pop(room.threads[0], None)
    _said(slack, room, "ack m0-3")
    late = [Said("m0-3", room, "U1", "k3", room.threads[0])]
    judge.judge_answers(store, judge.delivered(slack, [room], report), late, report, in_order=True)
    assert not report.findings, "its thread was deleted"
    judge.judge_deleted(Store(heard={"m0-1": [1]}, answered={"m0-1": [1]}), ["m0-1"], report)
    assert not report.findings
    judge.judge_deleted(Store(heard={"m0-1": []}, answered={"m0-1": [1]}), ["m0-1"], report)
    assert _kinds(report) == {"doubled"}
