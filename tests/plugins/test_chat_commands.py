"""Chat commands of plugins: offered to people, bounded, and blamed on the plugin when they fail."""

import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.agent.commands import BUILT_IN
from daycare.base.errors import BrokenError, ConflictError, InvalidError
from daycare.base.limits import REPLY_MAX_CHARS
from daycare.plugin import ChatCommand, Plugin, PluginContext
from daycare.plugins.chat_commands import COMMAND_DEADLINE_S
from daycare.plugins.contract import flaws
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted
from tests.plugins.helpers import stubborn


async def _fine(context: PluginContext, path: str, user: str, rest: str) -> str:
    return f"{context.name} {path} {user} [{rest}]"


async def _exits(context: PluginContext, path: str, user: str, rest: str) -> str:
    sys.exit(4)


async def _hangs(context: PluginContext, path: str, user: str, rest: str) -> str:
    await stubborn()
    return "late"


async def _crashes(context: PluginContext, path: str, user: str, rest: str) -> str:
    raise RuntimeError("the platform said no")


async def _refuses(context: PluginContext, path: str, user: str, rest: str) -> str:
    raise InvalidError("CITY_UNKNOWN", f"there is no city {rest}", hint="try Berlin")


async def _nothing(context: PluginContext, path: str, user: str, rest: str) -> Any:
    return None


async def _silent(context: PluginContext, path: str, user: str, rest: str) -> str:
    return " \x00 "


async def _endless(context: PluginContext, path: str, user: str, rest: str) -> str:
    return "x" * (REPLY_MAX_CHARS + 1)


RUNS = {
    "fine": _fine, "exits": _exits, "hangs": _hangs, "crashes": _crashes, "refuses": _refuses, "nothing": _nothing,
    "silent": _silent, "endless": _endless,
}  # fmt: skip
WEATHER = Plugin(name="weather", commands={word: ChatCommand(f"what is {word}", run) for word, run in RUNS.items()})


async def test_a_plugins_command_is_listed_behind_ours_and_answers(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[WEATHER]) as house:
        words = [word for word, _ in house.daemon.commands.listed()]
        assert words[-len(RUNS) :] == sorted(RUNS)
        assert "/fine - what is fine" in await house.talk("/help")
        assert await house.talk("/fine  in Berlin ") == "weather /ann/direct ann [in Berlin]"
        assert await house.talk("/fine@our_bot") == "weather /ann/direct ann []"
        (report,) = [each for each in await house.daemon.extensions.report() if each["name"] == "weather"]
        assert report["provides"] == {"commands": list(RUNS)}


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("exits", "SystemExit: 4"),
        ("crashes", "RuntimeError: the platform said no"),
        ("nothing", "TypeError: it gave a NoneType, expected text"),
    ],
)
async def test_a_failure_is_the_plugins_and_is_told(
    word: str, why: str, tmp_path: Path, autojump_clock: object
) -> None:
    async with open_daemon(tmp_path, plugins=[WEATHER]) as house:
        assert await house.talk(f"/{word}") == f"/{word} of the plugin weather: {why}"
        (failed,) = house.events("plugin.failed")
        assert (failed["plugin"], failed["part"], failed["code"]) == ("weather", f"/{word}", "PLUGIN_FAILED")
        assert await house.talk("hello") == "echo: hello"


async def test_a_command_that_hangs_holds_nobody_up_past_its_deadline(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[WEATHER]) as house:
        assert "no answer within 30 s" in await house.talk("/hangs")
        assert trio.current_time() == pytest.approx(COMMAND_DEADLINE_S, abs=1)
        assert await house.talk("hello") == "echo: hello"
        (failed,) = house.events("plugin.failed")
        assert failed["code"] == "PLUGIN_LATE"


async def test_an_error_on_purpose_is_the_answer_and_no_failure(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[WEATHER]) as house:
        assert await house.talk("/refuses Atlantis") == "there is no city Atlantis. Hint: try Berlin"
        assert house.events("plugin.failed") == []


