"""On virtual time: each run of the property tests has a clock of its own that jumps to the next thing to happen."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from daycare.messenger.governor import ASKED_S, CHATS_MAX, Governor, Rate
from daycare.testing.clock import patient_clock
from daycare_plugins.telegram.rates import PERSON, new_governor

PEOPLE_CHATS = (1, 2, 3)
CALLS = st.lists(
    st.tuples(
        st.floats(0, 20, allow_subnormal=False),  # when it is wanted
        st.sampled_from((*PEOPLE_CHATS, -7, -8)),
        st.booleans(),  # important
    ),
    min_size=1,
    max_size=60,
)
FREEZES = st.lists(
    st.tuples(st.floats(0, 20, allow_subnormal=False), st.sampled_from((1, 2, -7, None)), st.floats(0, 30)), max_size=4
)


def run(main: Callable[[], Awaitable[Any]]) -> Any:
    return trio.run(main, clock=patient_clock())


async def carried_out(governor: Governor[int], calls: Any, freezes: Any = ()) -> list[tuple[float, float, int, bool]]:
    """Return (gone, wanted, chat, important) of all calls, in the order in which they went."""
    gone: list[tuple[float, float, int, bool]] = []

    async def call(wanted: float, chat: int, important: bool) -> None:
        await trio.sleep(wanted)
        asked = trio.current_time()
        await governor.acquire(chat, important=important)
        gone.append((trio.current_time(), asked, chat, important))

    async def freeze(at: float, chat: int | None, seconds: float) -> None:
        await trio.sleep(at)
        governor.freeze(chat, seconds)

    async with trio.open_nursery() as nursery:
        for item in freezes:
            nursery.start_soon(freeze, *item)
        for item in calls:
            nursery.start_soon(call, *item)
    return gone


def most_within(times: list[float], seconds: float) -> int:
    """The most calls in any half-open window of so many seconds."""
    return max((sum(1 for at in times if start <= at < start + seconds - 1e-6) for start in times), default=0)


@settings(max_examples=150, deadline=None)
@given(calls=CALLS, freezes=FREEZES)
def test_no_window_has_more_calls_than_allowed_and_all_calls_go(calls: Any, freezes: Any) -> None:
    gone = run(lambda: carried_out(new_governor(), calls, freezes))
    assert len(gone) == len(calls)
    assert most_within([at for at, *_ in gone], 1) <= 30
    for chat in {chat for _, _, chat, _ in gone}:
        times = [at for at, _, where, _ in gone if where == chat]
        assert most_within(times, 1) <= (4 if chat < 0 else 3)
        assert most_within(times, 60) <= (20 if chat < 0 else 63)


@settings(max_examples=10, deadline=None)
@given(count=st.integers(1, 400), chats=st.integers(1, 300))
def test_a_rush_is_spread_over_all_chats_at_under_thirty_a_second(count: int, chats: int) -> None:
    calls = [(0.0, 1 + number % chats, bool(number % 3)) for number in range(count)]
    gone = run(lambda: carried_out(new_governor(), calls))
    assert most_within([at for at, *_ in gone], 1) <= 30
    assert max(at for at, *_ in gone) - min(at for at, *_ in gone) <= count / 25 + count / chats + 3


@settings(max_examples=150, deadline=None)
@given(calls=CALLS, freezes=FREEZES)
def test_frozen_means_frozen(calls: Any, freezes: Any) -> None:
    async def main() -> tuple[float, list[tuple[float, float, int, bool]]]:
        return trio.current_time(), await carried_out(new_governor(), calls, freezes)

    start, gone = run(main)
    for at, chat, seconds in freezes:
        for moment, _, where, _ in gone:
            assert chat not in (where, None) or not start + at < moment < start + at + seconds


@settings(max_examples=100, deadline=None)
@given(calls=CALLS)
def test_important_calls_of_a_chat_keep_their_order_and_outrank_what_waits_with_them(calls: Any) -> None:
    gone = run(lambda: carried_out(new_governor(), calls))
    for index, (at, wanted, chat, important) in enumerate(gone):
        for later_at, later_wanted, where, later_important in gone[index + 1 :]:
            if where == chat and later_important and at < later_at and later_wanted < at:
                assert important and wanted <= later_wanted


async def test_answers_go_before_the_status_lines_that_waited_longer(autojump_clock: MockClock) -> None:
    status = [(0.0, 1, False)] * 10
    answers = [(1.5, 1, True)] * 5
    gone = await carried_out(new_governor(), status + answers)
    waited = [important for at, _, _, important in gone if at - gone[0][0] >= 1.5]
    assert waited == [True] * 5 + [False] * (len(waited) - 5)


async def test_an_unimportant_call_leaves_room_for_an_important_one(autojump_clock: MockClock) -> None:
    governor = new_governor()
    for _ in range(2):
        assert governor.delay_s(5, important=False) == 0
        governor.take(5)
    assert governor.delay_s(5, important=False) == pytest.approx(PERSON.interval_s)
    assert governor.delay_s(5, important=True) == 0
    governor.take(5)
    assert governor.delay_s(5, important=True) == pytest.approx(PERSON.interval_s)
    assert governor.delay_s(6, important=False) == 0


async def test_an_answer_that_waits_for_a_frozen_chat_keeps_nobody_else_waiting(autojump_clock: MockClock) -> None:
    governor = new_governor()
    governor.freeze(1, 50)
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(lambda: governor.acquire(1, important=True))
        await trio.sleep(0.1)
        assert governor.delay_s(2, important=False) == 0
        nursery.cancel_scope.cancel()


async def test_a_status_line_starves_only_while_answers_come(autojump_clock: MockClock) -> None:
    governor = new_governor()
    start = trio.current_time()
    gone = await carried_out(governor, [(0.01, 1, False), *[(0.0, 1, True)] * 30])
    assert [important for *_, important in gone] == [True] * 30 + [False]
    assert trio.current_time() - start <= 31 * PERSON.interval_s


async def test_two_chats_refused_within_a_second_freeze_all(autojump_clock: MockClock) -> None:
    governor = new_governor()
    governor.freeze(1, 20)
    await trio.sleep(0.9)
    assert governor.delay_s(3, important=True) == 0
    governor.freeze(2, 5)
    assert governor.delay_s(3, important=True) == pytest.approx(19.1)
    await trio.sleep(30)
    governor.freeze(1, 20)
    governor.freeze(1, 20)
    await trio.sleep(1.1)
    governor.freeze(2, 20)
    assert governor.delay_s(3, important=True) == 0


async def test_a_cool_down_survives_a_restart(autojump_clock: MockClock) -> None:
    before = new_governor()
    assert before.frozen_until(1_000_000) == ""
    before.freeze(-100, 30)
    before.freeze(None, 10)
    state = before.frozen_until(1_000_000)
    after = new_governor()
    after.restore(state, 1_004_000)
    assert after.delay_s(1, important=True) == pytest.approx(6, abs=0.01)
    assert after.delay_s(-100, important=True) == pytest.approx(26, abs=0.01)
    await trio.sleep(26.1)
    assert after.delay_s(-100, important=True) == 0 and after.frozen_until(1_030_100) == ""


@pytest.mark.parametrize("state", ["", "null", "{", '{"chats":{"x":5}}', '{"everybody":"soon"}', '"\ud800"', "[]"])
async def test_what_cannot_be_read_is_ignored(autojump_clock: MockClock, state: str) -> None:
    governor = new_governor()
    governor.restore(state, 0)
    assert governor.delay_s(1, important=True) == 0


async def test_a_clock_that_was_set_back_freezes_for_a_day_at_most(autojump_clock: MockClock) -> None:
    governor = new_governor()
    governor.restore('{"everybody": 4102444800000, "chats": {"7": 4102444800000}}', 0)
    assert governor.delay_s(7, important=True) == pytest.approx(86_400)


async def test_memory_is_bounded_and_debts_that_are_paid_are_forgotten(autojump_clock: MockClock) -> None:
    governor = new_governor(person=Rate(1_000.0, 2), everybody=Rate(0.0001, 5))
    for chat in range(CHATS_MAX + 5_000):
        governor.take(chat)
        governor.freeze(chat, 5_000)
    assert len(governor._chats) <= CHATS_MAX and len(governor._cool) <= CHATS_MAX
    assert len(governor.frozen_until(0)) < 4_000
    await trio.sleep(20_000)
    governor.take(1)
    assert len(governor._chats) == 1 and not governor._cool


async def test_a_cancelled_call_is_not_booked(autojump_clock: MockClock) -> None:
    governor = new_governor()
    governor.freeze(1, 10)
    with trio.move_on_after(1):
        await governor.acquire(1, important=True)
    await trio.sleep(12)  # until the chat has room for a burst again
    for _ in range(3):
        assert governor.delay_s(1, important=True) == pytest.approx(0, abs=1e-9)
        governor.take(1)


async def test_an_answer_that_was_told_to_wait_goes_before_drafts_when_the_wait_is_over(
    autojump_clock: MockClock,
) -> None:
    governor = new_governor()
    governor.freeze(None, 3)
    chats = range(1, 9)
    waits = [governor.delay_s(chat, important=True) for chat in chats]
    await trio.sleep(max(waits))
    assert all(governor.delay_s(chat, important=False) > 0 for chat in (*chats, 99))
    for chat in chats:
        await trio.sleep(governor.delay_s(chat, important=True))
        governor.take(chat)
    await trio.sleep(ASKED_S)
    assert governor.delay_s(99, important=False) == 0


async def test_an_answer_that_never_comes_holds_drafts_up_for_a_moment_only(autojump_clock: MockClock) -> None:
    governor = new_governor()
    governor.freeze(1, 3)
    assert governor.delay_s(1, important=True) > 0
    await trio.sleep(3 + ASKED_S + 3)
    assert governor.delay_s(1, important=False) == 0


async def test_after_a_refusal_there_is_no_burst(autojump_clock: MockClock) -> None:
    governor = new_governor()
    governor.freeze(1, 5)
    await trio.sleep(5)
    assert governor.delay_s(1, important=True) == 0
    governor.take(1)
    assert governor.delay_s(1, important=True) > 0.9 * PERSON.interval_s


async def test_the_refusal_of_a_burst_says_nothing_of_other_chats(autojump_clock: MockClock) -> None:
    governor = new_governor()
    for chat in (1, 2):
        governor.take(chat)
        governor.take(chat)
        governor.freeze(chat, 5)
    await trio.sleep(0.5)
    assert governor.delay_s(3, important=True) == 0
    await trio.sleep(10)
    for chat in (1, 2):
        governor.take(chat)
        governor.freeze(chat, 5)
    assert governor.delay_s(3, important=True) > 4
