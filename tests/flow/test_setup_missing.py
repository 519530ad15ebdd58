"""What a person has to set right: told once, waited for without a try, and answered as soon as it is there."""

from pathlib import Path

import pytest
import trio
import trio.testing

from daycare.actors.failures import SETUP_LOOK_S
from daycare.base.errors import (
    BusyError,
    ConflictError,
    DaycareError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    SetupError,
)
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.store.records import AgentConfig
from daycare.testing.clock import VirtualClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.openai_server import FakeOpenAI
from daycare.testing.scripted import Scripted, call, say
from tests.actors.helpers import said_to

NO_KEY = SetupError("KEY_REFUSED", "asking the model: the key is missing", hint="daycare keys add box")
NO_CREDIT = SetupError("CREDIT_EXHAUSTED", "asking the model: no credit", hint="add credit at the provider")


async def _add_key(house: TestDaemon, value: str = "sk-0123456789abcdef") -> None:
    await house.store.secrets.put("box", "ann", house.daemon.vault.seal(value))


@pytest.mark.parametrize("error", [NO_KEY, ForbiddenError("KEY_REFUSED", NO_KEY.message, hint=NO_KEY.hint)])
async def test_a_missing_key_is_told_at_once_with_the_command_and_costs_no_try(
    tmp_path: Path, autojump_clock: object, error: DaycareError
) -> None:
    model = Scripted()
    model.enqueue(*[error] * 10)
    async with open_daemon(tmp_path, model) as house:
        receipt = await house.say("hello")
        await trio.testing.wait_all_tasks_blocked()
        assert trio.current_time() == 0, "nobody waits to hear it"
        [told] = await said_to(house)
        assert told.startswith("I cannot answer yet: asking the model: the key is missing. daycare keys add box.")
        await trio.sleep(SETUP_LOOK_S * 4.5)
        assert len(await said_to(house)) == 1, "it is told once"
        assert len(house.events("turn.failed")) == 1
        assert len(model.history) == 5, "it is looked at slowly"
        waiting = await house.store.inbox.receipt(receipt.seq)
        assert waiting is not None and waiting.state == "waiting"
        assert await house.store.dead.count() == 0


