"""Hooks in real turns, in a house on virtual time: what they hear, what they add, and that they cost no answer."""

from pathlib import Path
from typing import Any

import trio
import trio.testing

from daycare.plugin import BeforeTurn, HookSet, Plugin, PluginContext
from daycare.testing.daemon import open_daemon
from tests.plugins.helpers import stubborn


async def test_contribution_is_read_by_the_model_before_the_message_and_is_not_kept(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def before(context: PluginContext, event: BeforeTurn) -> list[str]:
        return ["It rains."]

    async with open_daemon(tmp_path, plugins=[Plugin(name="weather", hooks=HookSet(message_before=before))]) as house:
        assert await house.talk("hello") == "echo: hello"
        assert await house.talk("again") == "echo: again"
        texts = [message.text for message in house.model.history[-1].messages]
    assert [("It rains." in text) for text in texts] == [False, False, True, False]
    assert "plugin weather" in texts[2]


async def test_turn_is_told_with_its_messages_and_each_message_twice(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    heard: list[Any] = []

    async def hear(context: PluginContext, event: object) -> None:
        heard.append(event)

    ear = Plugin(name="ear", hooks=HookSet(message_after=hear, turn_end=hear, session_end=hear))
    async with open_daemon(tmp_path, plugins=[ear]) as house:
        await house.talk("hello")
        await trio.testing.wait_all_tasks_blocked()
    assert [getattr(event, "state", "turn") for event in heard] == ["accepted", "answered", "turn"]
    assert heard[1].reply == "echo: hello"
    assert [message.role for message in heard[2].messages] == ["user", "assistant"]
    assert heard[2].usage.input_tokens == 10


async def test_plugins_that_raise_or_never_return_cost_no_answer(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async def raises(*_: object) -> Any:
        raise RuntimeError("no")

    async def deaf(*_: object) -> Any:
        await stubborn()

    bad = [
        Plugin(
            name=name,
            start=call,
            hooks=HookSet(message_before=call, message_after=call, turn_end=call, session_end=call),
        )
        for name, call in (("raises", raises), ("deaf", deaf))
    ]
    async with open_daemon(tmp_path, plugins=bad) as house:
        for n in range(10):
            began = trio.current_time()
            assert await house.talk(f"hello {n}") == f"echo: hello {n}"
            assert trio.current_time() - began < 5


async def test_end_of_a_session_is_told_with_its_number(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    ended: list[Any] = []
    turns: list[Any] = []

    async def hear(context: PluginContext, event: object) -> None:
        ended.append(event)

    async def count(context: PluginContext, event: object) -> None:
        turns.append(event)

    ear = Plugin(name="ear", hooks=HookSet(session_end=hear, turn_end=count))
    async with open_daemon(tmp_path, plugins=[ear]) as house:
        for text in ("one", "/reset", "two", "/reset"):
            await house.talk(text)
        await trio.testing.wait_all_tasks_blocked()
    assert [event.session for event in ended] == [event.session for event in turns], "each session with its one turn"
    assert len(ended) == 2
