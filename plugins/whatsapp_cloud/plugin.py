"""The plugin: one connector, `whatsapp-cloud`, where a number is configured, and the task that keeps it going.

Nothing here costs memory before a token is stored: the client and the renderer are imported by then.
"""

from importlib import import_module
from typing import Any, Final

import trio
from msgspec.structs import replace

from daycare.base.blame import blamed
from daycare.base.connector import Health
from daycare.base.errors import DaycareError
from daycare.plugin import Plugin, PluginContext
from daycare_plugins.whatsapp_cloud.connector import NAME as CONNECTOR
from daycare_plugins.whatsapp_cloud.connector import CloudConnector
from daycare_plugins.whatsapp_cloud.settings import NAME, Settings
from daycare_plugins.whatsapp_cloud.setup import STEP

SERVING: Final = "daycare_plugins.whatsapp_cloud.serving"  # imported with the first token
TOKEN_LOOK_S: Final = 3.0  # a stored token takes effect after so long
PAUSE_MAX_S: Final = 30.0  # after a defect; it doubles up to here


class Task:
    """Keeps the number going for as long as the plugin lives. `transport` is httpx's, for tests."""

    def __init__(self, context: PluginContext, settings: Settings, transport: Any = None) -> None:
        self.connector = CloudConnector(context, settings)
        self.serving: Any = None
        self._context = context
        self._settings = settings
        self._transport = transport

    @property
    def state(self) -> str:
        """How it is, in a few words."""
        return str(self.serving.state) if self.serving is not None else "off"

    async def run(self) -> None:
        """Serve until cancelled; what goes wrong is told as the connection's state."""
        pause_s = 1.0
        while True:
            if not self._has_token():
                self._tell("off", "no token is stored", f"daycare keys add {NAME}")
                await trio.sleep(TOKEN_LOOK_S)
                continue
            self._tell("starting", "asking Meta for the first time", "")
            try:
                with blamed("WHATSAPP_CRASHED", "serving the number"):
                    module = await trio.to_thread.run_sync(import_module, SERVING)  # not of the daemon's loop
                    self.serving = module.Serving(self._context, self._settings, self.connector, self._transport)
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(self._until_gone, nursery.cancel_scope)
                        await self.serving.run()
            except DaycareError as defect:
                self._context.log.error("whatsapp_failed", reason=defect.message)
                self._tell("away", "something broke inside; it is being restarted", "daycare logs")
                await trio.sleep(pause_s)
                pause_s = min(2 * pause_s, PAUSE_MAX_S)

    async def _until_gone(self, scope: trio.CancelScope) -> None:
        """The client reads the token for each call, so another one needs nothing; without one there is no client."""
        while self._has_token():  # noqa: ASYNC110 -- no event tells of secrets
            await trio.sleep(TOKEN_LOOK_S)
        scope.cancel()

    def _has_token(self) -> bool:
        try:
            return bool(self._context.secret(NAME))
        except DaycareError:
            return False

    def _tell(self, state: Any, reason: str, hint: str) -> None:
        self._context.report(CONNECTOR, Health(state=state, reason=reason, hint=hint))


def _setup(context: PluginContext) -> Plugin:
    settings: Settings = context.config
    if not settings.phone_number_id:
        return plugin
    task = Task(context, settings)

    async def start(_: PluginContext) -> None:
        await task.run()

    async def health(_: PluginContext) -> str:
        return f"{CONNECTOR}: {task.state}"

    return replace(plugin, connectors={CONNECTOR: lambda: task.connector}, start=start, health=health)


plugin = Plugin(
    name=NAME,
    description="People talk to agents through a WhatsApp number of the Business Cloud API.",
    config=Settings,
    setup=_setup,
    wizard=STEP,
)
