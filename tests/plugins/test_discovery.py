"""Who takes part: found, judged, set up, names free. Whoever does not is left out and told why."""

import time
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
from msgspec.structs import replace

from daycare import config
from daycare.base.clock import SystemClock
from daycare.base.errors import BrokenError, InvalidError, UnavailableError
from daycare.config import Config, PluginsSection
from daycare.observe.bus import Bus
from daycare.plugin import (
    CONTRACT_VERSION,
    HookSet,
    Inbound,
    InferRequest,
    Plugin,
    PluginContext,
    ProviderConfig,
    ToolSpec,
)
from daycare.plugins import discovery
from daycare.plugins.admission import admit, orphans
from daycare.plugins.context import Surroundings
from daycare.plugins.contract import flaws, provides
from daycare.plugins.discovery import discover
from daycare.plugins.extensions import Extensions, look
from daycare.store.records import Receipt
from tests.plugins.helpers import Listener, found, importable, surroundings, tool

PLUGIN = "from daycare.plugin import Plugin\n"


def test_built_in_parts_enter_by_the_same_door() -> None:
    ours = {one.name: one for one in discover()}
    assert {"direct", "offline", "openai", "tools"} <= set(ours)
    assert {one.source for one in ours.values() if one.name in ("direct", "tools")} == {"built in"}
    assert "offline" not in {one.name for one in discover(disable=["offline"])}


@pytest.mark.parametrize("reference", ["no_such_module:plugin", "daycare.plugin:no_such_name", "no.such.one:plugin"])
def test_name_that_somebody_typed_and_that_does_not_exist_refuses_to_start(reference: str) -> None:
    with pytest.raises(BrokenError) as refused:
        discover([reference])
    assert refused.value.code == "PLUGIN_MISSING" and reference in refused.value.message


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("import no_such_dependency", "no_such_dependency"),
        ("None.nothing", "AttributeError"),
        ("def", "SyntaxError"),
        (f"{PLUGIN}plugin = Plugin(name='old', contract=99)", "speaks version 99"),
        (f"{PLUGIN}plugin = 7", "it is a int"),
        (f"{PLUGIN}plugin = Plugin(name='Not A Name')", "Not A Name"),
        (f"{PLUGIN}plugin = Plugin(name='load')", "a key of [plugins]"),
        (f"{PLUGIN}plugin = Plugin(name='a', start=print)", "start must be an async function"),
        (f"{PLUGIN}plugin = Plugin(name='a', config=int)", "no msgspec.Struct"),
    ],
)
def test_one_that_cannot_be_used_is_left_out_with_its_reason(source: str, told: str, tmp_path: Path) -> None:
    with importable(tmp_path, lodger_broken=source):
        one = discover(["lodger_broken:plugin"])[-1]
    assert one.plugin is None
    assert one.problem is not None and told in one.problem.message
    assert "lodger_broken" in one.problem.message


def test_import_that_hangs_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "PLUGIN_LOAD_S", 0.2)
    with importable(tmp_path, lodger_hangs="import threading; threading.Event().wait(5)"):
        one = discover(["lodger_hangs:plugin"])[-1]
    assert one.problem is not None and one.problem.code == "PLUGIN_HANGS"


def test_contract_of_tools_is_judged_in_words() -> None:
    class Odd:
        spec = ToolSpec(name="no spaces!", description="", schema={"type": "string"})
        idempotent = None

        def decode(self, arguments: object) -> object:
            return arguments

        async def run(self, context: object, arguments: object) -> str:
            return ""

    told = "\n".join(flaws(Plugin(name="odd", tools=(Odd(), tool("same"), tool("same"), object()))))  # type: ignore[arg-type]
    for expected in ("its name must be", "no description", "not that of a JSON object", "idempotent must say"):
        assert expected in told
    for expected in ("forbid unknown fields", "'same' is there twice", "type object has no ToolSpec"):
        assert expected in told
    assert flaws(Plugin(name="fine", tools=(tool("say"),))) == []


def test_names_go_to_whoever_comes_first(tmp_path: Path) -> None:
    plugins = [
        Plugin(name="one", tools=(tool("say"),)),
        Plugin(name="two", tools=(tool("say"), tool("shout"))),
        Plugin(name="three", tools=(tool("shout"),)),
        Plugin(name="one"),
    ]
    settings: Any = lambda _name, kind: kind()  # noqa: E731
    taking, out = admit([found(plugin) for plugin in plugins], settings, surroundings(tmp_path))
    assert [each.plugin.name for each in taking] == ["one", "three"], "who is left out holds no names"
    assert [one.problem.message.split(": ", 1)[1] for one in out if one.problem] == [
        "the tool say is that of the plugin one",
        "the plugin name one is that of the plugin one",
    ]


# -- settings ----------------------------------------------------------------------------------------------------------


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    city: str
    days: Annotated[int, msgspec.Meta(ge=1, le=7)] = 3

    def __post_init__(self) -> None:
        if self.city == "Atlantis":
            raise ValueError("it sank")


def settled(home: Path, text: str) -> Settings:
    (home / "config.toml").write_text(text)
    return config.plugin_settings(home, config.load(home), "weather", Settings)


