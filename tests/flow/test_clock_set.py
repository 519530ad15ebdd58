"""A wall clock that is ahead for a while, or set back, holds nothing up for longer than each wait may take.

Each case begins while the clock is wrong, goes on when it is right again, and is served within its own bound of time
that really passes. What is due at a time of the calendar by somebody's wish stays at that time.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.agent.rate_limit import SenderRateLimit
from daycare.base.errors import AwayError, BusyError, ForbiddenError, UnavailableError
from daycare.base.limits import (
    ASK_DEADLINE_S,
    CHILD_IDLE_S,
    OUTAGE_MAX_S,
    PAIR_CODE_S,
    PAIR_NOTICE_S,
    RETRY_MAX_S,
    SENDER_BURST,
    SIGNAL_IDLE_S,
)
from daycare.base.messages import Origin
from daycare.base.pairing import is_out
from daycare.base.path import Kind
from daycare.features.signals.rows import SignalRows
from daycare.features.signals.service import SIGNALS_LOOK_S
from daycare.features.tasks.records import TaskSpec
from daycare.features.tasks.rows import TaskRows
from daycare.features.upkeep.service import CHILD_LOOK_S
from daycare.plugin import Completion, InferRequest
from daycare.store.records import PairingRequest, Receipt
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector, texts
from daycare.testing.scripted import Scripted, call, echo, say
from tests.flow.test_courier import _people, _say

DAY_S, YEAR_S = 86_400.0, 366 * 86_400.0
LOOK_S = 61.0  # until the service of a wait looks at the clock again
STEPS = pytest.mark.parametrize(
    ("wrong_s", "right_s"),
    [
        pytest.param(DAY_S, -DAY_S, id="a-day-ahead-then-right"),
        pytest.param(YEAR_S, -YEAR_S, id="a-year-ahead-then-right"),
        pytest.param(0.0, -DAY_S, id="set-back-by-a-day"),
        pytest.param(0.0, -YEAR_S, id="set-back-by-a-year"),
    ],
)
AWAY = UnavailableError("PIGEON_AWAY", "sending: the pigeon is away")
REFUSED = BusyError("REQUEST_REFUSED", "the model refuses the request")
GONE = AwayError("MODEL_AWAY", "the model is away")


@dataclass
class Scene:
    house: TestDaemon
    model: Scripted
    pigeon: FakeConnector
    receipt: Receipt | None = None
    agent_id: str = ""


Begin = Callable[[Scene], Awaitable[None]]
Served = Callable[[Scene], Awaitable[bool]]


@dataclass(frozen=True)
class Case:
    """`begin` sets something in motion that has to wait; `served` says whether it has happened, at most `at_most_s`
    after the clock was put right, and not before `at_least_s` have passed since it began."""

    begin: Begin
    served: Served
    at_most_s: float
    at_least_s: float = 0.0
    letters: int = 0


async def _answered(scene: Scene) -> bool:
    assert scene.receipt is not None
    receipt = await scene.house.store.inbox.receipt(scene.receipt.seq)
    return receipt is not None and receipt.state == "done"


def _thinking(*script: object) -> Begin:
    async def begin(scene: Scene) -> None:
        scene.model.enqueue(*script)  # type: ignore[arg-type]
        scene.receipt = await scene.house.say("hello")
        await trio.sleep(6)  # the third of the failures is behind it

    return begin


async def _reply(scene: Scene) -> None:
    scene.pigeon.enqueue(*[AWAY] * 3)
    await _people(scene.house, "ann")
    await _say(scene.house, "hello")
    await trio.sleep(7)


async def _arrived(scene: Scene) -> bool:
    heard = [text for text in texts(scene.pigeon.arrived) if "echo" in text]  # the operator is told of the clock, too
    assert len(heard) <= 1, "nothing comes twice"
    return heard == ["echo: hello"]


async def _ask(scene: Scene) -> None:
    b = await scene.house.agent("/ann/agent/b")
    await scene.house.store.agents.set_state(b.id, "parked", "so that it does not answer")
    scene.model.enqueue(call(("ask", {"to": "/ann/agent/b", "text": "why?", "deadline_s": 300})))
    scene.model.default = _told_so
    scene.receipt = await scene.house.say("go")
    await trio.sleep(5)


def _told_so(request: InferRequest) -> Completion:
    last = request.messages[-1]
    return say(f"I heard: {last.parts[0].text}") if last.role == "tool" else echo(request)  # type: ignore[union-attr]


async def _task(scene: Scene) -> None:
    scene.model.enqueue(REFUSED, REFUSED, REFUSED)
    spec = TaskSpec(prompt="count to a million", deadline_s=1_800.0)
    task = await scene.house.daemon.tasks.controls.start("ann", spec, key="t")
    await scene.house.store.agents.set_state(task.agent_id, "parked", "so that it does not end by itself")
    await trio.sleep(1)


async def _task_over(scene: Scene) -> bool:
    [task] = await scene.house.store.of(TaskRows).find()
    return task.state == "expired"


async def _helper(scene: Scene) -> None:
    parent = await scene.house.agent("/ann/agent/parent")
    child = await scene.house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
    await scene.house.post(child.path, "hello", sender=parent.path, key="k")
    scene.agent_id = child.id
    await trio.sleep(5)


async def _helper_ended(scene: Scene) -> bool:
    return (await scene.house.daemon.directory.get(scene.agent_id)).state == "dead"


async def _idleness(scene: Scene) -> None:
    listener = await scene.house.agent("/ann/agent/listener")
    await scene.house.daemon.signals.controls.subscribe(listener.path, "agent:/ann/direct:idle", silent=True)
    await scene.house.talk("hello")
    await trio.sleep(5)


async def _idle_told(scene: Scene) -> bool:
    fired = [it for it in await scene.house.store.of(SignalRows).find(limit=10) if it.state == "fired"]
    assert len(fired) <= 1, "it is told once"
    return bool(fired)


CASES = {
    "a turn that failed": Case(_thinking(REFUSED, REFUSED, REFUSED), _answered, RETRY_MAX_S),
    "a turn whose model is away": Case(_thinking(GONE, GONE, GONE), _answered, RETRY_MAX_S),
    "a reply that was not taken": Case(_reply, _arrived, RETRY_MAX_S),
    "an answer that does not come": Case(_ask, _answered, ASK_DEADLINE_S, ASK_DEADLINE_S),
    "a task's deadline": Case(_task, _task_over, 1_800.0, 1_800.0, letters=1),
    "an idle helper": Case(_helper, _helper_ended, CHILD_IDLE_S + CHILD_LOOK_S),
    "a signal of idleness": Case(_idleness, _idle_told, SIGNAL_IDLE_S + SIGNALS_LOOK_S),
}


@STEPS
@pytest.mark.parametrize("restart", [False, True], ids=["", "and-a-restart"])
@pytest.mark.parametrize("name", CASES)
async def test_a_clock_that_is_put_right_holds_nothing_up(
    tmp_path: Path, autojump_clock: object, name: str, restart: bool, wrong_s: float, right_s: float
) -> None:
    case, clock, model, pigeon = CASES[name], VirtualClock(), Scripted(), FakeConnector()
    async with open_daemon(tmp_path, model, location="file.db", plugins=[pigeon.plugin()], clock=clock) as house:
        scene = Scene(house, model, pigeon)
        clock.shift(wrong_s)
        began = trio.current_time()
        await case.begin(scene)
        assert not await case.served(scene), "this shows nothing"
        clock.shift(right_s)
        put_right = trio.current_time()
        if not restart:
            await _served(case, scene, began, put_right)
    if restart:
        model._script.clear()
        async with open_daemon(tmp_path, model, location="file.db", plugins=[pigeon.plugin()], clock=clock) as house:
            scene.house = house
            await _served(case, scene, began, put_right)


async def _served(case: Case, scene: Scene, began: float, put_right: float) -> None:
    while not await case.served(scene):
        await trio.sleep(1)
        assert trio.current_time() - put_right <= case.at_most_s + LOOK_S
    assert trio.current_time() - began >= case.at_least_s
    await trio.sleep(2 * LOOK_S)
    assert await case.served(scene), "and once only"
    assert await scene.house.store.dead.count() == case.letters


@STEPS
async def test_a_reminder_stays_at_its_time_of_the_calendar(
    tmp_path: Path, autojump_clock: object, wrong_s: float, right_s: float
) -> None:
    clock, model = VirtualClock(), Scripted()
    async with open_daemon(tmp_path, model, clock=clock) as house:
        clock.shift(wrong_s)
        model.enqueue(call(("remind", {"after_s": 600, "text": "feed her"})), say("I will."))
        await house.talk("remind me to feed her")
        [timer] = await house.store.timers.find()
        clock.shift(right_s)
        await trio.sleep(DAY_S / 2)
        assert await house.store.timers.find() == [timer], "not early, and not moved"
        clock.sleep((timer.due_at - clock.now_ms()) / 1000)
        await trio.sleep(2 * LOOK_S)
        assert await house.store.timers.find() == []
        assert sum("feed her" in request.messages[-1].text for request in model.history) == 2, "asked, and reminded"


@pytest.mark.parametrize("ahead_s", [DAY_S, YEAR_S])
async def test_a_clock_that_is_ahead_for_a_moment_gives_up_nothing(
    tmp_path: Path, autojump_clock: object, ahead_s: float
) -> None:
    """A platform and a model are away for a while, and at the second failure of each the clock is ahead."""
    clock, model, pigeon = VirtualClock(), Scripted(), FakeConnector()
    pigeon.enqueue(*[AwayError("PIGEON_AWAY", "sending: the pigeon is away")] * 6)
    async with open_daemon(tmp_path, model, plugins=[pigeon.plugin()], clock=clock) as house:
        await _people(house, "ann")
        await _say(house, "hello")
        await trio.sleep(20)
        model.enqueue(*[GONE] * 6)
        question = await house.say("are you there?")
        await trio.sleep(20)
        tries, calls = len(pigeon.flights), len(model.history)
        clock.shift(ahead_s)
        await trio.sleep(400)
        assert len(pigeon.flights) > tries and len(model.history) > calls, "it was tried meanwhile"
        clock.shift(-ahead_s)
        await trio.sleep(4 * RETRY_MAX_S)
        assert await house.store.dead.find() == []
        assert texts(pigeon.arrived) == ["echo: hello"]
        assert await house.hear(question) == "echo: are you there?"


async def test_what_was_said_while_the_clock_was_ahead_is_given_up_after_a_day_of_outage(
    tmp_path: Path, autojump_clock: object
) -> None:
    clock, pigeon = VirtualClock(), FakeConnector()
    pigeon.enqueue(*[AwayError("PIGEON_AWAY", "sending: the pigeon is away")] * 4_000)
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()], clock=clock) as house:
        await _people(house, "ann")
        clock.shift(YEAR_S)
        await _say(house, "hello")
        await trio.sleep(20)
        clock.shift(-YEAR_S)
        await trio.sleep(OUTAGE_MAX_S - 3_600)
        assert await house.store.dead.find() == []
        await trio.sleep(2 * 3_600)
        assert [letter.source for letter in await house.store.dead.find()] == ["outbox"]


@STEPS
async def test_a_stranger_gets_a_code_that_holds_for_ten_minutes(
    tmp_path: Path, autojump_clock: object, wrong_s: float, right_s: float
) -> None:
    """The code of a wrong time is void, and does not keep the next one from being shown."""
    clock = VirtualClock()
    async with open_daemon(tmp_path, clock=clock) as house:

        async def knock(code: str) -> bool:
            who = PairingRequest(key="pigeon:eve", connector="pigeon", kind="person", name="Eve", code_hash=code)
            [taken] = await house.store.intake.take("pigeon", [who], "")
            return taken.show_code

        async def is_valid() -> bool:
            [stranger] = await house.store.strangers.find()
            return is_out(stranger.code_until, stranger.tries, clock.now_ms())

        clock.shift(wrong_s)
        assert await knock("first") and await is_valid()
        assert not await knock("again"), "once an hour"
        clock.shift(right_s)
        assert not await is_valid()
        with pytest.raises(ForbiddenError):
            await house.store.strangers.by_code("first")
        assert await knock("second") and await is_valid()
        assert (await house.store.strangers.by_code("second")).key == "pigeon:eve"
        assert not await knock("third")
        await trio.sleep(PAIR_CODE_S + 1)
        assert not await is_valid()
        await trio.sleep(PAIR_NOTICE_S)
        assert await knock("fourth")


@STEPS
def test_the_pace_goes_on_and_whoever_is_too_fast_is_told(wrong_s: float, right_s: float) -> None:
    pace, now_ms = SenderRateLimit(), 1_800_000_000_000 + round(wrong_s * 1000)
    for _ in range(SENDER_BURST):
        assert pace.admit("pigeon", "pigeon:7", now_ms, now_ms)
    assert not pace.admit("pigeon", "pigeon:7", now_ms, now_ms)
    assert pace.tell("pigeon:7", now_ms) and not pace.tell("pigeon:7", now_ms + 1_000)
    now_ms += round(right_s * 1000)
    assert not pace.admit("pigeon", "pigeon:7", now_ms, now_ms), "it is no way around the pace"
    assert pace.tell("pigeon:7", now_ms) and not pace.tell("pigeon:7", now_ms + 1_000)
    assert pace.admit("pigeon", "pigeon:7", now_ms + 2_000, now_ms + 2_000), "and costs nobody a day"


@STEPS
async def test_what_was_made_in_a_wrong_time_does_not_count_as_made_today(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch, wrong_s: float, right_s: float
) -> None:
    monkeypatch.setattr("daycare.store.sqlite.agents.SUBAGENTS_DAILY_MAX", 3)
    clock = VirtualClock()
    async with open_daemon(tmp_path, clock=clock) as house:
        parent = await house.agent("/ann/agent/a")
        clock.shift(wrong_s)
        for _ in range(3):
            await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
        with pytest.raises(BusyError):
            await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
        clock.shift(right_s)
        for _ in range(3):
            await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
        with pytest.raises(BusyError):
            await house.daemon.directory.spawn(parent, Kind.SUB, origin=Origin.AGENT)
