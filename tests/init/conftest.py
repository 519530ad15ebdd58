"""A model server that asks for a key, a bot's server and an Ollama, for programs that block."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from daycare.cli.main import main
from daycare.testing.openai_server import FakeOpenAI
from daycare.testing.slack_server import FakeSlack
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.cli.conftest import environment as environment
from tests.cli.conftest import home as home

KEY = "sk-kitchen-0123456789"
TOKEN = "4242424242:kitchenbottokenkitchenbottoken12345"
BOT_TOKEN = "xoxb-4242424242-kitchenkitchen"
SECRETS = (KEY, TOKEN)
START_S = 10.0


@dataclass
class Town:
    """The servers, in a thread with a loop of its own."""

    model_url: str = ""
    telegram_url: str = ""
    ollama: str = ""
    slack_url: str = ""
    telegram: Any = None
    model: Any = None
    _ready: threading.Event = field(default_factory=threading.Event)
    _token: Any = None
    _stop: Any = None

    def serve(self) -> None:
        trio.run(self._serve)

    async def _serve(self) -> None:
        async with AsyncExitStack() as stack:
            nursery = await stack.enter_async_context(trio.open_nursery())
            self.model = await stack.enter_async_context(FakeOpenAI.serve(nursery))
            self.model.api_key = KEY
            ollama = await stack.enter_async_context(FakeOpenAI.serve(nursery))
            self.telegram = await stack.enter_async_context(
                FakeTelegram.serve(nursery, token=TOKEN, username="kitchen_bot")
            )
            slack = await stack.enter_async_context(FakeSlack.serve(nursery))
            slack.tokens[BOT_TOKEN] = ""
            slack.scopes, self.slack_url = "chat:write", slack.url
            self.model_url, self.ollama = self.model.base_url, ollama.base_url.removesuffix("/v1")
            self.telegram_url = self.telegram.base_url.removesuffix("/bot")
            self._token, self._stop = trio.lowlevel.current_trio_token(), trio.Event()
            self._ready.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel()

    def say(self, text: str) -> None:
        """Let Ann write to the bot."""

        def say() -> None:
            ann = self.telegram.person(5, first_name="Ann")
            self.telegram.say(ann, ann, text)

        trio.from_thread.run_sync(say, trio_token=self._token)

    def leave(self) -> None:
        """End the servers."""
        trio.from_thread.run_sync(self._stop.set, trio_token=self._token)


@pytest.fixture(scope="session")
def town() -> Iterator[Town]:
    made = Town()
    thread = threading.Thread(target=made.serve)
    thread.start()
    assert made._ready.wait(START_S)
    yield made
    made.leave()
    thread.join(START_S)


@dataclass
class Done:
    """How a command line ended, and what it printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the program in this process; whatever it prints holds no secret."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")  # nobody is there
    monkeypatch.setenv("HOME", str(home))

    def run(*words: str) -> Done:
        with pytest.raises(SystemExit) as left:
            main(["init", "--home", str(home / "h"), *words])
        out, err = capsys.readouterr()
        for secret in SECRETS:
            assert secret not in out + err
        return Done(int(left.value.code or 0), out, err)

    return run
