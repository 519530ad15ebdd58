"""`daycare init` as a person sees it: from an empty home to a chat, changing it, and leaving in the middle."""

import json
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from daycare.config import load
from daycare.ops.probing import StoredSecrets
from tests.init.conftest import KEY, SECRETS, TOKEN, Town
from tests.terminal import CTRL_C, CTRL_D, Terminal

DEADLINE_S = 30.0


@pytest.fixture
def people(environment: dict[str, str], town: Town) -> Iterator[Any]:
    made: list[Terminal] = []
    with ExitStack() as stack:

        def person(*words: str, **more: str) -> Terminal:
            env = environment | {"OLLAMA_HOST": "127.0.0.1:9"} | more
            made.append(stack.enter_context(Terminal(env, *words, size=(60, 200), deadline_s=DEADLINE_S)))
            return made[-1]

        yield person
    for each in made:
        assert not [secret for secret in SECRETS if secret in each.said]


def test_an_empty_home_ends_in_a_chat_and_is_changed_later(home: Path, town: Town, people: Any) -> None:
    ann = people(
        "init", "--set", f"telegram.base_url={town.telegram_url}", OLLAMA_HOST=town.ollama,
        OPENAI_API_KEY=KEY, OPENAI_BASE_URL=town.model_url,
    )  # fmt: skip
    ann.answers("your agent called? [daycare]", "Robin")
    ann.answers("call you?", "Ann")
    ann.answers("speak? [friendly]")
    ann.answers("professional? [default]", "rude")
    ann.sees("rude", "rude")
    ann.answers("professional? [default]", "casual")
    ann.answers("time zone?", "Europe/Berlin")
    ann.sees("1  OpenAI, with the key in $OPENAI_API_KEY", "2  Ollama on this machine: fake-large, fake-small")
    ann.answers("[1]", "3")  # a key that is typed, and wrong
    ann.answers("Whose key is it?")
    ann.answers("The key (not shown): ", "sk-wrong-0123456789")
    ann.answers("Which of its models? [gpt-5-mini]", "fake-small")
    ann.sees("it does not work: Model call to openai at 127.0.0.1 failed: the key was refused")
    ann.answers("[2]")
    ann.answers("[1]", "1")
    ann.sees("it has fake-large, fake-small")
    ann.answers("Which of its models? [fake-large]", "fake-small")
    ann.sees("it answers", "How are memories found?", "2  by words and by meaning, with openai/text-embedding-3-small")
    ann.answers("[1]")
    ann.answers("Token of the bot (not shown): ", "hello")
    ann.sees("it does not work: calling getMe: this is no bot's token")
    ann.answers("[2]")
    ann.answers("Token of the bot (not shown): ", TOKEN)
    ann.sees("it works: @kitchen_bot", "config.toml (new)", "stored encrypted as openai, from $OPENAI_API_KEY")
    assert [file.name for file in home.iterdir()] == []  # HOME is the home
    ann.answers("Write this? [Y/n]")
    ann.sees("Now your own account: write to @kitchen_bot in Telegram (https://t.me/kitchen_bot)")
    town.say("hello")
    ann.answers("The code (Enter: later):", "AAAA-BBBB")
    ann.sees("no such code is valid now")
    ann.answers("The code (Enter: later):", code(town))
    ann.sees("telegram:5 is ann, and talks to /ann/telegram")
    ann.answers("Talk to Robin now? [Y/n]")
    ann.sees("/help for commands")
    ann.answers(">", "good morning")
    ann.sees("echo: [", "] good morning")
    ann.presses_ctrl_d()
    ann.leaves()
    assert "wrong-0123456789" not in ann.said
    config = load(home)
    assert (config.agent.name, config.agent.personality, config.models.default) == (
        "Robin",
        "casual",
        "openai/fake-small",
    )
    assert StoredSecrets(home, config).value("openai") == KEY

    before = (home / "config.toml").read_text()
    ann = people("init")
    ann.answers("your agent called? [Robin]")
    ann.answers("call you? [Ann]", "Anna")
    ann.answers("speak? [friendly]", "dry")
    ann.answers("[casual]")
    ann.answers("zone? [Europe/Berlin]")
    ann.sees("1  openai/fake-small, as it is")
    ann.answers("[1]")
    ann.sees("How are memories found?")
    ann.answers("[1]")
    ann.sees("Telegram (connected)")
    ann.answers("[none]", "2")  # Slack comes first
    ann.answers("[keep the stored one]: ")
    ann.sees("it works: @kitchen_bot", '| -tone = "friendly"', '| +tone = "dry"', "name: Anna")
    ann.answers("Write this?")
    ann.answers("Talk to Robin now?", "n")  # the account is let in already: no code is asked for
    ann.leaves()
    assert (home / "config.toml").read_text() == before.replace("friendly", "dry")
    assert StoredSecrets(home, load(home)).value("telegram") == TOKEN
    with closing(sqlite3.connect(home / "daycare.db")) as db:
        assert db.execute("SELECT id, name, zone FROM users").fetchall() == [("ann", "Anna", "Europe/Berlin")]


