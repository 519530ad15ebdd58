"""One bot's life: off without a token, receiving with one, and again when the token changes or something breaks.

Each bot has a task and an error boundary of its own. Sending works from the moment there is a token, also while
somebody else receives in our place.
"""

from typing import Any, Final

from daycare.base.errors import DaycareError, UnavailableError
from daycare.messenger.keeping import imported, keep, stored
from daycare.plugin import PluginContext
from daycare_plugins.telegram import health
from daycare_plugins.telegram.connector import TelegramConnector
from daycare_plugins.telegram.settings import BotSettings

SERVING: Final = "daycare_plugins.telegram.serving"  # half a second
CRASHED: Final = "something broke inside; the bot is being restarted"  # what exactly may have people's words in it


class BotTask:
    """Keeps one bot going for as long as the plugin lives. `transport` is httpx's, for tests without a network."""

    def __init__(
        self, context: PluginContext, name: str, secret: str, settings: BotSettings, transport: Any = None
    ) -> None:
        self.name = name
        self.connector = TelegramConnector(context, name, settings, secret)
        self.monitor = health.Monitor(lambda found: context.report(name, found), secret)
        self._context = context
        self._secret = secret
        self._settings = settings
        self._transport = transport

    async def run(self) -> None:
        """Serve until cancelled. Raises nothing: what goes wrong is told as this bot's state."""
        await keep(self, "TELEGRAM_CRASHED", f"running the bot {self.name}")

    def credential(self) -> tuple[str, str]:
        """Return the stored token, empty if there is none, and why."""
        return stored(self._context, self._secret)

    def off(self, reason: str) -> None:
        """There is no token."""
        self.monitor.off(reason)

    def starting(self) -> None:
        """There is another token."""
        self.monitor.starting()

    def broken(self, defect: DaycareError) -> None:
        """Tell of a defect."""
        self._context.log.error("telegram_bot_failed", connector=self.name, reason=defect.message)
        self.monitor.trouble(UnavailableError("TELEGRAM_CRASHED", CRASHED, hint="daycare logs"))

    async def serve(self, token: str) -> None:
        """Receive and send with a token."""
        serving = await imported(SERVING)
        await serving.serve(self._context, self._settings, self.connector, self.monitor, token, self._transport)
