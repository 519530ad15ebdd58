"""The plugin: what it offers under which settings, what it costs, and how its bots live beside each other."""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import trio
from trio.testing import MockClock

from daycare.base.errors import ConflictError
from daycare.testing.memory_network import MemoryNetwork
from daycare_plugins.telegram import serving as _serving  # noqa: F401 -- imported before virtual time runs
from daycare_plugins.telegram.lock import locked
from daycare_plugins.telegram.plugin import plugin
from daycare_plugins.telegram.settings import BotSettings, TelegramSettings
from daycare_plugins.telegram.testing.faults import refused
from daycare_plugins.telegram.testing.server import FakeTelegram
from tests.telegram.bots import Host, bot_over, host, until

__all__ = ["host"]


def settings(**fields: object) -> TelegramSettings:
    return msgspec.convert(fields, TelegramSettings)


def test_importing_it_and_setting_it_up_brings_in_nothing_heavy() -> None:
    code = """
import sys
from daycare_plugins.telegram.plugin import plugin
from daycare_plugins.telegram.settings import TelegramSettings
class Context:
    config = TelegramSettings(bots={"two": TelegramSettings()})
made = plugin.setup(Context())
for make in made.connectors.values():
    make()
print(sorted(set(sys.modules) & {"telegram", "httpx", "httpcore", "anyio", "h11", "pyromark"}))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == "[]"


def test_there_is_a_connector_for_each_bot(host: Host) -> None:
    host.config = settings(bots={"family": {}, "work": {"groups": "always"}})
    assert plugin.setup is not None
    made = plugin.setup(host)
    assert list(made.connectors) == ["telegram", "telegram-family", "telegram-work"]
    assert [make().name for make in made.connectors.values()] == list(made.connectors)


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_url": "api.telegram.org"},
        {"base_url": "https://user:secret@example.org"},
        {"poll_s": 50},
        {"groups": "never"},
        {"group_overrides": {"my group": "always"}},
        {"webhook_listen": "8443"},
        {"webhook_url": "https://a.example/a", "bots": {"b": {"webhook_url": "https://a.example/b"}}},
        {"token": "1:2"},
        {"bots": {"My Bot": {}}},
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        settings(**wrong)


@pytest.mark.parametrize(
    ("base", "file", "wanted"),
    [
        ("", "", ("https://api.telegram.org/bot", "https://api.telegram.org/file/bot")),
        ("http://x:1", "", ("http://x:1/bot", "http://x:1/file/bot")),
        ("http://x:1/bot/", "", ("http://x:1/bot", "http://x:1/file/bot")),
        ("http://x:1/a", "http://y/b", ("http://x:1/a/bot", "http://y/b/file/bot")),
        ("http://x:1/bot", "http://y/file/bot", ("http://x:1/bot", "http://y/file/bot")),
        ("http://x:1/bot", "http://y/file/", ("http://x:1/bot", "http://y/file/bot")),
    ],
)
def test_addresses_of_servers_are_understood_in_both_ways(base: str, file: str, wanted: tuple[str, str]) -> None:
    chosen = BotSettings(base_url=base, base_file_url=file) if base else BotSettings()
    assert (chosen.bot_url, chosen.file_url) == wanted


async def test_a_token_that_is_stored_starts_the_bot_and_a_removed_one_ends_it(
    host: Host, autojump_clock: MockClock
) -> None:
    token = host.secrets.pop("telegram")
    server = FakeTelegram()
    async with (
        trio.open_nursery() as nursery,
        bot_over(host, server, MemoryNetwork(server.serve_stream, nursery)) as bot,
    ):
        await until(lambda: host.healths)
        assert host.health.state == "off"
        assert host.health.hint == "daycare keys add telegram"
        host.secrets["telegram"] = "123456789:wrong"
        await until(lambda: host.health.state == "refused")
        host.secrets["telegram"] = token
        await until(lambda: host.health.state == "up")
        identity = bot.connector.identity()
        assert identity is not None
        assert (identity.id, identity.name) == ("123456789", "@fake_bot")
        del host.secrets["telegram"]
        await until(lambda: host.health.state == "off")
        assert bot.connector.identity() is None
        nursery.cancel_scope.cancel()
    assert all(token not in f"{health}" for _, health in host.healths)


async def test_the_menu_is_what_the_daemon_understands(host: Host) -> None:
    async with FakeTelegram.serve() as server:
        server.fault("setMyCommands", refused(500, "Internal Server Error"))
        async with bot_over(host, server):
            await until(lambda: server.called("setMyCommands"))
            assert host.health.state in ("starting", "up")
        async with bot_over(host, server):
            await until(lambda: server.commands)
        async with bot_over(host, server):
            await until(lambda: len(server.called("getMyCommands")) == 3)
            await until(lambda: len(server.called("getUpdates")) > 3)
    assert server.commands["default"][0] == {"command": "help", "description": "What you can say"}
    assert len(server.called("setMyCommands")) == 2


async def test_one_bots_trouble_is_not_anothers(host: Host, tmp_path: Path) -> None:
    async with FakeTelegram.serve() as good, FakeTelegram.serve() as bad:
        host.config = settings(base_url=good.base_url, bots={"bad": {"base_url": bad.base_url}})
        host.secrets["telegram.bad"] = bad.token
        bad.fault("*", refused(500, "Internal Server Error"), times=1_000)
        assert plugin.setup is not None
        made = plugin.setup(host)
        assert made.start is not None
        assert made.health is not None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.start, host)
            good.say(5, 5, "hi")
            await until(lambda: host.texts == ["hi"])
            await until(lambda: "away" in host.states)
            assert await made.health(host) == "telegram: up, telegram-bad: away"
            nursery.cancel_scope.cancel()


async def test_two_daemons_on_one_machine_do_not_steal_from_each_other(host: Host, tmp_path: Path) -> None:
    other = Host(tmp_path / "second")
    async with FakeTelegram.serve() as server, bot_over(host, server):
        await until(lambda: host.health.state == "up")
        async with bot_over(other, server) as bot:
            await until(lambda: other.health.state == "conflict")
            assert str(tmp_path) in other.health.reason
            server.person(5)
            await bot.connector.made()._slot.get().call("sendMessage", chat_id=5, text="sending works")
            server.say(5, 5, "hi")
            await until(lambda: host.texts == ["hi"])
    assert not other.taken
    assert not any(call.status == 409 for call in server.calls)


def test_a_lock_ends_with_its_holder_and_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with locked("server|1", "the first"), locked("server|2", "another bot"):
        with pytest.raises(ConflictError, match="the first"), locked("server|1", "the second"):
            pass
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert not any(file.stem.rpartition("-")[2] == "1" for file in folder.iterdir())
    with locked("server|1", "the second"):
        pass


async def test_stopping_is_quick_whatever_runs(host: Host) -> None:
    async with FakeTelegram.serve() as server:
        async with bot_over(host, server):
            await until(lambda: len(server.called("getUpdates")) > 1)
            start = trio.current_time()
        assert trio.current_time() - start < 1
