"""The breaker: who is asked while a provider is away, how often, and who is told. Time is virtual."""

import pytest
import trio
import trio.testing

from daycare.base.errors import DaycareError, UnavailableError
from daycare.base.limits import BREAKER_PAUSE_S
from daycare.inference.breaker import BREAKER_FAILURES, BREAKER_PAUSE_MAX_S, BREAKER_PROBING_S, Breaker, Permit

DOWN = UnavailableError("PROVIDER_UNREACHABLE", "the connection failed")


class Told(list[DaycareError | None]):
    """What a breaker told, in order."""

    def made(self) -> Breaker:
        return Breaker(self.append)


def permitted(breaker: Breaker) -> Permit:
    permit = breaker.permit()
    assert permit is not None, f"refused for {breaker.retry_after_s} s"
    return permit


def fail(breaker: Breaker, times: int = 1, error: DaycareError = DOWN) -> None:
    for _ in range(times):
        with permitted(breaker) as permit:
            permit.failed(error)


def test_failures_in_a_row_open_it_and_are_told_once() -> None:
    async def main() -> None:
        told = Told()
        breaker = told.made()
        fail(breaker, BREAKER_FAILURES - 1)
        assert breaker.permit() is not None and told == []
        fail(breaker)
        assert breaker.permit() is None
        assert told == [DOWN]
        assert breaker.retry_after_s == BREAKER_PAUSE_S

    trio.run(main, clock=trio.testing.MockClock())


async def test_a_word_in_between_starts_the_count_anew(autojump_clock: trio.testing.MockClock) -> None:
    told = Told()
    breaker = told.made()
    for _ in range(5):
        fail(breaker, BREAKER_FAILURES - 1)
        with permitted(breaker) as permit:
            permit.answered()
    assert told == [] and not breaker.away


async def test_probes_are_single_and_their_pauses_grow_to_a_bound(autojump_clock: trio.testing.MockClock) -> None:
    told = Told()
    breaker = told.made()
    fail(breaker, BREAKER_FAILURES)
    pauses = []
    for _ in range(7):
        pauses.append(breaker.retry_after_s)
        await trio.sleep(breaker.retry_after_s)
        with permitted(breaker) as permit:
            assert breaker.permit() is None, "a second probe beside the first"
            assert breaker.retry_after_s == BREAKER_PROBING_S
            permit.failed(DOWN)
    assert pauses == [30.0, 60.0, 120.0, 240.0, 300.0, 300.0, BREAKER_PAUSE_MAX_S]
    assert told == [DOWN]


async def test_an_answer_closes_it_and_the_next_outage_begins_with_the_short_pause(
    autojump_clock: trio.testing.MockClock,
) -> None:
    told = Told()
    breaker = told.made()
    for _ in range(2):
        fail(breaker, BREAKER_FAILURES)
        await trio.sleep(BREAKER_PAUSE_S)
        fail(breaker)
        assert breaker.retry_after_s == 2 * BREAKER_PAUSE_S
        await trio.sleep(2 * BREAKER_PAUSE_S)
        with permitted(breaker) as permit:
            permit.answered()
        assert not breaker.away
    assert told == [DOWN, None, DOWN, None]


async def test_a_probe_that_was_cancelled_leaves_room_for_the_next(autojump_clock: trio.testing.MockClock) -> None:
    breaker = Told().made()
    fail(breaker, BREAKER_FAILURES)
    await trio.sleep(BREAKER_PAUSE_S)
    with trio.move_on_after(1), permitted(breaker):
        await trio.sleep_forever()
    assert breaker.retry_after_s == 0
    assert breaker.permit() is not None


async def test_calls_that_began_before_the_outage_was_known_do_not_count_as_probes(
    autojump_clock: trio.testing.MockClock,
) -> None:
    told = Told()
    breaker = told.made()
    late, saved = permitted(breaker), permitted(breaker)
    fail(breaker, BREAKER_FAILURES)
    with late:
        late.failed(DOWN)
    assert breaker.retry_after_s == BREAKER_PAUSE_S
    with saved:
        saved.answered()
    assert told == [DOWN, None]


@pytest.mark.parametrize(("asked_s", "waited_s"), [(5.0, 30.0), (90.0, 90.0), (9_000.0, 300.0)])
async def test_a_provider_may_ask_for_a_longer_pause_up_to_the_bound(
    asked_s: float, waited_s: float, autojump_clock: trio.testing.MockClock
) -> None:
    breaker = Told().made()
    fail(breaker, BREAKER_FAILURES, UnavailableError("RATE_LIMITED", "slow down", retry_after_s=asked_s))
    assert breaker.retry_after_s == waited_s
