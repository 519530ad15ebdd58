"""The control lane is read by itself: however many messages wait before a command, it is obeyed."""

from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Command, CommandAnswer
from daycare.base.errors import ConflictError
from daycare.base.limits import INBOX_MAX_MESSAGES, MAILBOX_MAX_ROWS
from daycare.base.messages import Envelope, EnvelopeKind, Lane, Origin
from daycare.store.records import Agent, InboxRow, Receipt
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import OWNER, TestDaemon, open_daemon
from daycare.testing.scripted import Scripted, call, say
from tests.actors.helpers import heard

DESK = "/ann/agent/desk"
COUNTS = [MAILBOX_MAX_ROWS - 1, MAILBOX_MAX_ROWS, MAILBOX_MAX_ROWS + 1, INBOX_MAX_MESSAGES]


async def _parked(house: TestDaemon, waiting: int) -> Agent:
    """Return an agent that was parked, and has so many messages since."""
    agent = await house.agent(DESK)
    await house.store.agents.set_state(agent.id, "parked", "it crashed again and again")
    for n in range(waiting):
        await house.post(DESK, f"m{n}", sender="/ann/agent/other", key=f"k{n}")
    return agent


async def _let_go_on(house: TestDaemon, agent: Agent) -> None:
    await house.store.agents.set_state(agent.id, "living")
    house.daemon.supervisor.wake(agent.id)


def _dismissal() -> Envelope:
    return Envelope(
        to=DESK,
        user=OWNER,
        origin=Origin.SYSTEM,
        sender="system",
        key="bye",
        text="no longer needed",
        trace="t",
        kind=EnvelopeKind.DISMISS,
        lane=Lane.CONTROL,
    )


@pytest.mark.parametrize("waiting", COUNTS)
async def test_a_parked_agent_obeys_whatever_waits_before(tmp_path: Path, autojump_clock: object, waiting: int) -> None:
    async with open_daemon(tmp_path) as house:
        agent = await _parked(house, waiting)
        assert "parked" in await house.hear(await house.say("/status", path=DESK), 60)
        assert "new conversation" in await house.hear(await house.say("/reset", path=DESK), 60)
        assert "no message with the number 7" in await house.hear(await house.say("/retry 7", path=DESK), 60)
        assert "Nothing is running." in await house.hear(await house.say("/stop", path=DESK), 60)
        assert await house.hear(await house.say("/approve 7", path=DESK), 60) != ""
        assert house.model.history == [], "it takes no turns"
        assert len(await house.store.inbox.waiting(agent.id, limit=2 * INBOX_MAX_MESSAGES)) == waiting


@pytest.mark.parametrize("waiting", COUNTS)
async def test_a_parked_agent_can_be_dismissed_whatever_waits_before(
    tmp_path: Path, autojump_clock: object, waiting: int
) -> None:
    async with open_daemon(tmp_path) as house:
        agent = await _parked(house, waiting)
        await house.daemon.router.post(_dismissal())
        await trio.sleep(60)
        assert (await house.daemon.directory.get(agent.id)).state == "dead"
        assert await house.store.inbox.waiting(agent.id) == []


async def test_commands_to_a_parked_agent_are_obeyed_once_and_in_order_after_a_restart(
    tmp_path: Path, autojump_clock: object
) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, location="file.db", work=False, clock=clock) as house:
        await _parked(house, MAILBOX_MAX_ROWS)
        receipts = []
        for n in range(2 * MAILBOX_MAX_ROWS + 3):  # more than one page of commands, too, with messages in between
            receipts.append(await house.say(f"/count {n}", path=DESK))
            await house.post(DESK, f"x{n}", sender="/ann/agent/other", key=f"x{n}")
    for live in range(2):  # the second start finds nothing to do again
        async with open_daemon(tmp_path, location="file.db", work=False, clock=clock) as house:
            obeyed = _counting(house)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(house.daemon.work)
                await trio.sleep(120)
                nursery.cancel_scope.cancel()
            assert obeyed == ([] if live else [str(n) for n in range(len(receipts))])
            assert house.model.history == []


