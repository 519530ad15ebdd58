"""A plugin whose own settings changed starts anew, with all its parts; no other notices, and no reply is lost."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio
from msgspec.structs import replace

from daycare.base.errors import InvalidError, NotFoundError
from daycare.connectors.courier import COURIER_QUIET_S
from daycare.ops.replugging import Replugging
from daycare.plugin import (
    BeforeTurn,
    ChatCommand,
    Connector,
    HookSet,
    Plugin,
    PluginContext,
)
from daycare.store.records import Reply
from daycare.testing.fake_connector import FakeConnector
from daycare.testing.scripted import Scripted
from tests.plugins.helpers import tool
from tests.reload.homes import BASE, change, open_home, refused


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[plugins.loft]`."""

    doves: tuple[str, ...] = ()
    word: str = ""
    broken: bool = False


class Loft:
    """A plugin with a connector for each dove, and one of everything else under the name of its `word`."""

    def __init__(self, name: str = "loft", word: str = "coo", dove: str = "pigeon") -> None:
        self.name = name
        self._usual = Settings(word=word, doves=(dove,))
        self.flown: list[FakeConnector] = []
        self.started: list[Settings] = []
        self.ended = 0

    def plugin(self) -> Plugin:
        return Plugin(name=self.name, config=Settings, setup=self._set_up)

    def _set_up(self, context: PluginContext) -> Plugin:
        settings: Settings = context.config
        word, doves = settings.word or self._usual.word, settings.doves or self._usual.doves
        if settings.broken:
            raise InvalidError("LOFT_BROKEN", "the loft cannot be built like that")

        async def start(_: PluginContext) -> None:
            self.started.append(settings)
            try:
                await trio.sleep_forever()
            finally:
                self.ended += 1

        async def answer(_: PluginContext, path: str, user: str, rest: str) -> str:
            return f"{word}!"

        async def before(_: PluginContext, event: BeforeTurn) -> list[str]:
            return [f"It says {word}."]

        return replace(
            self.plugin(),
            setup=None,
            start=start,
            connectors={name: self._dove(name) for name in doves},
            tools=(tool(word),),
            commands={word: ChatCommand("say it", answer)},
            hooks=HookSet(message_before=before) if word != "mute" else HookSet(),
            providers={self.name: lambda _: Scripted()},
        )

    def _dove(self, name: str) -> Any:
        def make() -> Connector:
            self.flown.append(dove := FakeConnector())
            dove.name = name
            return dove

        return make


def loft(more: str) -> str:
    return f"[plugins.loft]\n{more}\n"


async def test_only_the_plugin_that_was_touched_starts_anew(tmp_path: Path, autojump_clock: object) -> None:
    mine, other = Loft(), Loft("roost", "hoot", "dove")
    async with open_home(tmp_path, plugins=[mine.plugin(), other.plugin()]) as house:
        await trio.sleep(1)
        before = dict(house.daemon.connectors)
        found = await change(house, tmp_path, loft('word = "croo"') + "[daemon]\nidle_s = 3\n")
        assert found.restarted == ("loft",) and sorted(found.changed) == ["daemon.idle_s", "plugins.loft"]
        await trio.sleep(1)
        after = house.daemon.connectors
        assert {name for name in after if after[name] is not before[name]} == {"pigeon"}
        assert [each.word for each in mine.started] == ["", "croo"] and mine.ended == 1
        assert len(other.started) == 1 and other.ended == 0
        report = {each["name"]: each["state"] for each in await house.daemon.extensions.report()}
        assert report["loft"] == report["roost"] == "running"


