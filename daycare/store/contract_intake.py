"""What every store promises of connectors: what comes in, who knocked, and what a connection remembers."""

from collections.abc import Sequence
from typing import Protocol

from daycare.base.messages import Origin
from daycare.store.records import Arrival, Knock, Scrap, Stranger, Taken, User


class IntakeStore(Protocol):
    """The way in, and the few values that a connector keeps over restarts."""

    async def take(self, connector: str, entries: Sequence[Arrival | Knock | Scrap], cursor: str = "") -> list[Taken]:
        """Commit a batch in order together with the cursor, all or nothing; return what became of each.

        Idempotent by the keys of messages and scraps. A message for a full inbox becomes a dead letter that can be
        replayed. An edit of an answered message becomes a NOTE. Strangers are only counted.
        """

    async def recall(self, connector: str, name: str = "cursor") -> str:
        """Return a remembered value, empty if there is none."""

    async def recall_all(self, connector: str, prefix: str) -> dict[str, str]:
        """Return every remembered value whose name begins with `prefix`, by name."""

    async def remember(self, connector: str, name: str, value: str) -> None:
        """Keep a value, or forget it if it is empty; idempotent. Past `CONNECTOR_NAMES_MAX` the oldest names go."""


class StrangerStore(Protocol):
    """Those who knocked; at most `STRANGERS_MAX` a connector."""

    async def find(self, limit: int = 100) -> list[Stranger]:
        """Return those who knocked, the last first."""

    async def by_code(self, code_hash: str) -> Stranger:
        """Return who was shown a code. Raises `ForbiddenError` PAIR_CODE: it counts against every code that is out."""

    async def get(self, key: str) -> Stranger:
        """Return who knocked from an address and was not turned away. Raises `NotFoundError` STRANGER_UNKNOWN."""

    async def admit(self, key: str, user: User, origin: Origin = ...) -> tuple[Stranger, User]:
        """Let the one of this address in as `approve` does, on an operator's word alone. Raises as `get`."""

    async def approve(self, code_hash: str, user: User, origin: Origin = ...) -> tuple[Stranger, User]:
        """Let the one with this code be `user`, created if there is none of that id.

        Not idempotent: a code works once. Raises `ForbiddenError` PAIR_CODE as `by_code`, `ConflictError` when a
        group would become a person or the other way round.
        """

    async def deny(self, key: str) -> Stranger:
        """Show somebody no more codes; idempotent. Raises `NotFoundError`."""
