"""One bot's life: off without a token, receiving with one, and anew when the token changes or something breaks.

Each bot has a task and an error boundary of its own. Sending works from the moment there is a token, also while
somebody else receives in our place.
"""

import sys
from importlib import import_module
from typing import Any, Final

import trio

from daycare.base.blame import blamed
from daycare.base.errors import DaycareError, UnavailableError
from daycare.plugin import PluginContext
from daycare_plugins.telegram import health
from daycare_plugins.telegram.connector import TelegramConnector
from daycare_plugins.telegram.settings import BotSettings

SERVING: Final = "daycare_plugins.telegram.serving"  # imported with the first token
TOKEN_LOOK_S: Final = 3.0  # a stored or changed token takes effect after so long ...
SELDOM_LOOK_S: Final = 30.0  # ... or so, when there was none for long
SELDOM_AFTER_S: Final = 1800.0
PAUSE_MAX_S: Final = 30.0  # after a defect; it doubles up to here, and begins anew after a steady time
STEADY_S: Final = 300.0
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
        last, pause_s, had = "", 1.0, trio.current_time()
        while True:
            token, problem = self._token()
            if not token:
                if last:
                    last, had = "", trio.current_time()
                self.monitor.off(problem)
                await trio.sleep(TOKEN_LOOK_S if trio.current_time() - had < SELDOM_AFTER_S else SELDOM_LOOK_S)
                continue
            if token != last:
                self.monitor.starting()
            last, began = token, trio.current_time()
            try:
                with blamed("TELEGRAM_CRASHED", f"running the bot {self.name}"):
                    await self._with_token(token)
            except DaycareError as defect:
                self._context.log.error("telegram_bot_failed", connector=self.name, reason=defect.message)
                self.monitor.trouble(UnavailableError("TELEGRAM_CRASHED", CRASHED, hint="daycare logs"))
                if trio.current_time() - began > STEADY_S:
                    pause_s = 1.0
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

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
        if SERVING not in sys.modules:
            await trio.to_thread.run_sync(import_module, SERVING)  # half a second, not of the daemon's loop
        serving = import_module(SERVING).serve
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_changed, token, nursery.cancel_scope)
            await serving(self._context, self._settings, self.connector, self.monitor, token, self._transport)

    async def _until_changed(self, token: str, scope: trio.CancelScope) -> None:
        while True:
            await trio.sleep(TOKEN_LOOK_S)
            if self._token()[0] != token:
                scope.cancel()