async def test_an_answer_is_bounded_and_never_nothing(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[WEATHER]) as house:
        assert await house.talk("/silent") == "Done."
        assert len(await house.talk("/endless")) == REPLY_MAX_CHARS


async def test_a_plugin_that_does_not_run_says_so(tmp_path: Path, autojump_clock: object) -> None:
    async def start(context: PluginContext) -> None:
        raise RuntimeError("never")

    from msgspec.structs import replace

    async with open_daemon(tmp_path, plugins=[replace(WEATHER, start=start)]) as house:
        assert await house.talk("/fine") == "/fine is the plugin weather's, which does not run now"


async def test_a_turn_goes_on_while_another_agent_waits_for_a_command(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, Scripted(), plugins=[WEATHER]) as house:
        await house.agent("/ann/agent/xavier")
        hanging = await house.say("/hangs", path="/ann/agent/xavier")
        assert await house.talk("hello") == "echo: hello"
        assert trio.current_time() < 1
        assert "no answer within" in await house.hear(hanging)


async def test_a_word_belongs_to_whoever_comes_first(tmp_path: Path, autojump_clock: object) -> None:
    other = Plugin(name="other", commands={"fine": ChatCommand("mine", _crashes)})
    with pytest.raises(BaseException) as caught:  # a program's own plugins refuse to start
        async with open_daemon(tmp_path, plugins=[WEATHER, other]):
            pass
    found = caught.value
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, ConflictError)
    assert "the command fine is that of the plugin weather" in found.message


@pytest.mark.parametrize("word", sorted(BUILT_IN))
def test_no_plugin_takes_a_word_of_ours(word: str) -> None:
    assert flaws(Plugin(name="bold", commands={word: ChatCommand("mine", _fine)})) == [
        f"command {word!r}: /{word} is one of daycare's own"
    ]


@pytest.mark.parametrize(
    ("commands", "told"),
    [
        ({"Weather": ChatCommand("h", _fine)}, "its word must be"),
        ({"/weather": ChatCommand("h", _fine)}, "its word must be"),
        ({"weather-now": ChatCommand("h", _fine)}, "its word must be"),
        ({"": ChatCommand("h", _fine)}, "its word must be"),
        ({"w" * 33: ChatCommand("h", _fine)}, "its word must be"),
        ({"weather\n": ChatCommand("h", _fine)}, "its word must be"),
        ({7: ChatCommand("h", _fine)}, "its word must be"),
        ({"weather": _fine}, "expected a ChatCommand"),
        ({"weather": ChatCommand("", _fine)}, "its help must be one line"),
        ({"weather": ChatCommand("a\nb", _fine)}, "its help must be one line"),
        ({"weather": ChatCommand("h" * 257, _fine)}, "its help must be one line"),
        ({"weather": ChatCommand("h", lambda *_: "plain")}, "run must be an async function"),  # type: ignore[arg-type]
        ({"weather": ChatCommand("h", None)}, "run must be an async function"),  # type: ignore[arg-type]
        (["weather"], "its commands are no mapping"),
    ],
)
def test_a_wrong_command_is_told_to_its_author(commands: Any, told: str) -> None:
    (flaw,) = flaws(Plugin(name="odd", commands=commands))
    assert told in flaw


def test_longest_and_shortest_words_are_fine() -> None:
    assert flaws(Plugin(name="odd", commands={"w" * 32: ChatCommand("h", _fine), "w": ChatCommand("h", _fine)})) == []


async def test_a_wrong_command_keeps_a_programs_own_plugin_out(tmp_path: Path, autojump_clock: object) -> None:
    with pytest.raises(BaseException) as caught:
        async with open_daemon(tmp_path, plugins=[Plugin(name="bold", commands={"stop": ChatCommand("h", _fine)})]):
            pass
    found = caught.value
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, BrokenError)
