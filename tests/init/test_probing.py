"""One cheap call says whether a model's key and a bot's token are right, without a daemon and without writing."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from daycare.base.errors import (
    BrokenError,
    DaycareError,
    ForbiddenError,
    NotFoundError,
    SetupError,
    UnavailableError,
)
from daycare.config import load
from daycare.ops.probing import connectors_in_use, list_models, probe_connector, probe_model
from daycare.ops.setup import initialise
from daycare.ops.trials import try_key
from daycare.testing.model_server import ScriptedAnswer
from daycare.testing.openai_server import FakeOpenAI
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.init.conftest import KEY, TOKEN

WRONG = "4242424242:wrongwrongwrongwrongwrongwrongwrong12"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    initialise(tmp_path / "h", user_name="Ann", secrets={"box": KEY, "telegram": TOKEN, "telegram.family": WRONG})
    return tmp_path / "h"


@asynccontextmanager
async def servers(home: Path) -> AsyncGenerator[FakeOpenAI, None]:
    async with FakeOpenAI.serve() as model, FakeTelegram.serve(token=TOKEN, username="kitchen_bot") as telegram:
        model.api_key = KEY
        url = f'base_url = "{telegram.base_url}"'
        (home / "config.toml").write_text(
            f'[providers.box]\nbase_url = "{model.base_url}"\n[models]\ndefault = "box/fake-small"\n'
            f"[plugins.telegram]\n{url}\n[plugins.telegram.bots.family]\n{url}\n[plugins.telegram.bots.quiet]\n{url}\n"
        )
        yield model


async def test_a_model_answers_with_its_stored_key_and_with_one_that_is_handed_in(place: Path) -> None:
    async with servers(place) as server:
        config = load(place)
        await probe_model(config, place, "box/fake-small")
        await probe_model(config, place, "fake-small")  # without prefix, as in [models]
        with pytest.raises(ForbiddenError, match="the key was refused") as refused:
            await probe_model(config, place, "box/fake-small", "sk-wrong-0123456789")
        assert "wrong" not in str(refused.value)
        assert await list_models(config, place, "box") == ["fake-large", "fake-small"]
        calls = [each for each in server.history if each.method == "POST"]
    assert {each.body["max_tokens"] for each in calls} == {16}


async def test_what_keeps_a_model_from_answering_is_told_as_what_can_be_done(place: Path) -> None:
    async with servers(place) as server:
        config = load(place)
        server.enqueue(ScriptedAnswer(delay_s=30.0))
        with pytest.raises(UnavailableError, match=r"no answer within 0\.2 s"):
            await probe_model(config, place, "box/fake-small", deadline_s=0.2)
        with pytest.raises(SetupError, match="the provider openai has no key"):
            await probe_model(config, place, "openai/gpt-5-mini")
        with pytest.raises(SetupError, match="the provider openai has no key"):
            await list_models(config, place, "openai")
        with pytest.raises(SetupError, match="the provider nosuch is not configured"):
            await probe_model(config, place, "nosuch/x")
        server.enqueue(ScriptedAnswer(status=404, text="no such model"))
        with pytest.raises(DaycareError, match="no such model"):
            await probe_model(config, place, "box/nosuch")
    with pytest.raises(UnavailableError, match="the connection failed"):
        await probe_model(config, place, "box/fake-small")
    (place / "daycare.key").unlink()
    with pytest.raises(BrokenError, match=r"daycare\.key: it does not exist"):
        await probe_model(config, place, "box/fake-small")
    assert not (place / "daycare.key").exists()


async def test_each_bot_with_a_token_can_be_tried(place: Path) -> None:
    async with servers(place):
        config = load(place)
        assert connectors_in_use(config, place) == ["telegram", "telegram-family"]
        found = await probe_connector(config, place, "telegram")
        assert (found.identity, "@kitchen_bot" in found.contact) == ("@kitchen_bot", True)
        with pytest.raises(ForbiddenError, match="does not know this token") as refused:
            await probe_connector(config, place, "telegram-family")
        assert "wrong" not in str(refused.value)
        assert (await probe_connector(config, place, "telegram-quiet", {"telegram.quiet": TOKEN})).identity
        for unknown in ("telegram-quiet", "whatsapp", "nosuch"):
            with pytest.raises(NotFoundError, match="no connector of that name"):
                await probe_connector(config, place, unknown)
    with pytest.raises(UnavailableError, match="cannot be reached"):
        await probe_connector(config, place, "telegram")


async def test_a_plugin_with_wrong_settings_keeps_nobody_else_from_being_tried(place: Path) -> None:
    async with servers(place):
        with (place / "config.toml").open("a") as file:
            file.write('[plugins.whatsapp_cloud]\nphone_number_id = "none"\n')
        assert connectors_in_use(load(place), place) == ["telegram", "telegram-family"]
        assert (await probe_connector(load(place), place, "telegram")).identity == "@kitchen_bot"


async def test_a_key_is_tried_with_what_would_use_it(place: Path) -> None:
    async with servers(place):

        async def tried(name: str, value: str) -> str:
            return await trio.to_thread.run_sync(try_key, place, name, value)

        assert await tried("box", KEY) == "box/fake-small"
        with pytest.raises(ForbiddenError, match="the key was refused"):
            await tried("box", "sk-wrong-0123456789")
        assert await tried("telegram.quiet", TOKEN) == "telegram-quiet"
        with pytest.raises(ForbiddenError):
            await tried("telegram.quiet", WRONG)
        assert await tried("bridge.signal", "anything") == ""


async def test_nothing_is_changed_by_trying(place: Path) -> None:
    async with servers(place):
        before = {file.name: file.read_bytes() for file in place.iterdir() if not file.name.endswith(("-wal", "-shm"))}
        await probe_model(load(place), place, "box/fake-small")
        await probe_connector(load(place), place, "telegram")
        for name, content in before.items():
            assert (place / name).read_bytes() == content
