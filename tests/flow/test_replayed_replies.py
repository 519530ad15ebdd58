"""A reply that is replayed from the dead letters says that it may be a duplicate, if and only if it may be one."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

from daycare.agent.sending import DELIVERY_ATTEMPTS_MAX
from daycare.base.errors import AwayError, BusyError, ForbiddenError, InvalidError, UnavailableError
from daycare.base.limits import OUTBOX_MAX_MESSAGES
from daycare.store.records import Reply
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector, texts
from daycare.testing.scripted import say
from tests.flow.platform import answered, inbound, people, receive
from tests.flow.test_parts import PARTS, WORDS, Flock

UNSURE = UnavailableError("TIMEOUT", "sending: no answer")
NOT_SENT = UnavailableError("NOT_SENT", "sending: the line was never open")
BUSY = BusyError("FLOOD", "sending: too fast", retry_after_s=3_600.0)
AWAY = AwayError("AWAY", "sending: the platform is away", retry_after_s=3_600.0)
REFUSED = ForbiddenError("BLOCKED", "sending: ann has blocked the bot")
OUTAGE_S = 7_200.0  # instead of a day, each of whose hours costs half a second
UNTIL_GIVEN_UP_S = 2 * OUTAGE_S


@pytest.fixture(autouse=True)
def short_outages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daycare.kernel.OUTAGE_MAX_S", OUTAGE_S)


async def ask(house: TestDaemon, key: str = "a", text: str = "hello") -> None:
    """Ask Ann's agent something over the pigeon, and wait for the answer's commit."""
    [outcome] = await receive(house, inbound(key, text))
    await answered(house, outcome)


async def replay(house: TestDaemon, text: str) -> None:
    """Replay the dead letter of a reply, and let it go out."""
    letters = [letter for letter in await house.store.dead.find() if letter.body == text and not letter.replayed_at]
    assert len(letters) == 1, "it was given up, once"
    await house.store.dead.replay(letters[0].no)
    await trio.sleep(60)


def marks(pigeon: FakeConnector, *words: str) -> list[tuple[str, bool]]:
    """Return what has arrived of a reply, and whether it was marked."""
    return [(flight.text, flight.maybe_duplicate) for flight in pigeon.arrived if flight.text in words]


@pytest.mark.parametrize(
    ("tries", "unsure"),
    [
        pytest.param([UNSURE] * DELIVERY_ATTEMPTS_MAX, True, id="never-confirmed"),
        pytest.param([NOT_SENT] * DELIVERY_ATTEMPTS_MAX, False, id="never-sent"),
        pytest.param([REFUSED], False, id="refused-at-once"),
        pytest.param([NOT_SENT, REFUSED], False, id="never-sent-then-refused"),
        pytest.param([UNSURE, REFUSED], True, id="unconfirmed-then-refused"),
        pytest.param([UNSURE, *[NOT_SENT] * DELIVERY_ATTEMPTS_MAX], True, id="unconfirmed-then-never-sent"),
        pytest.param([*[NOT_SENT] * (DELIVERY_ATTEMPTS_MAX - 1), UNSURE], True, id="unconfirmed-at-last"),
        pytest.param([KeyError("a defect")] * DELIVERY_ATTEMPTS_MAX, True, id="connector-crashed"),
        pytest.param([BUSY] * 100, False, id="busy-too-long"),
        pytest.param([UNSURE, *[BUSY] * 100], True, id="unconfirmed-then-busy-too-long"),
        pytest.param([AWAY] * 100, False, id="away-too-long"),
        pytest.param([UNSURE, *[AWAY] * 100], True, id="unconfirmed-then-away-too-long"),
    ],
)
async def test_a_replayed_reply_is_marked_only_after_a_try_that_may_have_arrived(
    tmp_path: Path, autojump_clock: object, tries: Sequence[Exception], unsure: bool
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        pigeon.enqueue(*tries)
        await ask(house)
        await trio.sleep(UNTIL_GIVEN_UP_S)
        pigeon._script.clear()
        await replay(house, "echo: hello")
        assert marks(pigeon, "echo: hello") == [("echo: hello", unsure)]


async def test_of_a_reply_in_parts_only_the_one_that_may_have_arrived_is_marked(
    tmp_path: Path, autojump_clock: object
) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        house.model.enqueue(say(WORDS))
        flock.enqueue(0.0, 0.0, *[UNSURE] * DELIVERY_ATTEMPTS_MAX)
        await ask(house)
        await trio.sleep(UNTIL_GIVEN_UP_S)
        assert texts(flock.arrived)[:2] == PARTS[:2]
        await replay(house, WORDS)
        assert marks(flock, *PARTS) == [(word, word == PARTS[2]) for word in PARTS]


async def test_a_part_that_was_confirmed_before_the_rest_was_refused_costs_no_mark(
    tmp_path: Path, autojump_clock: object
) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        house.model.enqueue(say(WORDS))
        flock.enqueue(UNSURE, 0.0, REFUSED)
        await ask(house)
        await trio.sleep(600)
        await replay(house, WORDS)
        assert marks(flock, *PARTS) == [(word, word == PARTS[0]) for word in PARTS]


async def test_a_reply_that_cannot_be_made_ready_after_an_unconfirmed_try_is_marked(
    tmp_path: Path, autojump_clock: object
) -> None:
    flock = Flock()
    async with open_daemon(tmp_path, plugins=[flock.plugin()]) as house:
        await people(house)
        flock.enqueue(UNSURE)
        await ask(house)
        await trio.sleep(0.1)
        assert len(flock.flights) == 1
        flock.broken = InvalidError("EMPTY", "splitting: nothing left")
        await trio.sleep(600)
        flock.broken = None
        await replay(house, "echo: hello")
        assert marks(flock, "echo: hello") == [("echo: hello", True)]


async def test_a_reply_that_is_given_up_and_replayed_again_and_again_keeps_its_mark(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        pigeon.enqueue(UNSURE, REFUSED)
        await ask(house)
        await trio.sleep(600)
        for _ in range(3):
            pigeon.enqueue(REFUSED)
            await replay(house, "echo: hello")
        await replay(house, "echo: hello")
        assert marks(pigeon, "echo: hello") == [("echo: hello", True)]


async def test_the_mark_outlives_a_crash_before_the_replay(tmp_path: Path, autojump_clock: object) -> None:
    pigeon, clock = FakeConnector(), VirtualClock()
    pigeon.enqueue(UNSURE, REFUSED)
    async with open_daemon(tmp_path, location="daycare.db", plugins=[pigeon.plugin()], clock=clock) as house:
        await people(house)
        await ask(house)
        await trio.sleep(600)
    async with open_daemon(tmp_path, location="daycare.db", plugins=[pigeon.plugin()], clock=clock) as house:
        await replay(house, "echo: hello")
        assert marks(pigeon, "echo: hello") == [("echo: hello", True)]


async def test_a_reply_that_overflowed_after_an_unconfirmed_try_is_marked_and_the_others_are_not(
    tmp_path: Path, autojump_clock: object
) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, plugins=[pigeon.plugin()]) as house:
        await people(house)
        pigeon.enqueue(UnavailableError("TIMEOUT", "sending: no answer", retry_after_s=600.0))
        agent = await house.agent("/ann/pigeon")
        for number in range(OUTBOX_MAX_MESSAGES + 2):
            await house.store.outbox.add(agent, Reply(connector="pigeon", text=f"no {number}"), "t")
            if not number:
                await trio.sleep(1)
        assert len(pigeon.flights) == 1
        await trio.sleep(700)
        for number in (0, 1):
            await replay(house, f"no {number}")
        assert marks(pigeon, "no 0", "no 1") == [("no 0", True), ("no 1", False)]
