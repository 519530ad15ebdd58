"""Agents wake, work, idle and sleep; a wake is never lost and never doubled."""

from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.actors.lifecycle import MOVES, Activation, Life
from daycare.base.limits import AWAKE_IDLE_S, MAILBOX_MAX_ROWS, SWEEP_S, WAKE_PAGE_AGENTS
from daycare.base.messages import Envelope, Origin
from daycare.store.records import NewAgent
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, say
from tests.actors.helpers import config, heard, said_to


async def test_a_message_to_a_sleeping_agent_wakes_it_once(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        assert house.daemon.supervisor.awake == {}
        assert await house.talk("hello") == "echo: hello"
        assert len(house.events("agent.woke")) == 1


async def test_concurrent_posts_wake_a_sleeping_agent_once(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        async with trio.open_nursery() as nursery:
            for n in range(50):
                nursery.start_soon(house.say, f"m{n}")
        await trio.sleep(1)
        assert len(house.events("agent.woke")) == 1
        taken = [seq for event in house.events("turn.finished") for seq in event["seqs"]]  # type: ignore[attr-defined]
        assert sorted(taken) == list(range(1, 51)), "each message is answered in one turn"


async def test_an_idle_agent_sleeps_and_wakes_again(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("first")
        await trio.sleep(AWAKE_IDLE_S - 1)
        assert len(house.daemon.supervisor.awake) == 1, "it stays awake for a while"
        await trio.sleep(1 + 2 * SWEEP_S)
        assert house.daemon.supervisor.awake == {}
        assert await house.talk("second") == "echo: second"
        assert len(house.events("agent.woke")) == 2
        assert len(house.events("agent.slept")) == 1


async def test_a_message_at_the_moment_of_falling_asleep_is_answered(tmp_path: Path, autojump_clock: object) -> None:
    """Retiring and a post in one tick, in both orders: the lane either takes it or a new one is woken."""
    async with open_daemon(tmp_path) as house:
        for n in range(40):
            await house.talk(f"before {n}")
            await trio.testing.wait_all_tasks_blocked()
            if n % 2:
                house.daemon.supervisor.sleep_idle(0.0)
                receipt = await house.say(f"late {n}")
            else:
                receipt = await house.say(f"late {n}")
                house.daemon.supervisor.sleep_idle(0.0)
            assert await house.hear(receipt, 60) == f"echo: late {n}"


async def test_messages_of_one_sender_are_answered_in_order(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        await house.agent("/ann/agent/desk")
        for n in range(20):
            await house.post("/ann/agent/desk", f"m{n}", sender="/ann/agent/other", key=f"k{n}")
        await _run(house)
        assert [prompt[-1].rpartition("\n")[2] for prompt in heard(house)] == [f"m{n}" for n in range(20)]


async def test_more_messages_than_memory_holds_keep_their_order(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(30.0)
    total = 3 * MAILBOX_MAX_ROWS + 7
    async with open_daemon(tmp_path, model) as house:
        await house.agent("/ann/agent/desk")
        for n in range(total):  # all but the first arrive while it is in its first turn
            await house.post("/ann/agent/desk", f"m{n}", sender="/ann/agent/other", key=f"k{n}")
        await trio.sleep(60)
        assert [prompt[-1].rpartition("\n")[2] for prompt in heard(house)] == [f"m{n}" for n in range(total)]


async def test_the_backlog_of_a_start_is_worked_off_within_the_bound(tmp_path: Path, autojump_clock: object) -> None:
    agents = WAKE_PAGE_AGENTS + 50
    clock = VirtualClock()
    async with open_daemon(tmp_path, location="daycare.db", work=False, clock=clock) as house:
        await house.store.inbox.post_all([_first_word(n) for n in range(agents)])
    model = Scripted()
    most = 0

    def answer(_request: object) -> object:
        nonlocal most
        most = max(most, len(house.daemon.supervisor.awake))
        return say("done")

    model.default = answer  # type: ignore[assignment]
    async with open_daemon(tmp_path, model, location="daycare.db", work=False, clock=clock) as house:
        await _run(house)
        assert sum(event["user"] == "ann" for event in house.events("turn.finished")) == agents
        assert 1 < most <= WAKE_PAGE_AGENTS
        assert house.daemon.supervisor.awake == {}, "each sleeps when it is done"


async def test_the_backlog_is_worked_off_when_only_one_turn_may_run(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, location="daycare.db", work=False, clock=clock) as house:
        await house.store.inbox.post_all([_first_word(n) for n in range(20)])
    async with open_daemon(
        tmp_path, location="daycare.db", work=False, clock=clock, config=config(turns_max_running=1)
    ) as house:
        await _run(house)
        assert sum(event["user"] == "ann" for event in house.events("turn.finished")) == 20


async def test_a_hanging_agent_holds_up_no_other(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(100.0)
    async with open_daemon(tmp_path, model) as house:
        await house.agent("/ann/agent/slow")
        slow = await house.post("/ann/agent/slow", "think", sender="/ann/agent/other", key="k")
        await trio.testing.wait_all_tasks_blocked()
        started = trio.current_time()
        assert await house.talk("hello") == "echo: hello"
        assert trio.current_time() - started < 1.0
        assert "think" in await house.hear(slow)
        assert await said_to(house) == ["echo: hello"]


async def test_a_lane_that_breaks_is_started_anew(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.agent("/ann/direct")
        good = house.store.turns.open_turn

        async def broken(agent_id: str) -> None:
            raise ZeroDivisionError("a defect outside of any turn")

        house.store.turns.open_turn = broken  # type: ignore[method-assign]
        receipt = await house.say("hello")
        await trio.sleep(1)
        assert "ZeroDivisionError" in str(house.events("lane.broke")[0]["reason"])
        house.store.turns.open_turn = good  # type: ignore[method-assign]
        assert await house.hear(receipt) == "echo: hello"


@pytest.mark.parametrize("here", list(Life))
def test_an_illegal_move_of_life_is_a_defect(here: Life) -> None:
    for there in Life:
        lane = Activation("a")
        lane.life = here
        if there in MOVES[here]:
            lane.move(there)
            assert lane.life is there
        else:
            with pytest.raises(AssertionError, match="no way from"):
                lane.move(there)


def _first_word(n: int) -> tuple[Envelope, NewAgent]:
    path = f"/ann/agent/a{n}"
    new = NewAgent(id=f"id{n:04}", path=path, kind="agent", role="user", user=OWNER, origin=Origin.PERSON)
    envelope = Envelope(
        to=path, user=OWNER, origin=Origin.AGENT, sender="/ann/agent/x", key="k", text="go", trace=f"t{n}"
    )
    return envelope, new


async def _run(house: TestDaemon, for_s: float = 100.0) -> None:
    with trio.move_on_after(for_s):
        await house.daemon.work()