def test_settings_reach_the_plugin_as_its_own_type(tmp_path: Path) -> None:
    assert settled(tmp_path, '[plugins.weather]\ncity = "Berlin"\n') == Settings("Berlin")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[plugins.weather]\ncity = 5\n", ":2: plugins.weather.city: expected `str`, got `int`"),
        ("[plugins]\n", ":1: plugins.weather.city: is needed"),
        ('[plugins.weather]\ncity = "B"\n\ndays = 9\n', ":4: plugins.weather.days: expected `int` <= 7"),
        ('[plugins.weather]\ncity = "B"\nciti = 1\n', ":3: plugins.weather.citi: unknown key; did you mean `city`?"),
        ('[plugins.weather]\ncity = "Atlantis"\n', ":1: plugins.weather: it sank"),
    ],
)
def test_wrong_settings_are_told_with_file_line_and_key(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as refused:
        settled(tmp_path, text)
    assert f"{tmp_path}/config.toml{told}" in refused.value.message
    assert refused.value.hint == "correct [plugins.weather] in config.toml"


def test_every_problem_of_a_section_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidError) as refused:
        settled(tmp_path, "[plugins.weather]\ncity = 5\ndays = 0\n")
    assert len(refused.value.message.splitlines()) == 2


def test_secrets_do_not_belong_into_a_plugins_section(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[plugins.weather]\ncity = "B"\ntoken = "hunter2"\n')
    (problem,) = config.check(tmp_path)
    assert (problem.line, problem.key) == (3, "plugins.weather.token")
    assert "daycare keys add weather" in problem.what and "hunter2" not in str(problem)


def test_section_of_a_plugin_that_does_not_exist_is_told(tmp_path: Path) -> None:
    (missing,) = orphans(["wether"], [found(Plugin(name="weather"))], [])
    assert missing.problem is not None and missing.problem.hint == "did you mean weather?"
    wrong = look(Config(plugins=PluginsSection(settings={"ghost": {}})), tmp_path)
    assert [one.name for one in wrong if one.problem] == ["ghost"]


def test_setup_makes_what_the_settings_say_and_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def setup(context: PluginContext) -> Plugin:
        return replace(plugin, tools=(tool(f"say_{context.config.city}"),))

    def hangs(context: PluginContext) -> Plugin:
        time.sleep(5)
        return plugin

    def renames(context: PluginContext) -> Plugin:
        return Plugin(name="tools")

    plugin = Plugin(name="weather", config=Settings, setup=setup)
    others = [
        Plugin(name="hangs", setup=hangs),
        Plugin(name="renames", setup=renames),
        Plugin(name="needy", config=Settings),
    ]
    (tmp_path / "config.toml").write_text('[plugins.weather]\ncity = "Rome"\n')
    monkeypatch.setattr(discovery, "PLUGIN_LOAD_S", 0.2)
    read = partial(config.plugin_settings, tmp_path, config.load(tmp_path))
    taking, out = admit([found(each) for each in (plugin, *others)], read, surroundings(tmp_path))
    assert [provides(each.plugin) for each in taking] == [{"tools": ["say_Rome"]}]
    assert {one.name: one.problem.code for one in out if one.problem} == {
        "hangs": "PLUGIN_HANGS", "renames": "PLUGIN_CONTRACT", "needy": "PLUGIN_SETTINGS",
    }  # fmt: skip


def extensions(home: Path, text: str) -> Extensions:
    async def accept(inbound: Inbound) -> Receipt:
        return Receipt(1, "agent")

    (home / "config.toml").write_text(text)
    around = Surroundings(home / "plugins", SystemClock(), lambda _: None, bytes.decode, accept, Listener())
    return Extensions(config.load(home), home, Bus(), around, {})


async def test_provider_whose_plugin_failed_says_why_and_keeps_nobody_from_starting(tmp_path: Path) -> None:
    source = """
from daycare.plugin import Plugin
def make(config):
    raise OSError("no licence")
plugin = Plugin(name="llm", providers={"licensed": make})
"""
    with importable(tmp_path, lodger_llm=source, lodger_gone="import no_such_dependency"):
        found = extensions(
            tmp_path,
            '[plugins]\nload = ["lodger_llm:plugin", "lodger_gone:plugin"]\n'
            '[providers.a]\nkind = "licensed"\n[providers.b]\nkind = "gone"\n',
        )
    kinds = {kind: make for plugin in found.plugins for kind, make in plugin.providers.items()}
    for kind, told in (("licensed", "no licence"), ("gone", "no plugin provides gone")):
        provider = kinds[kind](ProviderConfig(name="mine", kind=kind))
        with pytest.raises(UnavailableError, match=told):
            await provider.models()
        with pytest.raises(UnavailableError, match=told):
            async with aclosing(provider.infer(InferRequest(model="m", system="", messages=()))) as stream:
                await anext(stream)


def test_kind_that_nobody_left_out_could_provide_stays_unknown(tmp_path: Path) -> None:
    found = extensions(tmp_path, '[providers.a]\nkind = "opneai"\n')
    assert not any("opneai" in plugin.providers for plugin in found.plugins)


def test_versions_of_the_contract_are_written_down() -> None:
    assert Plugin(name="a").contract == CONTRACT_VERSION == 1
    assert Plugin(name="a").hooks == HookSet()
