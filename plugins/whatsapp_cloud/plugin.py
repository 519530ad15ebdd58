"""The plugin: one connector, `whatsapp-cloud`, where a number is configured, and the task that keeps it going.

Nothing here costs memory before a token is stored: the client and the renderer are imported by then.
"""

from typing import TYPE_CHECKING, Any, Final

import trio
from msgspec.structs import replace

from daycare.base.connector import Health
from daycare.base.errors import DaycareError
from daycare.messenger.keeping import imported, keep, stored
from daycare.plugin import Plugin, PluginContext
from daycare_plugins.whatsapp_cloud.settings import CONNECTOR, NAME, CloudSettings
from daycare_plugins.whatsapp_cloud.setup import STEP

if TYPE_CHECKING:
    from daycare.messenger.door import WayIn
    from daycare_plugins.whatsapp_cloud.http_in import CloudHook

SERVING: Final = "daycare_plugins.whatsapp_cloud.serving"  # imported with the first token
HTTP_IN: Final = "daycare_plugins.whatsapp_cloud.http_in"


class CloudTask:
    """Keeps the number going for as long as the plugin lives. `transport` is httpx's, for tests."""

    def __init__(self, context: PluginContext, settings: CloudSettings, transport: Any = None) -> None:
        from daycare_plugins.whatsapp_cloud.connector import CloudConnector  # where a number is configured

        self.connector = CloudConnector(context, settings)
        self.serving: Any = None
        self._context = context
        self._settings = settings
        self._transport = transport
        self._deaf = ""  # why Meta cannot post to this node
        self._made: tuple[WayIn, CloudHook] | None = None

    @property
    def state(self) -> str:
        """How it is, in a few words."""
        return str(self.serving.state) if self.serving is not None else "off"

    async def run(self) -> None:
        """Serve until cancelled; what goes wrong is told as the connection's state."""
        await keep(self, "WHATSAPP_CRASHED", "serving the number")

    async def listen(self) -> None:
        """Let Meta in, also while another node is connected, until cancelled."""
        way_in, _ = await self._entrance()
        await way_in.run()

    async def _entrance(self) -> "tuple[WayIn, CloudHook]":
        http_in = await imported(HTTP_IN)
        if self._made is None:
            self._made = http_in.way_in(self._context, self, self._settings, self._is_deaf)
        return self._made

    def _is_deaf(self, why: str) -> None:
        self._deaf = why
        if self.serving is not None:
            self.serving.deaf(why)

    def credential(self) -> tuple[str, str]:
        """Return whether there is a token. The client reads it for each call, so another one needs nothing."""
        token, why = stored(self._context, NAME)
        return "stored" if token else "", why

    def off(self, reason: str) -> None:
        """There is no token."""
        self._tell("off", reason, f"daycare keys add {NAME}")

    def starting(self) -> None:
        """There is a token."""
        self._tell("starting", "asking Meta for the first time", "")

    def broken(self, defect: DaycareError) -> None:
        """Tell of a defect."""
        self._context.log.error("whatsapp_failed", reason=defect.message)
        self._tell("away", "something broke inside; it is started again", "daycare logs")

    async def serve(self, credential: str) -> None:
        """Receive and send."""
        module = await imported(SERVING)
        _, hook = await self._entrance()
        self.serving = module.CloudServing(self._context, self._settings, self.connector, hook, self._transport)
        self.serving.deaf(self._deaf)
        await self.serving.run()

    def _tell(self, state: Any, reason: str, hint: str) -> None:
        self._context.report(CONNECTOR, Health(state=state, reason=reason, hint=hint))


def _setup(context: PluginContext) -> Plugin:
    settings: CloudSettings = context.config
    if not settings.phone_number_id:
        return plugin
    task = CloudTask(context, settings)

    async def start(context: PluginContext) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(task.listen)
            nursery.start_soon(context.while_connected, CONNECTOR, task.run)

    async def health(_: PluginContext) -> str:
        return f"{CONNECTOR}: {task.state}"

    return replace(plugin, connectors={CONNECTOR: lambda: task.connector}, start=start, health=health)


plugin = Plugin(
    name=NAME,
    description="People talk to agents through a WhatsApp number of the Business Cloud API.",
    config=CloudSettings,
    setup=_setup,
    wizard=STEP,
    by_connector=True,
)
