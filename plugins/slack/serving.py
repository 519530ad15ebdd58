"""Serving one workspace with its tokens: the client, who we are there, and the way in. Importing this is heavy."""

from typing import Any, Final

import trio

from daycare.base.connector import Identity
from daycare.base.errors import DaycareError, UnavailableError
from daycare.messenger.json_paths import text_at
from daycare.messenger.text import one_line
from daycare.plugin import PluginContext
from daycare_plugins.slack.client import SlackApi
from daycare_plugins.slack.connector import SlackConnector
from daycare_plugins.slack.events import SlackEvents
from daycare_plugins.slack.health import SlackMonitor
from daycare_plugins.slack.intake import SlackIntake
from daycare_plugins.slack.names import SlackNames
from daycare_plugins.slack.reading import SlackRules
from daycare_plugins.slack.settings import SlackSecrets, SlackWorkspaceSettings
from daycare_plugins.slack.streams import SlackStreams

INSTALL: Final = "pip install 'daycare[slack]'"


class SlackServing:
    """One workspace, for as long as its tokens stay the same."""

    def __init__(
        self,
        context: PluginContext,
        settings: SlackWorkspaceSettings,
        secrets: SlackSecrets,
        connector: SlackConnector,
        monitor: SlackMonitor,
        transport: Any = None,
    ) -> None:
        self._context = context
        self._settings = settings
        self._secrets = secrets
        self._connector = connector
        self._monitor = monitor
        self._transport = transport
        self._rules = SlackRules(
            connector=connector.name,
            channels=settings.channels,
            overrides=settings.channel_overrides,
            topics=settings.threads == "topics",
        )

    async def run(self) -> None:
        """Receive and send until cancelled."""
        token, app_token = (
            (lambda name: lambda: self._secret(name))(self._secrets.token),
            lambda: self._secret(self._secrets.app_token),
        )
        async with SlackApi(self._settings, token, app_token, self._transport) as api:
            await self._connector.open(api, SlackStreams(api))
            intake = SlackIntake(self._context, self._rules, SlackNames(api), self._connector)
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(intake.run)
                    await self._way(api, intake)
            finally:
                self._connector.close()

    async def _way(self, api: SlackApi, intake: SlackIntake) -> None:
        async def prepare() -> None:
            if self._connector.who is None:
                await self._learn_who(api, intake)

        if self._settings.events_url:
            name = self._connector.name
            await SlackEvents(self._context, self._settings, intake, self._monitor, name, prepare).run()
            return
        try:
            from daycare_plugins.slack.socket_mode import SocketMode
        except ImportError:
            self._monitor.tell("off", "the package for Socket Mode is not installed", INSTALL)
            await trio.sleep_forever()
        await SocketMode(api, intake.take, self._monitor, prepare).run()

    async def _learn_who(self, api: SlackApi, intake: SlackIntake) -> None:
        about = await api.call("auth.test")
        who, team = text_at(about, "user_id"), text_at(about, "team_id")
        if not who or not team:
            raise UnavailableError("SLACK_DOWN", "calling auth.test: the answer does not say who we are")
        name = one_line(f"@{text_at(about, 'user')} in {text_at(about, 'team')}")
        self._connector.who, self._connector.team = Identity(id=who, name=name), team
        self._monitor.identity = name
        intake.rules = self._rules._replace(bot=who, team=team)

    def _secret(self, name: str) -> str:
        try:
            return (self._context.secret(name) or "").strip()
        except DaycareError:
            return ""


async def serve(
    context: PluginContext,
    settings: SlackWorkspaceSettings,
    secrets: SlackSecrets,
    connector: SlackConnector,
    monitor: SlackMonitor,
    transport: Any,
) -> None:
    """Serve a workspace until cancelled."""
    await SlackServing(context, settings, secrets, connector, monitor, transport).run()
