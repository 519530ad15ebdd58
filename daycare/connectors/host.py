"""The host of connectors: what a connection is given besides the flow, and what is known of how it is."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from daycare.base.clock import Clock
from daycare.base.connector import Connector, Health, Inbound, Outcome, Unreadable
from daycare.base.events import ConnectorHealth
from daycare.base.secrecy import without_secrets
from daycare.observe.bus import Bus
from daycare.store.sqlite.store import Store

NOTHING_RESTS: Final[Mapping[str, Health]] = {}
Receive = Callable[[str, Sequence[Inbound | Unreadable], str], Awaitable[list[Outcome]]]


class Host:
    """What all connections share. Whose connector it is has been checked by then.

    `receive` commits a batch; `commands` lists the chat commands.
    """

    def __init__(
        self, store: Store, bus: Bus, clock: Clock, receive: Receive, commands: Callable[[], list[tuple[str, str]]]
    ) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._health: dict[str, tuple[Health, int]] = {}
        self._receive = receive
        self._commands = commands

    async def receive(self, connector: str, batch: Sequence[Inbound | Unreadable], cursor: str) -> Sequence[Outcome]:
        """Commit what came over a connector, and where to read on."""
        return await self._receive(connector, batch, cursor)

    async def recall(self, connector: str, name: str) -> str:
        """Return what a connector remembered under a name."""
        return await self._store.intake.recall(connector, name)

    async def remember(self, connector: str, name: str, value: str) -> None:
        """Keep a value for a connector over restarts."""
        await self._store.intake.remember(connector, name, value)

    def commands(self) -> Sequence[tuple[str, str]]:
        """Return (word, help) of the chat commands."""
        return self._commands()

    async def moved(self, connector: str, old: str, new: str) -> None:
        """Let a chat's key be another one."""
        await self._store.people.move(connector, old, new)

    def report(self, connector: str, health: Health) -> None:
        """Take a connection's word for how it is; a change is an event."""
        health = msgspec.structs.replace(
            health, reason=without_secrets(health.reason), hint=without_secrets(health.hint)
        )
        known = self._health.get(connector)
        same = known is not None and known[0].state == health.state
        since = known[1] if known is not None and same else self._clock.now_ms()
        self._health[connector] = (health, since)
        if not same:
            self._bus.publish(
                ConnectorHealth(
                    at_ms=self._clock.now_ms(),
                    connector=connector,
                    state=health.state,
                    reason=health.reason,
                    hint=health.hint if health.alert else "",
                    alert=health.alert,
                )
            )

    def forget(self, connector: str) -> None:
        """Know nothing of a connection any more: it is about to tell."""
        self._health.pop(connector, None)

    def status(
        self, connectors: Mapping[str, Connector], at_rest: Mapping[str, Health] = NOTHING_RESTS
    ) -> dict[str, dict[str, Any]]:
        """Return how each connection is, by name; one that never told is as `at_rest` says.

        One that is not there either is `up`: it has nothing to wait for.
        """
        found: dict[str, dict[str, Any]] = {}
        for name in sorted(connectors):
            health, since = self._health.get(name, (at_rest.get(name, Health(state="up")), 0))
            found[name] = {**msgspec.to_builtins(health), "since": since}
        return found
