"""Calls that come while a connection starts: after a restart the daemon goes on with what it had, and needs clients."""

import math
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import trio

from daycare.base.errors import AwayError
from daycare.messenger.keeping import stored
from daycare.plugin import PluginContext

STARTING_S: Final = 0.25  # between two looks whether there is a client
START_MAX_S: Final = 30.0  # for so long a call that must not fail waits

C = TypeVar("C")


class Start:
    """The start of a connection, to be waited for. `delay_s` says how long until the next look, 0 when it is over.

    All calls share one deadline: where a connection only fails, ten files of a conversation wait once, not ten times.
    """

    def __init__(self, delay_s: Callable[[], float]) -> None:
        self._delay_s = delay_s
        self._until = -math.inf

    async def over(self) -> None:
        """Wait until it is over, however it ended, or for `START_MAX_S`."""
        now = trio.current_time()
        if now > self._until + START_MAX_S:
            self._until = now + START_MAX_S
        with trio.move_on_at(self._until):
            while (wait_s := self._delay_s()) > 0:  # noqa: ASYNC110 -- no event tells of secrets
                await trio.sleep(wait_s)


class ClientSlot(Generic[C]):
    """The client of one connection: there while it is served, and soon where a credential is stored.

    `secret` names the credential, `doing` begins what is said of a failure.
    """

    def __init__(self, context: PluginContext, secret: str, doing: str) -> None:
        self._context = context
        self._secret = secret
        self._doing = doing
        self._client: C | None = None
        self._start = Start(self.delay_s)

    def fill(self, client: C) -> None:
        """Call through this client from now on."""
        self._client = client

    def clear(self) -> None:
        """There is no client any more."""
        self._client = None

    def delay_s(self) -> float:
        """Return how long to wait before the next look; 0 if there is a client, or none to come."""
        return STARTING_S if self._client is None and self._credential()[0] else 0.0

    def get(self) -> C:
        """Return the client. Raises `AwayError` NOT_SENT if there is none."""
        if self._client is None:
            credential, why = self._credential()
            if credential:
                raise AwayError("NOT_SENT", f"{self._doing}: the connection is not up yet", hint="daycare status")
            raise AwayError("NOT_SENT", f"{self._doing}: {why}", hint=f"daycare keys add {self._secret}")
        return self._client

    async def wait(self) -> C:
        """Return the client once it is there. Raises as `get` if none comes, or not in time."""
        await self._start.over()
        return self.get()

    def _credential(self) -> tuple[str, str]:
        return stored(self._context, self._secret)
