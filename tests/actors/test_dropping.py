"""A message that waits is given up by somebody, before its agent has taken it, or not at all."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from daycare.actors import mailbox
from daycare.actors.dropping import drop
from daycare.actors.lifecycle import Activation
from daycare.base.errors import ConflictError, NotFoundError, UnavailableError
from daycare.features import open_store
from daycare.features.history.rows import HistoryRows
from daycare.store.records import AgentConfig, Policy
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted
from tests.store.samples import PATH, post


async def _drop(house: TestDaemon, seq: int) -> None:
    daemon = house.daemon
    agent = await daemon.directory.at("/ann/direct")
    await drop(house.store.inbox, daemon.supervisor.awake, agent, seq, "dropped by ann")


async def _said(house: TestDaemon, agent_id: str) -> list[tuple[int, ...]]:
    await trio.testing.wait_all_tasks_blocked()
    page = await house.store.of(HistoryRows).page(agent_id, before=2**62, limit=9)
    return [turn.seqs for turn in reversed(page.turns)]


async def test_what_waits_behind_a_turn_is_dropped_and_what_is_answered_is_not(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    model.enqueue(10.0)
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("one")
        await trio.sleep(5)
        second, third = await house.say("two"), await house.say("three")
        with pytest.raises(ConflictError, match="works on it"):
            await _drop(house, first.seq)
        await _drop(house, second.seq)
        with pytest.raises(NotFoundError, match="does not wait"):
            await _drop(house, second.seq)
        assert await house.hear(third) == "echo: three"
        assert await _said(house, first.agent_id) == [(first.seq,), (third.seq,)]
        [letter] = await house.store.dead.find()
        assert (letter.seq, letter.code, letter.reason) == (second.seq, "DROPPED", "dropped by ann")
        await house.store.dead.replay(letter.no)
        await trio.testing.wait_all_tasks_blocked()
        assert len(await _said(house, first.agent_id)) == 3


async def test_the_only_message_is_dropped_while_its_agent_waits_for_silence(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, Scripted()) as house:
        await house.talk("hello")
        agent = await house.daemon.directory.at("/ann/direct")
        await house.store.agents.configure(agent.id, AgentConfig(policy=Policy.COLLECT))
        lost = await house.say("never mind")
        await trio.sleep(0.5)
        await _drop(house, lost.seq)
        assert await house.talk("still there?") == "echo: still there?"
        assert lost.seq not in {seq for seqs in await _said(house, agent.id) for seq in seqs}


@pytest.mark.parametrize("fails", [False, True], ids=["it is dropped", "the disk is full"])
async def test_an_agent_that_reads_its_mailbox_while_a_message_is_dropped_does_not_get_it_unless_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    async with open_store(str(tmp_path / "daycare.db")) as store:
        waiting = [(await post(store, key)).seq for key in ("one", "two")]
        agent = await store.agents.at(PATH)
        assert agent is not None
        awake: dict[str, Activation] = {}
        really = store.inbox.drop

        async def late(*arguments: Any) -> None:
            awake[agent.id] = lane = Activation(agent.id)
            await mailbox.read(store.inbox, lane)
            if fails:
                raise UnavailableError("STORE_FULL", "no room", hint="make some")
            await really(*arguments)

        monkeypatch.setattr(store.inbox, "drop", late)
        with pytest.raises(UnavailableError) if fails else nullcontext():
            await drop(store.inbox, awake, agent, waiting[1], "dropped by ann")
        assert [row.seq for row in awake[agent.id].rows] == waiting[: 2 if fails else 1]


async def test_a_message_that_is_dropped_while_a_server_s_answer_is_on_its_way_is_not_in_the_mailbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(str(tmp_path / "daycare.db")) as store:
        waiting = await post(store, "one")
        agent = await store.agents.at(PATH)
        assert agent is not None
        lane, read = Activation(agent.id), store.inbox.waiting

        async def late(*arguments: Any, **named: Any) -> Any:
            found = await read(*arguments, **named)
            if found:
                await drop(store.inbox, {agent.id: lane}, agent, waiting.seq, "dropped by ann")
            return found

        monkeypatch.setattr(store.inbox, "waiting", late)
        await mailbox.read(store.inbox, lane)
        assert lane.rows == []
