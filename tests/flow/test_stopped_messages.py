"""A message whose turn was stopped does not look done; and nobody is told that messages wait which do not."""

from pathlib import Path

import trio

from daycare.base.errors import UnavailableError
from daycare.config import Config, ModelsSection, ProviderSection
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted, call, say
from tests.actors.helpers import said_to


async def test_a_message_whose_turn_was_stopped_says_so(tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(1_000.0)
    async with open_daemon(tmp_path, model) as house:
        receipt = await house.say("think")
        await trio.sleep(1)
        await house.talk("/stop")
        now = await house.daemon.router.wait(receipt, 10)
        assert now.state == "stopped"
        again = await house.say("think", key="say:1")
        assert (again.duplicate, again.state) == (True, "stopped")
        done = await house.daemon.router.wait(await house.say("and now?"), 10)
        assert done.state == "done"
        whats = [entry.what for entry in house.store.ledger.trace(receipt.trace)]
        assert "stopped" in whats and "answered" not in whats


async def test_the_operator_hears_that_messages_are_answered_when_only_the_memory_model_is_away(
    tmp_path: Path, autojump_clock: object
) -> None:
    for memory, words in (("dull/m", "messages are answered"), ("scripted/m", "Messages that need it wait")):
        config = Config(
            models=ModelsSection(default="scripted/model", memory=memory),
            providers={"scripted": ProviderSection(kind="scripted"), "dull": ProviderSection(kind="scripted")},
        )
        home = tmp_path / memory.partition("/")[0]
        home.mkdir()
        async with open_daemon(home, config=config) as house:
            await house.talk("hello")
            down = UnavailableError("PROVIDER_UNREACHABLE", "the line is dead")
            house.daemon.model_news.outage(memory.partition("/")[0], down)
            await trio.sleep(1)
            assert words in (await said_to(house))[-1]


async def test_the_deadline_of_a_question_between_agents_is_met_to_the_moment(
    tmp_path: Path, autojump_clock: object
) -> None:
    model = Scripted()
    model.enqueue(call(("ask", {"to": "/ann/agent/slow", "text": "well?", "deadline_s": 7})), 100.0, say("late"))
    async with open_daemon(tmp_path, model) as house:
        await house.agent("/ann/agent/slow")
        await trio.sleep(1.3)
        await house.say("go")

        def statuses() -> list[object]:
            return [event["status"] for event in house.events("tool.finished") if event["tool"] == "ask"]

        await trio.sleep(6.9)
        assert statuses() == ["waiting"]
        await trio.sleep(0.2)
        assert statuses() == ["waiting", "error"]
