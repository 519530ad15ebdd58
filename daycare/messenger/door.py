"""A platform's way in: it posts to any node, and the node that is connected takes what comes.

So listening is a life of its own, apart from the connection: with the same credential, and on every node.
"""

from collections.abc import Callable
from typing import Final

from daycare.base.errors import DaycareError
from daycare.messenger.keeping import Connection, keep
from daycare.plugin import PluginContext
from daycare.webhook import Door, WebhookBounds, WebhookServer, listening

RETRY_S: Final = 5.0  # for an address that is not free


class WayIn:
    """Listens for one connection. `deaf` is why nobody can post to this node, empty if they can."""

    def __init__(
        self,
        context: PluginContext,
        connection: Connection,
        name: str,
        address: str,
        open_for: Callable[[str], Door],
        bounds: WebhookBounds,
        told: Callable[[str], None] = lambda deaf: None,
    ) -> None:
        self.deaf = ""
        self._context = context
        self._connection = connection
        self._name, self._address = name, address
        self._open_for, self._bounds = open_for, bounds
        self._told = told

    async def run(self) -> None:
        """Listen until cancelled. Raises nothing: what goes wrong is logged, and told as `deaf`."""
        await keep(self, "LISTENING_FAILED", f"listening for {self._name}")

    def credential(self) -> tuple[str, str]:
        """Return the connection's."""
        return self._connection.credential()

    def off(self, reason: str) -> None:
        """There is none, which the connection tells."""

    def starting(self) -> None:
        """There is another one, which the connection tells."""

    def broken(self, defect: DaycareError) -> None:
        """Tell of a defect."""
        self._connection.broken(defect)

    async def serve(self, credential: str) -> None:
        """Listen until cancelled."""
        listeners = await listening(self._address, self._is_deaf)
        self._tell("")
        await WebhookServer(self._open_for(credential), self._bounds).serve(listeners)

    def _is_deaf(self, reason: str) -> float:
        if reason != self.deaf:
            self._context.log.warning("webhook_deaf", connector=self._name, reason=reason)
        self._tell(reason)
        return RETRY_S

    def _tell(self, deaf: str) -> None:
        if deaf != self.deaf:
            self.deaf = deaf
            self._told(deaf)
