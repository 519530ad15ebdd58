"""One bot's life: off without a token, receiving with one, and again when the token changes or something breaks.

Each bot has a task and an error boundary of its own. Sending works from the moment there is a token, also while
somebody else receives in our place.
"""

from typing import TYPE_CHECKING, Any, Final

from daycare.base.errors import DaycareError, UnavailableError
from daycare.messenger.keeping import imported, keep, stored
from daycare.messenger.late import LateConnector
from daycare.plugin import PluginContext
from daycare_plugins.telegram import health
from daycare_plugins.telegram.settings import BotSettings

if TYPE_CHECKING:
    from daycare.messenger.door import WayIn
    from daycare_plugins.telegram.connector import TelegramConnector

SERVING: Final = "daycare_plugins.telegram.serving"  # half a second; imported with the first token
OUTGOING: Final = "daycare_plugins.telegram.outgoing"  # else the first message that is shown as typing waits for it
WEBHOOK: Final = "daycare_plugins.telegram.webhook"
MANNER: Final = (
    "Your answers are read in Telegram: headings, bold, italics, lists, tables, links, quotes and code of "
    "Markdown arrive as such. A message has at most 4,096 characters; longer answers come as several."
)
CRASHED: Final = "something broke inside; the bot is being restarted"  # what exactly may have people's words in it


class BotTask:
    """Keeps one bot going for as long as the plugin lives. `transport` is httpx's, for tests without a network."""

    def __init__(
        self, context: PluginContext, name: str, secret: str, settings: BotSettings, transport: Any = None
    ) -> None:
        self.name = name
        self.connector = LateConnector(name, MANNER, self._make, lambda: bool(self.credential()[0]))
        self.monitor = health.Monitor(lambda found: context.report(name, found), secret)
        self._context = context
        self._secret = secret
        self._settings = settings
        self._transport = transport
        self._way_in: WayIn | None = None

    async def run(self) -> None:
        """Serve until cancelled. Raises nothing: what goes wrong is told as this bot's state."""
        await keep(self, "TELEGRAM_CRASHED", f"running the bot {self.name}")

    async def listen(self) -> None:
        """Let Telegram in if it is to post, also while another node is connected, until cancelled."""
        if self._settings.webhook_url:
            webhook = await imported(WEBHOOK)
            self._way_in = webhook.way_in(self._context, self, self.name, self._settings)
            await self._way_in.run()

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
        serving = await imported(SERVING, OUTGOING)
        made = self.connector.made()
        await serving.serve(self._context, self._settings, made, self.monitor, token, self._transport, self._deaf)

    def _deaf(self) -> str:
        return self._way_in.deaf if self._way_in is not None else ""

    def _make(self) -> "TelegramConnector":
        from daycare_plugins.telegram.connector import TelegramConnector

        return TelegramConnector(self._context, self.name, self._settings, self._secret)
