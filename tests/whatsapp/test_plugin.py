"""The connector in a daemon: off unless it is wanted, and then a real process that says how it is."""

import stat
from pathlib import Path
from typing import Any

from daycare.config import Config, ModelsSection, PluginsSection, ProviderSection
from daycare.testing.daemon import open_daemon
from tests.bridge.helpers import to_load, until
from tests.whatsapp.library import needs_library

PLUGIN = "daycare_plugins.whatsapp.plugin:plugin"


def config(**settings: Any) -> Config:
    return Config(
        models=ModelsSection(default="scripted/model"),
        providers={"scripted": ProviderSection(kind="scripted")},
        plugins=PluginsSection(load=to_load(PLUGIN), settings={"whatsapp": settings} if settings else {}),
    )


async def test_it_is_not_there_unless_it_is_switched_on(tmp_path: Path) -> None:
    async with open_daemon(tmp_path, config=config(), inline=False) as house:
        assert "whatsapp" not in house.daemon.connectors


async def test_switched_on_it_waits_for_a_telephone_or_says_what_is_missing(tmp_path: Path) -> None:
    settings = config(enabled=True, sandbox="off")
    async with open_daemon(tmp_path, config=settings, inline=False) as house:
        expected = "away" if needs_library.args[0] else "off"

        def health() -> dict[str, Any]:
            return house.daemon.host.status(house.daemon.connectors)["whatsapp"]

        def told() -> bool:
            now = health()
            return bool(now["state"] == expected and (expected == "off" or "neonize" in now["reason"]))

        await until(told, 40)  # a moment after its start it is only unreachable
        if expected == "off":
            assert health()["hint"] == "daycare bridge login whatsapp"
            session = tmp_path / "plugins" / "whatsapp" / "whatsapp" / "session.db"
            assert stat.S_IMODE(session.stat().st_mode) == 0o600
        else:
            assert "neonize cannot be used" in health()["reason"]
