"""config.toml changed for people: what is kept, what is refused, and what is never shown."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from daycare.base.errors import BrokenError, ConflictError, DaycareError, InvalidError
from daycare.cli.main import app
from daycare.features.configuration.fields import sections
from daycare.features.configuration.service import Configuration
from daycare.store.home import Home

TEXT = '# mine\n[daemon]\nidle_s = 60 # an hour would be too much\n\n[models]\ndefault = "offline/rules"\n'
KEY = "sk-kitchen-0123456789"


class Installation:
    """A home whose daemon takes what it is given, unless `refuses` is set."""

    def __init__(self, path: Path, text: str = TEXT) -> None:
        self.file = path / "config.toml"
        self.file.write_text(text)
        self.refuses: DaycareError | None = None
        self.asked = 0
        self.configuration = Configuration(Home(path), self._reload)

    async def _reload(self) -> dict[str, Any]:
        self.asked += 1
        if self.refuses is not None:
            raise self.refuses
        return {"changed": ("daemon.idle_s",), "restarted": (), "pending": ()}


@pytest.fixture
def it(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


async def test_only_what_changes_is_written_and_comments_stay(it: Installation) -> None:
    done = await it.configuration.change({"daemon": {"idle_s": "90", "log_level": "debug", "breaker": "false"}})
    assert done.changed == ("daemon.idle_s",) and done.hash == it.configuration.read().hash
    assert it.file.read_text() == TEXT.replace(
        "idle_s = 60 # an hour would be too much",
        'idle_s = 90.0 # an hour would be too much\nlog_level = "debug"\nbreaker = false',
    )
    await it.configuration.change({"daemon": {"idle_s": None, "log_level": None, "breaker": None}})
    assert it.file.read_text() == TEXT.replace("idle_s = 60 # an hour would be too much\n", "")
    before = it.asked
    await it.configuration.change({"models": {"default": "offline/rules"}})
    assert it.asked == before, "nothing is reloaded for what is so already"


async def test_lists_are_typed_a_line_each(it: Installation) -> None:
    await it.configuration.change({"budgets": {"person": "1usd a day\n\n 5k tokens a day "}})
    assert 'person = ["1usd a day", "5k tokens a day"]' in it.file.read_text()


async def test_rules_come_and_go_one_by_one_and_the_others_keep_their_comments(it: Installation) -> None:
    shut: dict[str, Any] = {"action": "message", "decision": "deny", "object": "/ann/agent/bank/**"}
    asks: dict[str, Any] = {"action": "tool:*", "decision": "ask"}
    opened = {"subject": "/ann/agent/post", "action": "spawn", "decision": "deny"}
    await it.configuration.change({"rules": [shut]})
    assert it.file.read_text().startswith(TEXT.rstrip()) and "[[rules]]" in it.file.read_text()
    it.file.write_text(it.file.read_text().replace("[[rules]]", "[[rules]] # the bank"))
    await it.configuration.change({"rules": [shut, asks]})
    await it.configuration.change({"rules": [shut, asks, opened]})
    await it.configuration.change({"rules": [shut, opened]})
    text = it.file.read_text()
    assert text.startswith(TEXT.rstrip()) and "[[rules]] # the bank" in text
    assert it.configuration.read().table["rules"] == [shut, opened]
    await it.configuration.change({"rules": [opened, shut]})
    assert it.configuration.read().table["rules"] == [opened, shut]
    await it.configuration.change({"rules": None})
    assert it.file.read_text().rstrip() == TEXT.rstrip()
    with pytest.raises(InvalidError, match=r"rules"):
        await it.configuration.change({"rules": [{"action": "message", "decision": "never"}]})


async def test_a_provider_is_added_and_is_a_section_of_the_form_from_then_on(it: Installation) -> None:
    lab = {"kind": "openai", "base_url": "http://127.0.0.1:9/v1"}
    await it.configuration.change({"providers": {"lab": lab}})
    found = {each.name: each for each in sections(it.configuration.read().table)}["providers.lab"]
    assert {one.name: one.value for one in found.settings} == lab | {"key": None}
    assert all(one.about for one in found.settings)
    await it.configuration.change({"providers": {"lab": {"base_url": "http://127.0.0.1:10/v1"}}})
    assert it.configuration.read().table["providers"]["lab"]["base_url"] == "http://127.0.0.1:10/v1"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"daemon": {"idle_s": "soon"}}, "setting daemon.idle_s: expected `float`"),
        ({"daemon": {"log_max_mb": "0"}}, "setting daemon.log_max_mb: expected `int` >= 1"),
        ({"daemon": {"log_level": "loud"}}, "setting daemon.log_level: invalid enum value 'loud'"),
        ({"daemon": {"idel_s": 1}}, "daemon.idel_s: unknown key; did you mean `idle_s`?"),
        ({"models": {"default": "nobody/x"}}, "models.default: no provider is called nobody"),
        ({"providers": {"openai": {"api_key": KEY}}}, "secrets do not belong in this file"),
    ],
)
async def test_what_is_not_valid_is_refused_with_its_key_and_nothing_is_written(
    it: Installation, changes: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidError) as refused:
        await it.configuration.change(changes)
    assert why in refused.value.message and KEY not in refused.value.message
    assert (it.file.read_text(), it.asked) == (TEXT, 0)


async def test_what_somebody_else_wrote_meanwhile_is_not_overwritten(it: Installation) -> None:
    mine = it.configuration.read()
    theirs = TEXT.replace("60", "61")
    it.file.write_text(theirs)
    for change in (it.configuration.write(TEXT + "\n", mine.hash), it.configuration.change({}, mine.hash)):
        with pytest.raises(ConflictError) as refused:
            await change
        assert refused.value.code == "CONFIG_CHANGED"
    assert it.file.read_text() == theirs


async def test_what_the_daemon_does_not_take_is_put_back(it: Installation) -> None:
    it.refuses = BrokenError("PLUGIN_SETTINGS", "config.toml:2: plugins.telegram.x: unknown key")
    with pytest.raises(BrokenError):
        await it.configuration.write(TEXT.replace("60", "61"), it.configuration.read().hash)
    assert it.file.read_text() == TEXT
    it.refuses = ConflictError("RELOAD_STOPPING", "no daemon works here")
    done = await it.configuration.write(TEXT.replace("60", "61"), it.configuration.read().hash)
    assert not done.reloaded and "61" in it.file.read_text()


@pytest.mark.parametrize(
    "text",
    [
        f'[providers.openai]\napi_key = "{KEY}"\n',
        f'[providers.openai]\nbase_url = "https://u:{KEY}@example.org"\n',
        '[providers.openai]\napi_key = "hunter2 hunter2"\n',
        '[providers.openai\napi_key = "hunter2 hunter2"\n',
    ],
)
async def test_a_secret_in_the_file_is_not_shown_nor_lost_by_saving(tmp_path: Path, text: str) -> None:
    it = Installation(tmp_path, text)
    now = it.configuration.read()
    told = f"{now.shown}{now.problems}{sections(now.table)}"
    assert KEY not in told and "hunter2" not in told and "[secret]" in now.shown
    with pytest.raises(InvalidError) as refused:
        await it.configuration.write(now.shown, now.hash)
    assert refused.value.code in ("CONFIG_HIDDEN", "CONFIG_INVALID") and it.file.read_text() == text


def test_each_setting_of_a_form_says_what_it_means() -> None:
    found = {each.key: each for section in sections({"daemon": {"idle_s": 60}}) for each in section.settings}
    assert len(found) > 60
    assert [key for key, each in found.items() if not each.about] == []
    idle = found["daemon.idle_s"]
    assert (idle.kind, idle.default, idle.value, idle.low, idle.high) == ("number", 30.0, 60, 0, 86_400)
    level = found["daemon.log_level"]
    assert (level.kind, level.choices, level.value) == ("choice", ("debug", "info", "warning", "error"), None)
    assert "\n" in found["agent.policy"].about, "a list in a comment stays one"


def test_a_command_sets_a_setting_and_refuses_what_cannot_be(tmp_path: Path) -> None:
    home = str(tmp_path / "h")

    def daycare(*words: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, [*words[:1], *words[1:], "--home", home])
        return done.exit_code, f"{done.output}{done.exception or ''}"

    assert daycare("init", "--yes", "--user-name", "Ann")[0] == 0
    assert daycare("config", "set", "daemon.log_level", "debug") == (0, "written: it holds from the next start on\n")
    code, told = daycare("config", "set", "daemon.log_level", "loud")
    assert code != 0 and "invalid enum value 'loud'" in told
    assert 'log_level = "debug"' in (tmp_path / "h" / "config.toml").read_text()