async def test_a_plugin_starts_anew_because_somebody_asks(tmp_path: Path, autojump_clock: object) -> None:
    mine, other = Loft(), Loft("roost", "hoot", "dove")
    async with open_home(tmp_path, plugins=[mine.plugin(), other.plugin()]) as house:
        await trio.sleep(1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.daemon.reloading.run)
            await trio.sleep(1)
            found = await house.daemon.reloading.reload("loft")
            with pytest.raises(NotFoundError, match="no such plugin"):
                await house.daemon.reloading.reload("cote")
            nursery.cancel_scope.cancel()
        await trio.sleep(1)
        assert (found.restarted, found.changed) == (("loft",), ())
        assert (len(mine.started), mine.ended, len(other.started)) == (2, 1, 1)
        assert await house.talk("/coo") == "coo!"


async def test_all_parts_of_it_are_the_new_ones(tmp_path: Path, autojump_clock: object) -> None:
    mine = Loft()
    async with open_home(tmp_path, plugins=[mine.plugin()]) as house:
        assert await house.talk("/coo") == "coo!"
        await change(house, tmp_path, loft('word = "croo"'))
        await trio.sleep(1)
        await house.talk("hello")
        asked = house.model.history[-1]
        assert {tool.name for tool in asked.tools} & {"coo", "croo"} == {"croo"}
        assert "It says croo." in str(asked.messages) and "It says coo." not in str(asked.messages)
        assert await house.talk("/croo") == "croo!"
        assert "do not know /coo" in await house.talk("/coo")
        assert [word for word, _ in house.daemon.commands.listed()].count("croo") == 1
        await change(house, tmp_path, loft('word = "mute"'))
        await trio.sleep(1)
        await house.talk("again")
        assert "It says" not in str(house.model.history[-1].messages)


async def test_its_providers_are_made_anew(tmp_path: Path, autojump_clock: object) -> None:
    mine, base = Loft(), BASE + '[providers.loft]\nkind = "loft"\n'
    async with open_home(tmp_path, base=base, plugins=[mine.plugin()]) as house:
        before = dict(house.daemon.pool.sources)
        await change(house, tmp_path, loft('word = "croo"'), base=base)
        after = house.daemon.pool.sources
        assert {name for name in after if after[name] is not before[name]} == {"loft"}


async def test_connectors_come_and_go(tmp_path: Path, autojump_clock: object) -> None:
    mine = Loft()
    async with open_home(tmp_path, plugins=[mine.plugin()]) as house:
        await change(house, tmp_path, loft('doves = ["one", "two"]'))
        await trio.sleep(1)
        assert {"one", "two"} <= house.daemon.connectors.keys() and "pigeon" not in house.daemon.connectors
        assert {"one", "two"} <= (await house.daemon.status())["connectors"].keys()
        assert house.daemon.directory.parse("/ann/two").name == "two"
        with pytest.raises(InvalidError):
            house.daemon.directory.parse("/ann/pigeon")
        assert house.daemon.extensions.pushing["loft"] == ["one", "two"]


async def test_replies_go_out_over_the_connection_that_there_is(tmp_path: Path, autojump_clock: object) -> None:
    mine = Loft()
    async with open_home(tmp_path, plugins=[mine.plugin()], location="daycare.db") as house:
        agent = await house.agent("/ann/pigeon")

        async def send(text: str) -> None:
            await house.store.outbox.add(agent, Reply(connector="pigeon", text=text, target="pigeon:ann"), f"t-{text}")

        mine.flown[0].slow["pigeon:ann"] = COURIER_QUIET_S / 2
        await send("first")
        await trio.sleep(0.1)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change, house, tmp_path, loft('word = "croo"'))
            await trio.sleep(0.1)
            await send("second")
        await trio.sleep(5)
        assert [each.text for each in mine.flown[0].arrived] == ["first"]
        assert [each.text for each in mine.flown[1].arrived] == ["second"]
        await send("third")
        await trio.sleep(5)
        assert [each.text for each in mine.flown[1].arrived] == ["second", "third"]


