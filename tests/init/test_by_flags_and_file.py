"""`daycare init` for scripts: by flags and by a file. A mistake or a refused key writes nothing."""

import json
import stat
from pathlib import Path

import pytest

from daycare.base.errors import ConflictError
from daycare.base.toml_positions import Key
from daycare.cli.main import main
from daycare.config import load
from daycare.ops import planning
from daycare.ops.probing import StoredSecrets
from daycare.ops.setup import initialise
from tests.init.conftest import KEY, TOKEN, Run, Town

FILE = """\
# a set-up
agent_name = "Robin"
user_name = "Ann"
zone = "Europe/Berlin"
model = "box/fake-small"
model_url = "{town.model_url}"
model_key_env = "BOX_KEY"
connect = ["telegram"]

[secrets_env]
telegram = "BOT_TOKEN"

[plugins.telegram]
base_url = "{town.telegram_url}"
"""


@pytest.fixture
def file(tmp_path: Path, town: Town, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("BOX_KEY", KEY)
    monkeypatch.setenv("BOT_TOKEN", TOKEN)
    written = tmp_path / "setup.toml"
    written.write_text(FILE.format(town=town))
    return written


def stored(home: Path, name: str) -> str | None:
    return StoredSecrets(home / "h", load(home / "h")).value(name)


def test_a_file_sets_up_everything_and_a_dry_run_shows_it_without_writing(home: Path, file: Path, run: Run) -> None:
    shown = run("--from", str(file), "--yes", "--dry-run")
    assert (shown.code, (home / "h").exists()) == (0, False)
    assert '    | default = "box/fake-small"\n' in shown.out
    assert "stored encrypted as telegram, from $BOT_TOKEN" in shown.out
    assert "nothing was written: a dry run" in shown.out
    done = run("--from", str(file), "--yes", "--json")
    facts = json.loads(done.out)
    assert (done.code, facts["written"], facts["model"], facts["user"]) == (0, True, "box/fake-small", "ann")
    assert facts["connectors"] == [{"name": "telegram", "identity": "@kitchen_bot"}]
    assert facts["secrets"] == [{"name": "box", "from": "$BOX_KEY"}, {"name": "telegram", "from": "$BOT_TOKEN"}]
    assert (stored(home, "box"), stored(home, "telegram")) == (KEY, TOKEN)
    config = home / "h" / "config.toml"
    assert stat.S_IMODE(config.stat().st_mode) == 0o600 and (home / "h").stat().st_mode & 0o077 == 0
    url = load(home / "h").plugins.settings["telegram"]["base_url"]
    sections = f'[models]\ndefault = "box/fake-small"\n\n[plugins.telegram]\nbase_url = "{url}"\n'
    assert config.read_text().endswith(sections)
    owner = planning.look(home / "h").owner
    assert owner is not None and (owner.name, owner.zone, owner.keys) == ("Ann", "Europe/Berlin", ("direct:ann",))


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"Ann"', "3", "setup.toml:3: user_name: expected `str | null`, got `int`"),
        ("zone =", "zonne =", "setup.toml:4: zonne: unknown key; did you mean `zone`?"),
        ('"Europe/Berlin"', '"Mars/Base"', "setup.toml:4: zone: unknown time zone 'Mars/Base'"),
        ('"box/fake-small"', '"fake-small"', 'setup.toml:5: model: expected "PROVIDER/MODEL"'),
        ('"BOX_KEY"', '"NO_KEY"', "setup.toml:7: model_key_env: the environment has no NO_KEY"),
        ('"BOX_KEY"', f'"{KEY}"', "setup.toml:7: model_key_env: secrets do not belong in this file"),
        ('["telegram"]', '["signal"]', "setup.toml:8: connect: connecting signal: no plugin of that name"),
        ('telegram = "BOT_TOKEN"', 'openai = "BOT_TOKEN"', "setup.toml:11: secrets_env.openai: no secret of that name"),
        ('telegram = "BOT_TOKEN"', "", "setup.toml:13: plugins.telegram: token of the bot is missing"),
        ("base_url", "base_urll", "setup.toml:14: plugins.telegram.base_urll: unknown key; did you mean `base_url`?"),
        ("model_url = ", 'model_url = "ftp://x" #', "setup.toml:6: model_url: the base_url of provider box is not"),
        ("[secrets_env]", "[secrets_env", "setup.toml:10: expected ']' at the end of a table declaration"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_is_told_with_line_and_key(
    home: Path, file: Path, run: Run, old: str, new: str, told: str
) -> None:
    file.write_text(file.read_text().replace(old, new, 1))
    done = run("--from", str(file), "--yes")
    assert told in done.err
    assert done.code in (2, 3, 5) and not (home / "h").exists()


@pytest.mark.parametrize(
    ("variable", "value", "code", "told"),
    [
        ("BOX_KEY", "sk-other-0123456789", 4, "the key was refused"),
        ("BOT_TOKEN", "4242424242:otherotherotherotherotherotherother12", 4, "Telegram does not know this token"),
        ("BOT_TOKEN", "hello", 4, "this is no bot's token"),
    ],
)
def test_a_refused_key_or_token_writes_nothing_unless_it_is_not_to_be_tried(
    home: Path, file: Path, run: Run, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, code: int, told: str
) -> None:
    monkeypatch.setenv(variable, value)
    done = run("--from", str(file), "--yes")
    assert (done.code, told in done.err, value in done.out + done.err) == (code, True, False)
    assert not (home / "h").exists()
    if value != "hello":
        assert run("--from", str(file), "--yes", "--no-test").code == 0
        assert stored(home, "box" if variable == "BOX_KEY" else "telegram") == value


def test_an_address_where_nobody_is_writes_nothing(home: Path, run: Run) -> None:
    done = run("--yes", "--model", "box/m", "--model-url", "http://127.0.0.1:9/v1")
    assert (done.code, "the connection failed" in done.err, (home / "h").exists()) == (69, True, False)
    done = run("--yes", "--connect", "telegram", "--set", "telegram.base_url=http://127.0.0.1:9", "--secret-env",
               "telegram=NO_SUCH_TOKEN")  # fmt: skip
    assert (done.code, "secrets_env.telegram: the environment has no NO_SUCH_TOKEN" in done.err) == (2, True)


def test_the_usual_variable_is_found_but_goes_to_no_other_server(
    home: Path, town: Town, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    done = run("--yes", "--dry-run", "--no-test", "--model", "openai/gpt-5-mini")
    assert "stored encrypted as openai, from $OPENAI_API_KEY" in done.out
    done = run("--yes", "--dry-run", "--no-test", "--model", "openai/gpt-5-mini", "--model-url", town.model_url)
    assert done.code == 0 and "stored encrypted" not in done.out


def test_run_again_it_changes_what_is_given_and_keeps_the_rest(home: Path, file: Path, run: Run) -> None:
    assert run("--from", str(file), "--yes").code == 0
    config = home / "h" / "config.toml"
    config.write_text(config.read_text().replace("[models]\n", "# because it is near\n[models]\nfallbacks = []\n"))
    before = config.read_text()
    assert run("--yes").code == 5  # nothing was given: as ever
    done = run("--yes", "--model", "box/fake-large", "--set", "telegram.poll_s=5")
    assert done.code == 0, done.err
    assert '    | -default = "box/fake-small"\n    | +default = "box/fake-large"\n' in done.out
    assert config.read_text() == before.replace("fake-small", "fake-large") + "poll_s = 5\n"
    assert (stored(home, "box"), stored(home, "telegram")) == (KEY, TOKEN)
    done = run("--yes", "--model", "box/fake-large")
    assert (done.code, "everything is so already" in done.out) == (0, True)
    done = run("--yes", "--user", "bob")
    assert (done.code, "user: the owner is ann, and ids stay" in done.err) == (5, True)


def test_a_configuration_with_mistakes_is_not_edited(home: Path, run: Run) -> None:
    assert run("--yes").code == 0
    config = home / "h" / "config.toml"
    config.write_text("[models]\ndefault = 3\n")
    done = run("--yes", "--tone", "dry")
    assert (done.code, "config.toml:2: models.default" in done.err) == (78, True)
    assert config.read_text() == "[models]\ndefault = 3\n"


def test_a_set_up_that_was_cut_short_is_finished(home: Path, run: Run) -> None:
    assert run("--yes", "--agent-name", "Robin", "--user-name", "Ann").code == 0
    (home / "h" / "daycare.db").unlink()
    (home / "h" / "daycare.db.mark").unlink()
    done = run("--yes", "--tone", "dry", "--user-name", "Ann")
    assert (done.code, planning.look(home / "h").owner is not None) == (0, True), done.err
    assert 'name = "Robin"\ntone = "dry"' in (home / "h" / "config.toml").read_text()


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["poll_s=5"], None),
        (["telegram"], None),
        (["telegram.poll_s=5"], ("telegram", "poll_s")),
        (["telegram.bots.b.poll_s=5"], ("telegram", "bots", "b", "poll_s")),
    ],
)
def test_settings_are_given_as_plugin_key_and_value(run: Run, words: list[str], key: Key | None) -> None:
    done = run("--yes", "--dry-run", "--no-test", "--connect", "whatsapp_cloud", *(["--set", *words]))
    assert done.code == 2
    if key is None:
        assert "--set: expected" in done.err


