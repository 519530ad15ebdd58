"""Long replies go out in parts: a crash repeats the part in its window and no other, and what waits costs nothing."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from msgspec.structs import replace

from daycare.agent.sending import DELIVERY_ATTEMPTS_MAX
from daycare.base.errors import AwayError, BusyError, ForbiddenError, InvalidError, UnavailableError
from daycare.base.limits import OUTAGE_MAX_S
from daycare.base.messages import Choice
from daycare.plugin import Outgoing
from daycare.testing.clock import VirtualClock
from daycare.testing.crash import Doom, live
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector, texts
from daycare.testing.scripted import Scripted, say
from tests.chance import WHOLE
from tests.flow.platform import answered, asked, inbound, people, receive

WORDS = "one|two|three|four|five"
PARTS = WORDS.split("|")
BUSY = BusyError("FLOOD", "sending: too fast", retry_after_s=30.0)
AWAY = AwayError("AWAY", "sending: the platform is away")
UNSURE = UnavailableError("TIMEOUT", "sending: no answer")
DAY_S = OUTAGE_MAX_S if WHOLE else 7_200.0  # each of its hours costs half a second


class Flock(FakeConnector):
    """Carries a sentence word by word, one pigeon each. `delays` maps a target to the seconds it has to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.splits = 0
        self.broken: BaseException | None = None
        self.delays: dict[str, float] = {}

    def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
        """One part a word."""
        self.splits += 1
        assert not outgoing.maybe_duplicate, "the same reply gives the same parts"
        if self.broken is not None:
            raise self.broken
        return [replace(outgoing, text=word) for word in outgoing.text.split("|")]

    def delay_s(self, target: str) -> float:
        """As the script says."""
        return max(0.0, self.delays.get(target, 0.0) - trio.current_time())


async def ask(house: TestDaemon, key: str = "a", text: str = "count", **more: object) -> str:
    """Ask Ann's agent something and wait for its answer; what is delivered of it is another matter."""
    [outcome] = await receive(house, inbound(key, text, **more))
    return await answered(house, outcome)


# -- crashes ----------------------------------------------------------------------------------------------------------


async def _crash(tmp_path: Path, when: str, *, late: bool) -> Flock:
    """Let a house die at a point of a delivery, and the next one finish it."""
    flock, model, clock = Flock(), Scripted(lambda request: say(WORDS)), VirtualClock()

    async def story(house: TestDaemon) -> None:
        if await house.store.people.by_key("pigeon:ann") is None:
            await people(house)
        await receive(house, inbound("a", "count"))
        await trio.sleep(60)

    assert await live(tmp_path, model, Doom(when=when, late=late), story, plugins=[flock.plugin()], clock=clock)
    assert not await live(tmp_path, model, Doom(), story, plugins=[flock.plugin()], clock=clock)
    assert len(model.history) == 1
    return flock


@pytest.mark.parametrize("part", range(5))
async def test_a_crash_after_a_part_was_sent_repeats_that_part_and_marks_it(
    tmp_path: Path, autojump_clock: object, part: int
) -> None:
    flock = await _crash(tmp_path, f"SELECT 1 FROM outbox WHERE state = 1 AND parts_sent = {part}", late=True)
    assert texts(flock.arrived) == [*PARTS[: part + 1], *PARTS[part:]]
    assert [flight.text for flight in flock.arrived if flight.maybe_duplicate] == [PARTS[part]]
    keys = [flight.key for flight in flock.arrived]
    assert keys[part] == keys[part + 1] and len(set(keys)) == 5, "a part keeps its key"


@pytest.mark.parametrize("part", range(5))
async def test_a_crash_before_a_part_was_sent_loses_and_repeats_none(
    tmp_path: Path, autojump_clock: object, part: int
) -> None:
    """Nobody can know that it was not sent: it is marked all the same."""
    flock = await _crash(tmp_path, f"SELECT 1 FROM outbox WHERE state = 1 AND parts_sent = {part}", late=False)
    assert texts(flock.arrived) == PARTS
    assert [flight.text for flight in flock.arrived if flight.maybe_duplicate] == [PARTS[part]]


