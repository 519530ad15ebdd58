"""The recipes of doc/contribute/recipes.md work as they stand: each is built from the page's code and run."""

import re
import sys
import types
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import trio
import typer.main

from daycare.api.app import build
from daycare.base.errors import InvalidError
from daycare.config import Config, ModelsSection, PluginsSection, ProviderSection, load, plugin_settings
from daycare.observe.bus import Bus
from daycare.store.sqlite import database
from daycare.store.sqlite.facts import Followers, UserLeaving
from daycare.store.sqlite.writer import Tx, WriterCache
from daycare.testing.daemon import open_daemon
from daycare.testing.scripted import Scripted, call, say

PAGE = Path(__file__).parent.parent / "doc" / "contribute" / "recipes.md"
BLOCK = re.compile(r"<!-- recipe: (\w+) -->\n```\w+\n(.*?)```", re.DOTALL)
BLOCKS = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))


@pytest.fixture
def made(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The module of a block, as it would be imported."""
    module: Any = types.ModuleType(f"recipe_{request.param}")
    sys.modules[module.__name__] = module
    exec(compile(BLOCKS[request.param], f"recipes.md: {request.param}", "exec"), vars(module))
    yield module
    del sys.modules[module.__name__]


def recipe(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("made", names, indirect=True)


def test_each_block_of_code_is_a_recipe_that_is_tried() -> None:
    assert PAGE.read_text(encoding="utf-8").count("\n```") == 2 * len(BLOCKS)
    tried = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in BLOCKS if f'"{name}"' not in tried] == []


@recipe("tool")
async def test_a_tool_is_called_by_the_model(made: Any, tmp_path: Path, autojump_clock: object) -> None:
    model = Scripted()
    model.enqueue(call(("count_words", {"text": "a b c"})), lambda request: say(str(request.messages[-1].parts)))
    async with open_daemon(tmp_path, model, plugins=[made.plugin]) as house:
        assert "3 words" in await house.talk("how many?")


@recipe("command")
async def test_a_chat_command_answers_and_refuses(made: Any, tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[made.plugin]) as house:
        assert await house.talk("/double 21") == "42"
        assert await house.talk("/double two") == "doubling 'two': it is not a number. Hint: /double 21"


@recipe("setting")
async def test_a_setting_is_read(made: Any, tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[made.plugin], config=greeting("Good morning")) as house:
        assert await house.talk("/greet") == "Good morning, ann!"


@recipe("setting")
def test_a_wrong_setting_is_refused_by_line_and_key(made: Any, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[plugins.greeter]\ngreeting = ""\n')
    with pytest.raises(InvalidError, match=r"config\.toml:2: plugins\.greeter\.greeting"):
        plugin_settings(tmp_path, load(tmp_path), "greeter", made.Settings)


def greeting(text: str) -> Config:
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        plugins=PluginsSection(settings={"greeter": {"greeting": text}}),
    )


@recipe("connector")
async def test_a_connector_takes_in_and_brings_the_answer(made: Any, tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path, plugins=[made.plugin], work=False) as house:
        await house.store.people.link("board:7", "ann")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(house.daemon.work)
            with trio.fail_after(60):
                while not made.board.shown:
                    await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
    assert made.board.shown == ["echo: hello"]


@recipe("store")
async def test_a_table_is_made_written_and_left_with_its_user(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: object
) -> None:
    real = database.migrations()
    added = (real[-1][0] + 1, "notes", BLOCKS["migration"])
    monkeypatch.setattr(database, "migrations", lambda: (*real, added))
    db = database.open_writer(str(tmp_path / "daycare.db"))
    with closing(db):
        tx = Tx(db, 0, WriterCache(db, Followers([made.NotesOfUsers()])))
        assert [made.add(tx, user, "milk") for user in ("ann", "bob")] == [1, 2]
        tx.tell(UserLeaving("ann", "removed"))
        assert made.NOTES.find(db, "no > ?", (0,)) == [made.Note(2, "bob", "milk")]


@recipe("route")
async def test_a_route_answers_and_refuses(made: Any, tmp_path: Path, autojump_clock: object) -> None:
    kept: list[str] = []

    async def keep(text: str) -> int:
        kept.append(text)
        return len(kept)

    async with open_daemon(tmp_path) as house:
        services = replace(house.daemon.services, features=(*house.daemon.features, made.Notes(keep)))
        transport = httpx.ASGITransport(app=build(services))
        async with httpx.AsyncClient(transport=transport, base_url="http://daycare") as client:
            assert (await client.post("/v1/notes", json={"text": "milk"})).json() == {"numbers": [1]}
            refused = await client.post("/v1/notes", json={"text": ""})
    assert (refused.status_code, refused.json()["error"]["code"], kept) == (400, "BODY_INVALID", ["milk"])


@recipe("route")
def test_the_command_of_an_operation_has_its_help(made: Any) -> None:
    command: Any = typer.main.get_command(made.app)
    command = getattr(command, "commands", {"keep": command})["keep"]
    shown = command.get_help(command.make_context("keep", ["milk"], resilient_parsing=True))
    assert "Keep a line." in shown and "What to keep." in shown and "How often.  [default: 1; 1<=x<=9]" in shown


@recipe("event")
async def test_an_event_is_published_and_named(made: Any) -> None:
    bus = Bus()
    bus.publish(made.NoteKept(at_ms=1, user="ann", no=7))
    shown = msgspec.to_builtins(bus.at(bus.oldest))
    assert shown == {"event": "note.kept", "at_ms": 1, "user": "ann", "no": 7}