@pytest.mark.parametrize(
    ("flags", "embedder"),
    [
        ((), "local"),
        (("--embedder", "none"), "none"),
        (("--embedder", "openai/text-embedding-3-small"), "openai/text-embedding-3-small"),
    ],
)
def test_a_new_home_finds_memories_by_meaning_unless_told_otherwise(
    home: Path, run: Run, flags: tuple[str, ...], embedder: str
) -> None:
    done = run("--yes", "--user-name", "Ann", *flags, "--json")
    assert (done.code, json.loads(done.out)["embedder"]) == (0, embedder)
    assert load(home / "h").memory.embedder == embedder
    assert run("--yes", "--embedder", "none").code == 0
    assert load(home / "h").memory.embedder == "none", "it can be changed later"


def test_an_embedder_that_cannot_be_used_writes_nothing(home: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("--yes", "--embedder", "locl")
    assert done.code == 2 and 'expected "local", "none" or "PROVIDER/MODEL" instead of "locl"' in done.err
    monkeypatch.setattr("daycare.features.memory.embed.local.has_local", lambda: False)
    done = run("--yes", "--embedder", "local")
    assert done.code == 5 and "pip install 'daycare[local]'" in done.err and not (home / "h").exists()
    assert run("--yes").code == 0 and load(home / "h").memory.embedder == "none", "by words, where it is not installed"


@pytest.mark.parametrize(("secrets", "told"), [({}, "not set up"), ({"telegram": TOKEN}, "not running")])
def test_status_without_a_daemon_tells_what_is_known_of_a_messenger(
    home: Path, capsys: pytest.CaptureFixture[str], secrets: dict[str, str], told: str
) -> None:
    initialise(home / "h", secrets=secrets)
    with pytest.raises(SystemExit):
        main(["status", "--home", str(home / "h"), "--json"])
    connectors = json.loads(capsys.readouterr().out)["connectors"]
    assert (connectors["telegram"]["state"], connectors["telegram"]["reason"]) == ("off", told)
    assert connectors["direct"]["state"] == "up"


def test_a_fresh_home_has_an_agent_that_can_be_set(home: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--yes", "--user-name", "Ann").code == 0
    with pytest.raises(SystemExit) as left:
        main(["agents", "set", "/ann/direct", "policy=followup", "--home", str(home / "h")])
    assert (left.value.code, capsys.readouterr().err) == (0, "")


def test_a_home_whose_database_is_gone_begins_again_only_when_asked_to(home: Path, run: Run) -> None:
    run("--user-name", "Ann", "--yes")
    assert run("--new").code == ConflictError.exit_code, "it is there"
    settings = (home / "h" / "config.toml").read_text()
    (home / "h" / "daycare.db").unlink()
    (home / "h" / "daycare.log").touch()
    assert run("--new", "--json").code == 0
    assert (home / "h" / "daycare.db").exists()
    assert (home / "h" / "config.toml").read_text() == settings
