"""The configuration as routes."""

from typing import Any

from starlette.routing import Route

from daycare.api.described import described
from daycare.api.operations import route
from daycare.base.problems import Problem
from daycare.features.configuration.fields import SettingsSection, sections
from daycare.features.configuration.operations import ChangeConfig, CheckConfig, ShowConfig, WriteConfig, Written
from daycare.features.configuration.service import Configuration


class ConfigRoutes:
    """`/v1/config`."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def routes(self) -> list[Route]:
        """Return the routes of the configuration."""
        return [
            route(ShowConfig, self.show),
            route(WriteConfig, self.write),
            route(ChangeConfig, self.change),
            route(CheckConfig, self.check),
        ]

    @described(
        {
            200: {
                "file": str,
                "text": str,
                "hash": str,
                "problems": list[Problem],
                "sections": list[SettingsSection],
                "rules": list[dict[str, Any]],
            }
        }
    )
    async def show(self, wish: ShowConfig) -> dict[str, Any]:
        """Show it."""
        now = self._configuration.read()
        return {
            "file": str(self._configuration.file),
            "text": now.shown,
            "hash": now.hash,
            "problems": now.problems,
            "sections": sections(now.table),
            "rules": [] if now.problems else now.table.get("rules", []),
        }

    @described({200: {"problems": list[Problem]}})
    async def check(self, wish: CheckConfig) -> dict[str, Any]:
        """Check a text."""
        return {"problems": self._configuration.problems(wish.text)}

    @described({200: Written}, refuses=(409,))
    async def write(self, wish: WriteConfig) -> Written:
        """Replace it."""
        return await self._configuration.write(wish.text, wish.base_hash)

    @described({200: Written}, refuses=(409,))
    async def change(self, wish: ChangeConfig) -> Written:
        """Change settings."""
        return await self._configuration.change(wish.changes, wish.base_hash)
