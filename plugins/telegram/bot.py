"""One bot's life: off without a token, receiving with one, and anew when the token changes or something breaks.

Each bot has a task and an error boundary of its own. Sending works from the moment there is a token, also while somebody
else receives in our place.
"""

from typing import Any, Final

import trio

from daycare.base.blame import blamed
from daycare.base.errors import DaycareError, UnavailableError
from daycare.plugin import PluginContext
from daycare_plugins.telegram import health
from daycare_plugins.telegram.connector import TelegramConnector
from daycare_plugins.telegram.settings import BotSettings

TOKEN_LOOK_S: Final = 3.0  # a stored or changed token takes effect after so long


class BotTask:
    """Keeps one bot going for as long as the plugin lives."""

    def __init__(self, context: PluginContext, name: str, secret: str, settings: BotSettings) -> None:
        self.name = name
        self.connector = TelegramConnector(context, name, settings, secret)
        self.monitor = health.Monitor(lambda found: context.report(name, found), secret)
        self._context = context
        self._secret = secret
        self._settings = settings
        self._crashes = 0

    async def run(self) -> None:
        """Serve until cancelled. Raises nothing: what goes wrong is told as this bot's state."""
        while True:
            token, problem = self._token()
            if not token:
                self.monitor.off(problem)
                await trio.sleep(TOKEN_LOOK_S)
                continue
            try:
                with blamed("TELEGRAM_CRASHED", f"running the bot {self.name}"):
                    await self._with_token(token)
                    self._crashes = 0
            except DaycareError as defect:
                self._crashes += 1
                self._context.log.error("telegram_bot_failed", connector=self.name, reason=defect.message)
                trouble = UnavailableError("TELEGRAM_CRASHED", defect.message, hint="daycare logs")
                await trio.sleep(self.monitor.trouble(trouble))

    def _token(self) -> tuple[str, str]:
        """Return the stored token, empty if there is none, and why."""
        try:
            token = self._context.secret(self._secret)
        except DaycareError as error:
            return "", error.message
        return (token or "").strip(), "no token is stored"

    # -- one token ---------------------------------------------------------------------------------------------------

    async def _with_token(self, token: str) -> None:
        """Receive and send until the token is another."""
        self.monitor.starting()
        serving = await trio.to_thread.run_sync(_imported)  # a quarter of a second, not of the daemon's loop
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_changed, token, nursery.cancel_scope)
            await serving(self._context, self._settings, self.connector, self.monitor, token)

    async def _until_changed(self, token: str, scope: trio.CancelScope) -> None:
        while self._token()[0] == token:
            await trio.sleep(TOKEN_LOOK_S)
        scope.cancel()


def _imported() -> Any:
    from daycare_plugins.telegram.serving import serve

    return serve