@pytest.mark.parametrize("part", range(1, 5))
async def test_a_crash_between_two_parts_repeats_and_marks_none(
    tmp_path: Path, autojump_clock: object, part: int
) -> None:
    flock = await _crash(tmp_path, f"SELECT 1 FROM outbox WHERE state = 0 AND parts_sent = {part}", late=False)
    assert texts(flock.arrived) == PARTS
    assert not any(flight.maybe_duplicate for flight in flock.arrived)


# -- waiting ----------------------------------------------------------------------------------------------------------


async def test_parts_go_out_in_order_and_the_reply_is_sent_when_the_last_is(
    tmp_path: Path, autojump_clock: object
) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        house.model.enqueue(say(WORDS), say("next"))
        await ask(house, "a")
        await ask(house, "b")
        await trio.sleep(1)
        assert texts(flock.arrived) == [*PARTS, "next"]
        row = await house.store.outbox.get(1)
        assert row is not None and (row.state, row.receipt) == ("sent", " ".join(f"feather-{n}" for n in range(1, 6)))
        assert len(house.events("reply.sent")) == 2


async def test_being_busy_never_counts_as_a_try(tmp_path: Path, autojump_clock: object) -> None:
    flock = Flock()
    flock.enqueue(*[BUSY] * (DELIVERY_ATTEMPTS_MAX * 5))
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        house.model.enqueue(say(WORDS))
        await ask(house)
        await trio.sleep(DELIVERY_ATTEMPTS_MAX * 5 * 30 + 1)
        assert texts(flock.arrived) == PARTS and not any(flight.maybe_duplicate for flight in flock.flights)
        waits = [later - sooner for sooner, later in itertools.pairwise(flock.started_at)]
        assert min(waits[: DELIVERY_ATTEMPTS_MAX * 5]) >= 30.0, "never sooner than it was told"
        assert (house.events("reply.failed"), await house.store.dead.find()) == ([], [])


async def test_a_platform_that_is_busy_for_no_time_is_not_asked_without_end(
    tmp_path: Path, autojump_clock: object
) -> None:
    flock = Flock()
    flock.enqueue(*[BusyError("FLOOD", "sending: too fast", retry_after_s=0.0)] * 100)
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        await ask(house)
        await trio.sleep(10)
        assert len(flock.flights) <= 11


@pytest.mark.parametrize("after", [BUSY, AWAY, UnavailableError("NOT_SENT", "sending: refused before it began")])
async def test_a_try_that_may_have_arrived_stays_marked_whatever_comes_next(
    tmp_path: Path, autojump_clock: object, after: Exception
) -> None:
    flock = Flock()
    flock.enqueue(after, UNSURE, after, after)
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        await ask(house, text="hello")
        await trio.sleep(600)
        assert [flight.maybe_duplicate for flight in flock.flights] == [False, False, True, True, True]
        assert texts(flock.arrived) == ["echo: hello"]


@pytest.fixture
def a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.kernel.OUTAGE_MAX_S", DAY_S)


@pytest.mark.usefixtures("a_day")
async def test_a_platform_that_is_away_for_half_a_day_loses_nothing(tmp_path: Path, autojump_clock: object) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        house.model.enqueue(say(WORDS))
        flock.enqueue(0.0, 0.0, *[AWAY] * 10_000)
        await ask(house)
        await trio.sleep(DAY_S / 2)
        assert texts(flock.arrived) == PARTS[:2]
        flock._script.clear()
        await trio.sleep(60)
        assert texts(flock.arrived) == PARTS and not any(flight.maybe_duplicate for flight in flock.arrived)
        assert len(house.events("reply.failed")) == 1, "told once"


@pytest.mark.usefixtures("a_day")
async def test_a_platform_that_is_away_for_more_than_a_day_costs_the_reply(
    tmp_path: Path, autojump_clock: object
) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        flock.enqueue(*[AWAY] * 10_000)
        await ask(house)
        await trio.sleep(DAY_S - 60)
        assert await house.store.dead.find() == []
        await trio.sleep(120)
        [letter] = await house.store.dead.find()
        assert (letter.source, letter.code) == ("outbox", "AWAY")


