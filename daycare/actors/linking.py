"""Which connectors this node is connected with: where several nodes share a store, each account is one node's."""

from collections.abc import Awaitable, Callable

from daycare.base.roles import of_connector
from daycare.store.share import Share


class Linking:
    """Asks the share by the names of connectors; `role_of` returns the role that one comes with."""

    def __init__(self, share: Share) -> None:
        self._share = share
        self.several = share.several
        self.role_of: Callable[[str], str] = of_connector

    def has(self, connector: str) -> bool:
        """Whether this node is the one that is connected with an account."""
        return self._share.holds(self.role_of(connector))

    async def while_had(self, connector: str, part: Callable[[], Awaitable[object]]) -> None:
        """Run a part until it returns; it is cancelled while another node has the connection."""
        await self._share.while_held(self.role_of(connector), part)
