"""What a commit changes while somebody reads it is not kept as it was: on a server an answer takes a while."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
import trio
from msgspec.structs import replace

from daycare.actors import mailbox
from daycare.actors.lifecycle import Activation
from daycare.agent.underway import Underway
from daycare.base.messages import EnvelopeKind
from daycare.features import open_store
from daycare.features.budgets.records import BudgetRow
from daycare.features.budgets.rows import BudgetRows
from daycare.features.memory.store.rows import MemoryRows
from daycare.features.voice.rows import VoiceRows
from daycare.store.records import AgentConfig, Commit, Receipt
from daycare.testing.daemon import TestDaemon, open_daemon
from tests.store.samples import post

PATH = "/ann/direct"
ALL = {"after": 0, "before": 2**62, "max_chars": 1_000_000}
Change = Callable[[], Awaitable[object]]


class Late(Protocol):
    """Lets the next answer of a part of the store, or a later one, arrive after a change that came once it was read."""

    def __call__(self, part: object, name: str, change: Change, number: int = 1) -> None: ...


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Late:
    def arrange(part: object, name: str, change: Change, number: int = 1) -> None:
        read, reads = getattr(part, name), 0

        async def late_read(*args: Any, **named: Any) -> Any:
            nonlocal reads
            reads += 1
            found = await read(*args, **named)
            if reads == number:
                await change()
            return found

        monkeypatch.setattr(part, name, late_read)

    return arrange


async def forget_last(house: TestDaemon) -> None:
    agent = await house.store.agents.at(PATH)
    assert agent is not None
    [*_, last] = (await house.store.summaries.newest(agent.id, agent.session, **ALL)).turns
    await house.store.of(MemoryRows).forget("ann", [], turns=[(agent.id, last.turn)])


@pytest.mark.parametrize("by_path", [True, False], ids=["by its path", "by its id"])
async def test_an_agent_that_changes_while_it_is_read_is_known_as_it_is_then(
    tmp_path: Path, autojump_clock: object, late: Late, by_path: bool
) -> None:
    async with open_daemon(tmp_path) as house:
        agent = await house.agent("/ann/agent/one")
        directory = house.daemon.directory
        directory.forget([agent.id])
        late(
            house.store.agents,
            "at" if by_path else "get",
            lambda: house.store.agents.configure(agent.id, AgentConfig(model="scripted/other")),
        )
        for _ in range(2):
            found = await (directory.at(agent.path) if by_path else directory.get(agent.id))
        assert found.config.model == "scripted/other"


async def test_a_limit_that_is_set_while_limits_are_read_holds(
    tmp_path: Path, autojump_clock: object, late: Late
) -> None:
    async with open_daemon(tmp_path) as house:
        budgets, rows = house.daemon.budgets, house.store.of(BudgetRows)
        assert await budgets.rows() == {}
        await rows.put(BudgetRow(path="/ann", limits={}))
        late(rows, "find", lambda: rows.put(BudgetRow(path=PATH, limits={})))
        assert set(await budgets.rows()) == {"/ann"}
        assert set(await budgets.rows()) == {"/ann", PATH}


async def test_what_is_forgotten_while_a_conversation_is_read_is_in_no_later_prompt(
    tmp_path: Path, autojump_clock: object, late: Late
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("my secret is xyzzy")
        agent = await house.daemon.directory.at(PATH)
        conversations = house.daemon.contexts.conversations
        conversations.forget()
        late(house.store.summaries, "newest", lambda: forget_last(house))
        assert "xyzzy" in str(await conversations.newest(agent.id, agent.session, "UTC", **ALL))
        assert "xyzzy" not in str(await conversations.newest(agent.id, agent.session, "UTC", **ALL))
        await house.talk("what is it?")
        assert "xyzzy" not in str(house.model.history[-1].messages)


async def test_what_a_conversation_has_read_is_looked_at_again_where_that_was_forgotten_meanwhile(
    tmp_path: Path, autojump_clock: object, late: Late
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        agent = await house.daemon.directory.at(PATH)
        readings = house.daemon.provenance.readings
        readings.forget()
        late(house.store.summaries, "newest", lambda: forget_last(house))
        await readings.of(agent.id, agent.session)
        assert not readings._known
        await readings.of(agent.id, agent.session)
        assert agent.id in readings._known


@pytest.mark.parametrize("what", ["prompt", "passages"])
async def test_nothing_is_kept_that_was_made_of_what_was_forgotten_meanwhile(
    tmp_path: Path, autojump_clock: object, late: Late, what: str
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        prompts, passages = house.daemon.prompts, house.daemon.memory.passages
        agent = await house.daemon.directory.at(PATH)
        user = await house.store.people.get("ann")
        assert user is not None

        async def make() -> None:
            if what == "prompt":
                await prompts.of(agent, user, agent.session)
            else:
                await passages.standing(agent, "hello", None)

        async def forget() -> None:
            house.daemon.memory._forgotten("ann", [])

        await forget()
        late(house.daemon.memory.prompt_documents, "passage", forget)
        await make()
        kept: Any = prompts._kept if what == "prompt" else passages._kept
        assert agent.id not in kept
        await make()
        assert agent.id in kept


@pytest.mark.parametrize("read", [1, 2], ids=["of the control lane", "of the messages"])
async def test_a_message_that_comes_while_a_mailbox_is_read_is_answered(
    tmp_path: Path, autojump_clock: object, late: Late, read: int
) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("good morning")
        await trio.sleep(1)
        house.daemon.supervisor.sleep_idle(0.0)
        await trio.sleep(1)
        assert not house.daemon.supervisor.awake
        second: list[Receipt] = []

        async def say() -> None:
            second.append(await house.say("two"))

        late(house.store.inbox, "waiting", say, read)
        await house.hear(await house.say("one"), deadline_s=5)
        await house.hear(second[0], deadline_s=5)


async def test_words_that_are_heard_while_a_mailbox_is_read_are_those_that_are_taken(late: Late) -> None:
    async with open_store("memory:", inline=True) as store:
        receipt = await post(store, "a", kind=EnvelopeKind.VOICE)
        agent = await store.agents.get(receipt.agent_id)
        [row] = await store.inbox.rows([receipt.seq])
        lane = Activation(receipt.agent_id)

        def committed(commit: Commit) -> None:
            for each in commit.reworded:
                lane.reword(each)

        store.subscribe(committed)
        assert agent is not None
        words = replace(row.envelope, kind=EnvelopeKind.TEXT, text="hello")
        late(store.inbox, "waiting", lambda: store.of(VoiceRows).reword(agent, row, words), 2)
        await mailbox.read(store.inbox, lane)
        assert [each.envelope.text for each in lane.rows] == ["hello"] and not lane.listening


async def test_reads_of_one_conversation_are_told_apart() -> None:
    underway = Underway()
    with underway.reading("a") as first, underway.reading("b") as other:
        underway.drop("a")
        with underway.reading("a") as second:
            assert (first.is_current, second.is_current, other.is_current) == (False, True, True)
        underway.drop_all()
    assert not other.is_current and not underway._reads