def code(town: Town) -> str:
    """Return the code that the bot shows."""
    for _ in range(600):
        for message in reversed(list(town.telegram.sent(5))):
            if found := re.search(r"\b[0-9A-Z]{4}-[0-9A-Z]{4}\b", message.text or ""):
                return found[0]
        threading.Event().wait(0.05)
    raise AssertionError("no code was shown")


@pytest.mark.parametrize(
    ("key", "last"), [(CTRL_D, "called?"), (CTRL_C, "The key (not shown): "), (CTRL_C, "Write this?")]
)
def test_leaving_at_a_question_writes_nothing(home: Path, town: Town, people: Any, key: str, last: str) -> None:
    eve = people("init", "--user-name", "Eve", "--tone", "dry", "--personality", "default", "--zone", "UTC")
    if last != "called?":
        eve.answers("called?")
        eve.sees("Which model should answer?")
        eve.answers("[3]", "1" if "key" in last else "")
    if "key" in last:
        eve.answers("Whose key")
    if "Write" in last:
        eve.sees("How are memories found?", "1  by words and by meaning, worked out here", "2  by words alone")
        eve.answers("[1]")
        eve.answers("[none]")
    eve.sees(last)
    eve.types(key)
    eve.leaves(130)
    assert "stopped: nothing was written" in eve.said
    assert list(home.iterdir()) == []


def test_what_does_not_work_may_be_left_out_or_taken_anyway(home: Path, town: Town, people: Any) -> None:
    eve = people(
        "init", "--user-name", "Eve", "--agent-name", "Bo", "--tone", "dry", "--personality", "default",
        "--zone", "UTC", "--set", "telegram.base_url=http://127.0.0.1:9", "--dry-run",
    )  # fmt: skip
    eve.answers("[3]", "2")
    eve.answers("Its address", "ftp://nobody")
    eve.answers("called? [server]")
    eve.answers("else Enter", "")
    eve.answers("Which of its models?", "m")
    eve.sees("the base_url of provider server is not an http or https URL")
    eve.answers("[3]", "2")
    eve.answers("Its address", "http://127.0.0.1:9/v1")
    eve.answers("called? [server]", "box")
    eve.answers("else Enter", "")
    eve.answers("Which of its models?", "m")
    eve.sees("it does not work: Model call to box at 127.0.0.1 failed: the connection failed")
    eve.answers("[1]", "3")
    eve.sees("How are memories found?")
    eve.answers("[1]")
    eve.answers("Token of the bot", TOKEN)
    eve.sees("it does not work: calling getMe: Telegram's server cannot be reached")
    eve.answers("[1]", "4")
    eve.sees("| [providers.box]", '| default = "box/m"', "nothing was written: a dry run")
    eve.leaves()
    assert "plugins.telegram" not in eve.said and list(home.iterdir()) == []


def test_json_asks_nothing_in_a_terminal_either(home: Path, people: Any) -> None:
    eve = people("init", "--json", "--user-name", "Eve")  # no questions, in a terminal, too
    eve.leaves()
    assert json.loads(eve.said)["user"] == "eve"