@pytest.mark.usefixtures("a_day")
async def test_a_platform_that_is_busy_for_more_than_a_day_costs_the_reply(
    tmp_path: Path, autojump_clock: object
) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        flock.enqueue(*[BUSY] * 10_000)
        await ask(house)
        await trio.sleep(DAY_S + 120)
        assert ("outbox", "FLOOD") in [(letter.source, letter.code) for letter in await house.store.dead.find()]


async def test_a_reply_that_cannot_be_made_ready_has_as_many_tries_as_one_that_is_sent(
    tmp_path: Path, autojump_clock: object
) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        flock.broken = UNSURE
        await ask(house)
        await trio.sleep(1_000)
        letter = (await house.store.dead.find())[-1]
        assert (letter.source, letter.attempts) == ("outbox", DELIVERY_ATTEMPTS_MAX)
        assert flock.flights == [] and house.events("reply.failed")


async def test_a_delay_holds_back_one_address_and_starts_no_try(tmp_path: Path, autojump_clock: object) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        flock.delays["ann"] = 100.0
        await ask(house, "a")
        await ask(house, "b", sender="pigeon:7", chat="pigeon:-42")
        await trio.sleep(50)
        assert [flight.target for flight in flock.flights] == ["-42"]
        row = await house.store.outbox.get(1)
        assert row is not None and (row.state, row.attempts) == ("waiting", 0)
        await trio.sleep(60)
        assert [flight.target for flight in flock.arrived] == ["-42", "ann"]
        assert flock.started_at[1] == pytest.approx(100.0, abs=0.1)


# -- giving up --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("broken", "code"),
    [(ZeroDivisionError("a defect"), "CONNECTOR_CRASHED"), (InvalidError("EMPTY", "splitting: nothing left"), "EMPTY")],
)
async def test_a_reply_that_cannot_be_split_is_given_up_visibly_and_holds_up_nothing(
    tmp_path: Path, autojump_clock: object, broken: Exception, code: str
) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        flock.broken = broken
        await ask(house, "a", "first")
        await trio.sleep(1)
        letter = (await house.store.dead.find())[-1]  # the notice of it has the same fate
        assert (letter.source, letter.code, letter.body, letter.attempts) == ("outbox", code, "echo: first", 0)
        flock.broken = None
        await ask(house, "b", "second")
        await trio.sleep(1)
        assert "echo: second" in texts(flock.arrived)
        assert letter.no in [event["no"] for event in house.events("dead.lettered")]


async def test_parts_that_became_fewer_are_given_up_rather_than_guessed(tmp_path: Path, autojump_clock: object) -> None:
    class Changed(Flock):
        def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
            return super().split(outgoing)[: 5 if self.splits < 2 else 1]

    flock = Changed()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        house.model.enqueue(say(WORDS))
        await ask(house)
        await trio.sleep(1)
        assert [letter.code for letter in await house.store.dead.find()] == ["PARTS_GONE"]


async def test_what_was_not_heard_stands_in_the_agents_next_prompt(tmp_path: Path, autojump_clock: object) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        house.model.enqueue(say(WORDS))
        flock.enqueue(0.0, ForbiddenError("BLOCKED", "sending: ann has blocked the bot"))
        await ask(house, "a")
        await trio.sleep(1)
        assert len(house.model.history) == 1, "a note costs no call"
        await ask(house, "b", "hello?")
        noted, last = asked(house.model)[-2:]
        assert "A reply did not arrive: sending: ann has blocked the bot" in noted and WORDS in noted
        assert "not from the user" in noted and last == "hello?"


async def test_a_turn_that_was_given_up_offers_to_try_again(tmp_path: Path, autojump_clock: object) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        house.model.enqueue(*[BusyError("REFUSED", "asking: the model refuses")] * 100)
        await receive(house, inbound("a", "hello", message="17"))
        await trio.sleep(3_600)
        [sorry] = flock.arrived
        assert sorry.text.startswith("I could not answer this: ") and sorry.reply_to == "17"
        [turn] = [event["turn"] for event in house.events("turn.failed") if event.get("retry_in_s") is None]
        assert sorry.choices == (Choice("Try again", f"/retry turn {turn}"),)
        house.model._script.clear()
        for press in ("r1", "r2"):
            await receive(house, inbound(press, sorry.choices[0].says))
        await trio.sleep(10)
        assert texts(flock.arrived).count("echo: hello") == 1
