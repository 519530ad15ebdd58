"""What shows a request loses its buttons once that is decided, whoever did it, and says what was decided."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from daycare.base.errors import AwayError, BusyError, InvalidError, UnavailableError
from daycare.base.limits import APPROVAL_S
from daycare.features.approvals.approval_messages import OUTCOMES_LOOK_S, OUTCOMES_SOON_S
from daycare.features.approvals.records import Approval
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import Approver
from daycare.features.upkeep.service import EXPIRE_EVERY_S
from daycare.plugin import Capabilities
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted
from tests.approvals.story import ANN, ann, asking, memory_of, overwrite, service_of, settle

TERMINAL = Approver("ann", "direct:ann")


@pytest.fixture
def pigeon() -> FakeConnector:
    return FakeConnector(Capabilities(edits=True))


@pytest.fixture
async def calendar(autojump_clock: object) -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def house(
    tmp_path: Path, autojump_clock: object, pigeon: FakeConnector, calendar: VirtualClock
) -> AsyncIterator[TestDaemon]:
    async with open_daemon(tmp_path, Scripted(), plugins=[pigeon.plugin()], clock=calendar) as opened:
        yield opened


async def propose(house: TestDaemon, text: str = "- has a dog\n", step: int = 0, verb: str = "append") -> Approval:
    it = await service_of(house).request(await ann(house), asking(await ann(house), text, step, verb=verb))
    await settle(house, 1.0)
    return it


def edits(pigeon: FakeConnector) -> list[tuple[str, str]]:
    """Return (receipt, last line) of what was edited."""
    return [(shown.receipt, shown.text.split("\n")[-1]) for shown in pigeon.shown if shown.call == "edit"]


async def test_whoever_decides_it_is_said_below_the_change(
    autojump_clock: object, house: TestDaemon, pigeon: FakeConnector
) -> None:
    it = await propose(house)
    await service_of(house).decide(it.no, "approve", TERMINAL, it.seen)
    await settle(house, 1.0)
    [shown] = [shown for shown in pigeon.shown if shown.call == "edit"]
    before = pigeon.arrived[0].text
    assert (shown.target, shown.receipt) == ("ann", "feather-1")
    assert shown.text == before.replace(
        "You have 7 days to decide.", "Decided: approved by Ann (direct:ann), 2027-01-01 00:00."
    )
    await settle(house, 5 * OUTCOMES_LOOK_S)
    assert len(edits(pigeon)) == 1, "once is enough"


async def test_what_nobody_decided_and_what_makes_no_sense_any_more_say_so(
    autojump_clock: object, house: TestDaemon, pigeon: FakeConnector, calendar: VirtualClock
) -> None:
    await propose(house, "- new\n", verb="write")
    await overwrite(house, memory_of(await ann(house)), "- new\n")
    with pytest.raises(Exception, match="it has ended"):
        await service_of(house).decide(1, "approve", TERMINAL, (await service_of(house).get(1)).seen)
    await settle(house, 1.0)  # its agent answers, before another request is sent
    await propose(house, "- has a cat\n", 1)
    calendar.sleep(APPROVAL_S)
    await settle(house, EXPIRE_EVERY_S + OUTCOMES_LOOK_S)
    assert edits(pigeon) == [
        ("feather-1", "Decided: stale, 2027-01-01 00:00: write of MEMORY.md: it says exactly that already."),
        ("feather-3", "Decided: expired, 2027-01-08 00:01: nobody decided in time."),
    ]


async def test_what_was_changed_before_says_that_it_is_not_what_was_decided(
    autojump_clock: object, house: TestDaemon, pigeon: FakeConnector
) -> None:
    it = await propose(house)
    now = await service_of(house).decide(it.no, "edit", TERMINAL, it.seen, text="- has a cat\n")
    await settle(house, 2 * OUTCOMES_LOOK_S)
    assert edits(pigeon) == [], "its buttons show it as it is now"
    await service_of(house).decide(it.no, "reject", ANN, now.seen, why="that was *a* joke")
    await settle(house, 1.0)
    assert edits(pigeon) == [
        (
            "feather-1",
            "Changed before it was decided: rejected by Ann (pigeon:ann), 2027-01-01 00:02: `that was *a* joke`.",
        )
    ]


async def test_a_message_that_arrives_after_the_decision_is_edited_then(
    autojump_clock: object, house: TestDaemon, pigeon: FakeConnector
) -> None:
    pigeon.enqueue(20.0)
    it = await propose(house)
    await service_of(house).decide(it.no, "reject", TERMINAL, it.seen)
    await settle(house, 10.0)
    assert pigeon.arrived == [] and edits(pigeon) == []
    await settle(house, 7 * OUTCOMES_SOON_S)
    assert [receipt for receipt, _ in edits(pigeon)] == ["feather-1"]


@pytest.mark.parametrize(
    ("error", "after_s"),
    [
        (BusyError("PACE", "too fast", retry_after_s=3.0), 3.0),
        (AwayError("NOT_SENT", "it is away"), OUTCOMES_SOON_S),
        (UnavailableError("LATE", "no answer"), OUTCOMES_SOON_S),
    ],
)
async def test_a_platform_that_cannot_now_is_asked_again(
    autojump_clock: object, house: TestDaemon, pigeon: FakeConnector, error: Exception, after_s: float
) -> None:
    pigeon.upset("edit", error)
    it = await propose(house)
    await service_of(house).decide(it.no, "reject", TERMINAL, it.seen)
    await settle(house, after_s - 0.5)
    assert len(edits(pigeon)) == 1
    await settle(house, 1.0)
    assert len(edits(pigeon)) == 2


async def test_a_platform_that_stays_away_is_asked_more_and_more_seldom(
    autojump_clock: object, house: TestDaemon, pigeon: FakeConnector
) -> None:
    pigeon.upset("edit", *[AwayError("NOT_SENT", "it is away")] * 100)
    it = await propose(house)
    await service_of(house).decide(it.no, "reject", TERMINAL, it.seen)
    await settle(house, 3_600.0)
    assert 60 <= len(edits(pigeon)) <= 64


@pytest.mark.parametrize("error", [InvalidError("GONE", "it is gone"), ValueError("a defect")])
async def test_what_cannot_be_edited_is_left(
    autojump_clock: object, house: TestDaemon, pigeon: FakeConnector, error: Exception
) -> None:
    pigeon.upset("edit", error)
    it = await propose(house)
    await service_of(house).decide(it.no, "reject", TERMINAL, it.seen)
    await settle(house, 3 * OUTCOMES_LOOK_S)
    assert len(edits(pigeon)) == 1


async def test_where_nothing_can_be_edited_nothing_is(tmp_path: Path, autojump_clock: object) -> None:
    pigeon = FakeConnector()
    async with open_daemon(tmp_path, Scripted(), plugins=[pigeon.plugin()]) as house:
        it = await propose(house)
        await service_of(house).decide(it.no, "reject", TERMINAL, it.seen)
        await settle(house, 3 * OUTCOMES_LOOK_S)
        assert pigeon.shown == [] and await house.store.of(ApprovalRows).outlived(["pigeon"], 0) == []


async def test_what_a_crash_left_is_edited_at_the_next_start(
    tmp_path: Path, autojump_clock: object, pigeon: FakeConnector
) -> None:
    home, clock = str(tmp_path / "house.db"), VirtualClock()
    async with open_daemon(tmp_path, Scripted(), plugins=[pigeon.plugin()], location=home, clock=clock) as house:
        it = await propose(house)
        pigeon.upset("edit", 1_000.0)
        await service_of(house).decide(it.no, "approve", TERMINAL, it.seen)
        await trio.sleep(1.0)
    assert len(edits(pigeon)) == 1
    async with open_daemon(tmp_path, Scripted(), plugins=[pigeon.plugin()], location=home, clock=clock) as house:
        await settle(house, 1.0)
    assert [line for _, line in edits(pigeon)] == ["Decided: approved by Ann (direct:ann), 2027-01-01 00:00."] * 2