async def test_a_message_is_answered_as_soon_as_the_key_is_there(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(NO_KEY)
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("hello")
        await trio.testing.wait_all_tasks_blocked()
        second = await house.say("anybody there?")
        await _add_key(house)
        assert await house.hear(first) == "echo: hello"
        assert await house.hear(second) == "echo: anybody there?", "nothing is lost"
        assert trio.current_time() == 0


async def test_a_key_that_comes_while_the_call_without_it_runs_is_not_missed(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    model.enqueue(2.0, NO_KEY)
    async with open_daemon(tmp_path, model) as house:
        receipt = await house.say("hello")
        await trio.sleep(1)
        await _add_key(house)
        assert await house.hear(receipt) == "echo: hello"
        assert trio.current_time() == 2


async def test_another_model_or_another_config_wakes_what_waits(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(NO_KEY, NO_KEY)
    async with open_daemon(tmp_path, model) as house:
        receipt = await house.say("hello")
        await trio.testing.wait_all_tasks_blocked()
        agent = await house.daemon.directory.at("/ann/direct")
        await house.store.agents.configure(agent.id, AgentConfig(model="scripted/other"))
        await trio.testing.wait_all_tasks_blocked()
        assert len(model.history) == 2
        house.daemon.supervisor.failures.changed()  # as `daycare reload` does
        assert await house.hear(receipt) == "echo: hello"
        assert trio.current_time() == 0


async def test_a_restart_looks_at_once_and_tells_nobody_again(tmp_path: Path, autojump_clock: object) -> None:
    clock = VirtualClock()
    model = Scripted()
    model.enqueue(NO_KEY, NO_KEY)
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        receipt = await house.say("hello")
        await trio.sleep(1)
    async with open_daemon(tmp_path, model, location="daycare.db", clock=clock) as house:
        await trio.sleep(1)
        assert len(model.history) == 2, "it does not wait for the next look"
        assert len([text for text in await said_to(house) if "cannot answer yet" in text]) == 1
        await _add_key(house)
        assert await house.hear(receipt) == "echo: hello"


async def test_something_else_that_is_missing_then_is_told_too(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(NO_KEY, NO_CREDIT, NO_CREDIT)
    async with open_daemon(tmp_path, model) as house:
        receipt = await house.say("hello")
        await trio.testing.wait_all_tasks_blocked()
        await _add_key(house)
        await trio.testing.wait_all_tasks_blocked()
        assert ["no credit" in text for text in await said_to(house)] == [False, True]
        assert await house.hear(receipt) == "echo: hello", "credit is seen at the next look"
        assert trio.current_time() == pytest.approx(2 * SETUP_LOOK_S, abs=1)


async def test_waiting_for_a_person_is_bounded(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    most_s = 36_000.0  # the week takes a minute of two thousand looks
    monkeypatch.setattr("daycare.actors.failures.SETUP_MAX_S", most_s)

    def refuse(_: object) -> None:
        raise NO_KEY

    async with open_daemon(tmp_path, Scripted(refuse)) as house:  # type: ignore[arg-type]
        receipt = await house.say("hello")
        with pytest.raises(ConflictError):
            await house.hear(receipt, 2 * most_s)
        assert trio.current_time() == pytest.approx(most_s, abs=2 * SETUP_LOOK_S)
        [letter] = await house.store.dead.find()
        assert letter.code == "KEY_REFUSED"


@pytest.mark.parametrize("error", [InvalidError("REQUEST_REFUSED", "status 400"), NotFoundError("GONE", "it is gone")])
async def test_what_would_fail_the_same_way_again_is_tried_once(
    tmp_path: Path, autojump_clock: object, error: DaycareError
) -> None:
    model = Scripted()
    model.enqueue(*[error] * 5)
    async with open_daemon(tmp_path, model) as house:
        receipt = await house.say("hello")
        with pytest.raises(ConflictError):
            await house.hear(receipt)
        assert trio.current_time() == 0
        assert len(model.history) == 1
        [failed] = house.events("turn.failed")
        assert failed.get("retry_in_s") is None
        [told] = await said_to(house)
        assert told.startswith("I could not answer this: ")


@pytest.mark.parametrize(
    ("status", "state"), [(400, "dead"), (401, "waiting"), (402, "waiting"), (404, "waiting"), (302, "waiting")]
)
async def test_a_status_decides_whether_anything_is_tried_again(
    tmp_path: Path, nursery: trio.Nursery, status: int, state: str
) -> None:
    async with FakeOpenAI.serve(nursery) as server:
        for _ in range(3):
            server.enqueue("no", status=status, headers={"Location": "/elsewhere"} if status == 302 else {})
        config = Config(
            models=ModelsSection(default="box/fake-large"),
            providers={"box": ProviderSection(base_url=server.base_url, key="box")},
        )
        async with open_daemon(tmp_path, config=config) as house:
            receipt = await house.say("hello")
            with trio.fail_after(20):
                while not await said_to(house):
                    await trio.sleep(0.01)
            now = await house.store.inbox.receipt(receipt.seq)
            assert now is not None and now.state == state
            assert len(server.history) == 1
            await house.daemon.pool.aclose()


async def test_a_turn_that_fails_takes_in_nothing_more_and_takes_nobody_with_it(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    broken = BusyError("MODEL_ODD", "asking the model: it makes no sense")
    model.enqueue(call(("wait", {"seconds": 1})), *[broken] * 5)
    async with open_daemon(tmp_path, model) as house:
        receipts = [await house.say("first")]
        for number in range(16):
            await trio.sleep(6)
            receipts.append(await house.say(f"more {number}"))
        with pytest.raises(ConflictError):
            await house.hear(receipts[0])
        for receipt in receipts[1:]:
            await house.hear(receipt)
        ends = [await house.store.inbox.receipt(receipt.seq) for receipt in receipts]
        assert [end.state for end in ends if end] == ["dead"] + ["done"] * 16
        assert [event["attempt"] for event in house.events("turn.failed")][-1] == 5
        assert trio.current_time() < 150, "messages do not draw out the tries"


async def test_what_joined_a_turn_before_it_failed_is_answered_in_a_turn_of_its_own(
    tmp_path: Path, autojump_clock: object
) -> None:
    broken = BusyError("MODEL_ODD", "asking the model: it makes no sense")
    model = Scripted()
    model.enqueue(5.0, call(("wait", {"seconds": 1})), *[broken] * 5, say("here I am"))
    async with open_daemon(tmp_path, model) as house:
        first = await house.say("first")
        await trio.sleep(1)
        joined = await house.say("joined")
        with pytest.raises(ConflictError):
            await house.hear(first)
        assert await house.hear(joined) == "here I am"
        assert any("joined" in message.text for message in model.history[1].messages), "it was steered in"


async def test_each_failed_try_and_the_next_are_shown_while_a_turn_is_retried(
    tmp_path: Path, autojump_clock: object
) -> None:
    broken = BusyError("MODEL_ODD", "asking the model: it makes no sense")
    model = Scripted()
    model.enqueue(broken, broken, broken)
    async with open_daemon(tmp_path, model) as house:
        receipt = await house.say("hello")
        await trio.sleep(10)
        trace = [(entry.what, entry.detail) for entry in house.store.ledger.trace(receipt.trace)]
        turn = house.events("turn.started")[0]["turn"]
        tries = [detail for what, detail in trace if what == f"turn {turn} failed"]
        assert [detail.partition(",")[0] for detail in tries] == ["try 1", "try 2", "try 3"]
        assert "next try in 16 s" in tries[-1] and broken.message in tries[-1]
        assert f"turn {turn} next try" in [what for what, _ in trace]
        agent = await house.daemon.directory.at("/ann/direct")
        trouble = house.daemon.supervisor.failures.trouble_of(agent.id)
        assert trouble is not None and (trouble.attempt, trouble.reason) == (3, broken.message)
        status = await house.talk("/status")
        assert "try 3 of 5 failed, asking the model: it makes no sense; next try at " in status
        assert await house.hear(receipt) == "echo: hello"
        await trio.sleep(1)
        assert house.daemon.supervisor.failures.trouble_of(agent.id) is None
