"""What cannot wait for a healthy store: that this one is not to be trusted, and that it has lost something.

The first is said past the store, as nothing can be written by which it could be told.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import trio

from daycare.base.clock import Clock
from daycare.base.connector import Connector, Outgoing, bring, parts_of
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import DaycareError, StoreAwayError
from daycare.base.events import DiskTrouble, Notice
from daycare.base.health import Finding
from daycare.base.store_location import is_server
from daycare.feature import Feature
from daycare.observe import log
from daycare.observe.bus import Bus
from daycare.store.sqlite.store import Store

_FOREVER: Final = frozenset({"STORE_GONE", "STORE_CORRUPT"})  # of a store that refuses, until somebody does something
_LOOK_S: Final = 1.0
_RESCUE_S: Final = 600.0  # for what was rescued, which belongs into the message: 1 GB takes some 10 s
_READ_S: Final = 10.0  # for where the operator is: a damaged database may not say
_SEND_S: Final = 60.0
_TRIES: Final = 5
_PAUSE_S: Final = 60.0  # between two tries


class Alarm(Feature):
    """Tells the operator `owner` of both, once in a run. `tell` is how they are told what a store can take."""

    name = "store"
    roles: ClassVar = {"alarm": ""}

    def __init__(
        self,
        store: Store,
        connectors: Mapping[str, Connector],
        owner: str,
        bus: Bus,
        clock: Clock,
        tell: Callable[[str], Awaitable[None]],
    ) -> None:
        self._store = store
        self._connectors = connectors
        self._owner = owner
        self._bus = bus
        self._clock = clock
        self._tell = tell
        self._raised = trio.Event()
        self._told = False
        self._known: list[tuple[str, str]] = []  # where the operator was at the start
        self.trouble: str | None = None  # why the store refuses what is written

    def troubled(self, error: DaycareError | None) -> None:
        """Hear that the store refuses what is written, or with None that it takes it again."""
        if error is not None and error.code in _FOREVER:
            self._raised.set()
        before, self.trouble = self.trouble, str(error) if error else None
        if before == self.trouble:
            return  # still the same: said once
        self._bus.publish(
            DiskTrouble(at_ms=self._clock.now_ms(), reason=error.message if error else "", cleared=error is None)
        )

    def background(self) -> Mapping[str, Callable[[], Awaitable[None]]]:
        """Return what tells the operator."""
        return {"alarm": self.run}

    async def status(self) -> Mapping[str, Any]:
        """Return what `GET /v1/status` shows of the store."""
        lost = self._store.lost
        return {
            "location": self._store.location,
            "bytes": await self._store.ledger.size_bytes(),
            "trouble": self.trouble,
            "lost": str(lost) if lost is not None else None,
        }

    async def findings(self) -> Sequence[Finding]:
        """Return whether the store takes what is written, and had at the start what the run before had committed."""
        trouble = self.trouble
        try:
            self._store.trusted()
        except StoreAwayError as refusal:
            trouble = str(refusal)
        lost = self._store.lost  # the operator is told of that at once
        gone = str(lost) if lost is not None and lost.is_recent(self._clock.now_ms()) else ""
        fine = "everything known to be there was found at the start"
        return (
            Finding(name="store", ok=trouble is None, text=trouble or "it takes what is written", watched=True),
            Finding(name="commits", ok=not gone, text=gone or fine),
        )

    async def run(self) -> None:
        """Tell what there is to tell; until cancelled."""
        self._known = await self._targets()
        lost = self._store.lost
        if lost is not None and not lost.told:
            log.logger().error("store.lost", missing=lost.missing)
            self._store.told_of_loss()
            on_server = is_server(self._store.location)
            other = "The server that was there before" if on_server else "A file *.rescued-* beside the database"
            await self._tell(
                f"When I started, something was gone: {lost}. {other}, or a backup, may have it; `daycare doctor` tells"
                " what to do."
            )
        await self._raised.wait()
        with trio.move_on_after(_RESCUE_S):
            while self._store.rescuing:  # noqa: ASYNC110 - a writer thread ends it
                await trio.sleep(_LOOK_S)
        try:
            self._store.trusted()
        except StoreAwayError as refusal:
            if not self._told:
                self._told = True
                text = f"I cannot take messages. {refusal}"
                self._bus.publish(Notice(at_ms=self._clock.now_ms(), path="", user=self._owner, text=text))
                await self._send(text)
        await trio.sleep_forever()

    async def _send(self, text: str) -> None:
        for _ in range(_TRIES):
            for name, target in await self._targets() or self._known:
                if await self._sent(name, target, text):
                    return
            await trio.sleep(_PAUSE_S)
        log.logger().error("alarm.unsent", reason="no messenger took it")

    async def _targets(self) -> list[tuple[str, str]]:
        """Return where the operator is reached: a terminal fetches what is said, and shows it as it happens."""
        try:
            with trio.fail_after(_READ_S):
                person = await self._store.people.get(self._owner)
        except (DaycareError, trio.TooSlowError):
            return []
        keys = [key.partition(":")[::2] for key in person.keys] if person is not None else []
        pushing = {name for name, connector in self._connectors.items() if not connector.pull}
        return [(name, target) for name, target in keys if name in pushing]

    async def _sent(self, name: str, target: str, text: str) -> bool:
        connector = self._connectors[name]
        outgoing = Outgoing(
            outbox=0, key=f"alarm:{self._clock.now_ms()}", path="", user=self._owner, target=target, text=text
        )
        try:
            with error_boundary("CONNECTOR_CRASHED", f"telling {name}"), trio.fail_after(_SEND_S):
                for part in parts_of(connector, outgoing):
                    await bring(connector, part)
        except DaycareError as error:
            log.logger().warning("alarm.refused", connector=name, reason=error.message)
            return False
        return True
