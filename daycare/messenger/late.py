"""A connector that is imported with its first credential: one that nobody has set up costs no memory."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from daycare.base.connector import BaseConnector, Capabilities, Connector, Identity, Outgoing

C = TypeVar("C", bound=Connector)


class LateConnector(BaseConnector, Generic[C]):
    """Stands for a connector that `make` imports and makes: as soon as `wanted` says that there is a credential, or at
    the first call that something hangs on, which tells what is missing.
    """

    def __init__(self, name: str, manner: str, make: Callable[[], C], wanted: Callable[[], bool]) -> None:
        self.name = name
        self.manner = manner
        self._make = make
        self._wanted = wanted
        self._made: C | None = None

    def made(self) -> C:
        """Return the connector."""
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def _there(self) -> bool:
        return self._made is not None or self._wanted()

    def capabilities(self, target: str) -> Capabilities:
        """Return what it can do."""
        return self.made().capabilities(target) if self._there else super().capabilities(target)

    def split(self, outgoing: Outgoing) -> Sequence[Outgoing]:
        """Return the reply in parts."""
        return self.made().split(outgoing) if self._there else super().split(outgoing)

    def delay_s(self, target: str) -> float:
        """Return how long a reply has to wait."""
        return self.made().delay_s(target) if self._there else super().delay_s(target)

    def identity(self) -> Identity | None:
        """Return who it is."""
        return self._made.identity() if self._made is not None else None

    async def send(self, outgoing: Outgoing) -> str:
        """Deliver one part."""
        return await self.made().send(outgoing)

    async def edit(self, target: str, receipt: str, text: str) -> None:
        """Replace a text."""
        await self.made().edit(target, receipt, text)

    async def withdraw(self, target: str, receipt: str) -> None:
        """Delete something."""
        await self.made().withdraw(target, receipt)

    async def act(self, target: str, action: str) -> None:
        """Show what the agent does."""
        await self.made().act(target, action)

    async def draft(self, target: str, number: int, text: str) -> None:
        """Show a reply as far as it has come."""
        await self.made().draft(target, number, text)

    async def status(self, target: str, text: str) -> str:
        """Send a line that says what is going on."""
        return await self.made().status(target, text)

    async def react(self, target: str, message: str, emoji: str) -> None:
        """Put an emoji to a message."""
        await self.made().react(target, message, emoji)

    async def fetch(self, reference: str, max_bytes: int) -> bytes:
        """Return the bytes of a file."""
        return await self.made().fetch(reference, max_bytes)