def _counting(house: TestDaemon) -> list[str]:
    obeyed: list[str] = []

    async def count(agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        obeyed.append(rest)
        return CommandAnswer(f"counted {rest}")

    house.daemon.commands.add("count", Command("count", count))
    return obeyed


async def test_an_agent_that_is_let_go_on_answers_what_waited_in_order(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        agent = await _parked(house, 3 * MAILBOX_MAX_ROWS)
        obeyed = _counting(house)
        for n in range(3):
            await house.hear(await house.say(f"/count {n}", path=DESK), 60)
        await _let_go_on(house, agent)
        await house.talk("last", path=DESK)
        said = [prompt[-1].rpartition("\n")[2] for prompt in heard(house)]
        assert said == [*(f"m{n}" for n in range(3 * MAILBOX_MAX_ROWS)), "last"]
        assert obeyed == ["0", "1", "2"]


async def test_a_command_is_obeyed_before_a_thousand_messages_that_wait_at_a_start(
    tmp_path: Path, autojump_clock: object
) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, location="file.db", work=False, clock=clock) as house:
        await house.agent(DESK)
        for n in range(200):
            await house.post(DESK, f"m{n}", sender="/ann/agent/other", key=f"k{n}")
        reset = await house.say("/reset", path=DESK)
    model = Scripted()
    model.enqueue(1_000.0)  # the first turn takes long
    async with open_daemon(tmp_path, model, location="file.db", clock=clock) as house:
        assert "new conversation" in await house.hear(reset, 60)


async def test_a_dismissal_ends_an_agent_before_what_waits_at_a_start(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    async with open_daemon(tmp_path, location="file.db", work=False, clock=clock) as house:
        agent = await house.agent(DESK)
        for n in range(200):
            await house.post(DESK, f"m{n}", sender="/ann/agent/other", key=f"k{n}")
        await house.daemon.router.post(_dismissal())
    async with open_daemon(tmp_path, location="file.db", clock=clock) as house:
        await trio.sleep(60)
        assert (await house.daemon.directory.get(agent.id)).state == "dead"
        assert heard(house) == [], "nothing was answered that is not wanted any more"


async def test_an_answer_is_read_before_the_messages_that_came_before_it(
    tmp_path: Path, autojump_clock: object
) -> None:
    """A turn that was set aside goes on with its answer at once, also after a start, however long the queue is."""
    clock = VirtualClock()
    model = Scripted()
    model.enqueue(call(("ask", {"to": "/ann/agent/b", "text": "why?"})), 100_000.0)
    async with open_daemon(tmp_path, model, location="file.db", clock=clock) as house:
        agent = await house.agent(DESK)
        b = await house.agent("/ann/agent/b")
        first = await house.say("go", path=DESK)
        await trio.sleep(10)  # b thinks, for a day
        await house.store.agents.set_state(agent.id, "parked", "for a while")
        for n in range(200):
            await house.post(DESK, f"m{n}", sender="/ann/agent/other", key=f"k{n}")
        await house.store.agents.set_state(b.id, "dead", "gone")  # which is an answer
        await trio.sleep(10)
        await house.store.agents.set_state(agent.id, "living")
    model = Scripted()
    model.enqueue(say("it is gone"))
    async with open_daemon(tmp_path, model, location="file.db", clock=clock) as house:
        assert await house.hear(first, 60) == "it is gone"
        await trio.sleep(600)
        assert await house.store.inbox.waiting(agent.id) == []


async def test_a_draining_agent_obeys_before_it_ends(tmp_path: Path, autojump_clock: object) -> None:
    """A stop of the daemon lets commands through that came in time; the messages behind them wait for the next."""
    model = Scripted()
    model.enqueue(3.0)
    async with open_daemon(tmp_path, model) as house:
        await house.agent(DESK)
        obeyed = _counting(house)
        for n in range(200):
            await house.post(DESK, f"m{n}", sender="/ann/agent/other", key=f"k{n}")
        await trio.testing.wait_all_tasks_blocked()
        receipts: list[Receipt] = []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.daemon.supervisor.stop, 10)
            await trio.sleep(1)
            receipts += [await house.say(f"/count {n}", path=DESK) for n in range(3)]
        assert obeyed == ["0", "1", "2"]
        assert len(house.model.history) == 1


async def test_a_dismissed_agent_takes_no_command_any_more(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, work=False) as house:
        await _parked(house, MAILBOX_MAX_ROWS)
        obeyed = _counting(house)
        await house.daemon.router.post(_dismissal())
        late = await house.say("/count 1", path=DESK)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.daemon.work)
            with pytest.raises(ConflictError, match="no longer needed"):
                await house.hear(late, 60)
            nursery.cancel_scope.cancel()
        assert obeyed == []