async def test_a_setup_that_fails_leaves_the_plugin_as_it_is(tmp_path: Path, autojump_clock: object) -> None:
    mine = Loft()
    async with open_home(tmp_path, plugins=[mine.plugin()]) as house:
        await trio.sleep(1)
        error = await refused(house, tmp_path, loft("broken = true") + "[daemon]\nidle_s = 3\n")
        assert "cannot be built" in error.message
        assert mine.ended == 0 and len(mine.started) == 1 and house.daemon.live.now.daemon.idle_s == 30
        error = await refused(house, tmp_path, loft("wrod = 1"))
        assert f"{tmp_path}/config.toml:9: plugins.loft.wrod: unknown key" in error.message
        assert mine.ended == 0


async def test_a_change_that_fails_on_the_way_puts_the_settings_back(
    tmp_path: Path, autojump_clock: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise OSError("no more files")

    async with open_home(tmp_path, plugins=[Loft().plugin()]) as house:
        room, more = house.daemon.supervisor.room, loft('word = "croo"') + "[daemon]\nturns_max_running = 3\n"
        before = room.size
        with monkeypatch.context() as patched:
            patched.setattr(Replugging, "replug", fail)
            error = await refused(house, tmp_path, more)
        assert error.code == "RELOAD_FAILED" and room.size == before
        await change(house, tmp_path, more)
        assert room.size == 3


async def test_a_plugin_that_was_left_out_starts_once_its_settings_are_right(
    tmp_path: Path, autojump_clock: object
) -> None:
    base = BASE + '[plugins]\nload = ["tests.reload.late:plugin"]\n'
    async with open_home(tmp_path, "[plugins.late]\nwrod = 1\n", base=base) as house:
        assert "late" in house.daemon.extensions.problems() and "late" not in house.daemon.connectors
        error = await refused(house, tmp_path, "[plugins.late]\nwodr = 1\n", base=base)
        assert "plugins.late.wodr: unknown key; did you mean `word`?" in error.message
        found = await change(house, tmp_path, '[plugins.late]\nword = "hello"\n', base=base)
        assert found.restarted == ("late",)
        await trio.sleep(1)
        assert not house.daemon.extensions.problems() and "late" in house.daemon.connectors
        assert await house.talk("/late") == "hello"


async def test_a_defect_of_a_setup_is_told_and_ends_nothing(tmp_path: Path, autojump_clock: object) -> None:
    def set_up(context: PluginContext) -> Plugin:
        return Plugin(name="odd", tools=(tool(context.config.word),) if context.config.word else 1 / 0)  # type: ignore[arg-type]

    odd = Plugin(name="odd", config=Settings, setup=set_up)
    async with open_home(tmp_path, '[plugins.odd]\nword = "a"\n', plugins=[odd]) as house:
        error = await refused(house, tmp_path)
        assert error.code == "RELOAD_FAILED" and "nothing is in force" in error.message
        assert await house.talk("hello") == "echo: hello"


async def test_names_of_others_cannot_be_taken(tmp_path: Path, autojump_clock: object) -> None:
    mine = Loft()
    async with open_home(tmp_path, plugins=[mine.plugin(), Loft("roost", "hoot", "dove").plugin()]) as house:
        error = await refused(house, tmp_path, loft('word = "croo"\ndoves = ["dove"]'))
        assert error.code == "PLUGIN_COLLIDES" and mine.ended == 0


async def test_sections_of_plugins_that_do_not_exist_are_told_until_they_are_gone(
    tmp_path: Path, autojump_clock: object
) -> None:
    async with open_home(tmp_path) as house:
        await change(house, tmp_path, "[plugins.nothing]\nx = 1\n")
        assert "nothing" in house.daemon.extensions.problems()
        await change(house, tmp_path)
        assert "nothing" not in house.daemon.extensions.problems()


async def test_a_running_turn_is_not_disturbed(tmp_path: Path, autojump_clock: object) -> None:
    mine = Loft()
    async with open_home(tmp_path, plugins=[mine.plugin()]) as house:
        house.model.enqueue(20.0)
        receipt = await house.say("work")
        await trio.sleep(1)
        await change(house, tmp_path, loft('word = "croo"'))
        assert await house.hear(receipt) == "echo: work"
        assert len(house.model.history) == 1
