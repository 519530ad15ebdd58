"""Decided requests: the messages that showed them lose their buttons, and say what was decided.

Found in the store, so that it makes no difference who decided, or whether the daemon died right after it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from daycare.actors.linking import Linking
from daycare.base.clock import Clock
from daycare.base.connector import Connector
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.base.limits import APPROVAL_S, OUTAGE_MAX_S, PRESENCE_CALL_S
from daycare.features.approvals.records import Approval
from daycare.features.approvals.rows import ApprovalRows
from daycare.features.approvals.service import ApprovalsService
from daycare.features.approvals.views import concluded
from daycare.observe import log
from daycare.observe.bus import Bus
from daycare.store.records import OutboxRow
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

OUTCOMES_LOOK_S: Final = 60.0  # for messages of requests that are decided; a new decision is seen at once
OUTCOMES_SOON_S: Final = 5.0  # where one could not be edited yet, and twice as long each time

_CRASHED: Final = "CONNECTOR_CRASHED"


class ApprovalMessages:
    """Edits these messages, where `connectors` push. `target` finds the chat of (user, connector), None for none."""

    def __init__(
        self,
        store: Store,
        service: ApprovalsService,
        bus: Bus,
        clock: Clock,
        connectors: Mapping[str, Connector],
        target: Callable[[str, str], Awaitable[str | None]],
        linking: Linking | None = None,
    ) -> None:
        self._store = store
        self._linking = linking or Linking(store.share)
        self._rows = store.of(ApprovalRows)
        self._service = service
        self._bus = bus
        self._clock = clock
        self._some = trio.Event()  # there is a connector that pushes
        self._connectors = connectors
        self._target = target
        self.connect()

    def connect(self) -> None:
        """Edit what the connectors there are now have sent."""
        self._pushing = {name: connector for name, connector in self._connectors.items() if not connector.pull}
        if self._pushing:
            self._some.set()

    async def run(self) -> None:
        """Look after each decision, and now and then, until the bus is closed."""
        await self._some.wait()
        pause_s = OUTCOMES_SOON_S
        async with self._bus.subscribe(types=frozenset({"approval.decided"})) as events:
            while not self._bus.closed:
                try:
                    asked_s = await self._look()
                except (UnavailableError, BusyError):  # the store refuses: the next look finds the same
                    asked_s = 0.0
                wait_s = OUTCOMES_LOOK_S if asked_s is None else asked_s or pause_s
                pause_s = OUTCOMES_SOON_S if asked_s is None else min(2 * pause_s, OUTCOMES_LOOK_S)
                with trio.move_on_after(wait_s):
                    await anext(events, None)

    async def _look(self) -> float | None:
        """Edit what is found. Return None if nothing is left, else how long the platform asks to wait, 0 for unsaid."""
        left: list[float] = []
        away = set[str]()
        oldest_ms = self._clock.now_ms() - round(1000 * (APPROVAL_S + OUTAGE_MAX_S))
        here = [name for name in self._pushing if self._linking.has(name)]
        for no, outbox in await self._rows.outlived(here, oldest_ms) if here else ():
            row, it = await self._store.outbox.get(outbox), await self._rows.get(no)
            if row is None or it is None or row.connector in away:
                continue
            if row.state != "sent":
                left.append(0.0)
                continue
            error = await self._edit(row, it)
            if isinstance(error, BusyError | UnavailableError) and error.code != _CRASHED:
                left.append(max(error.retry_after_s, 1.0) if error.retry_after_s else 0.0)
                if isinstance(error, UnavailableError):
                    away.add(row.connector)
                continue
            if error is not None:
                log.logger().info("outcome.not_shown", outbox=outbox, code=error.code, reason=error.message)
            await with_retry(lambda outbox=outbox: self._rows.settle(outbox))  # type: ignore[misc]
        return max(left, default=None)

    async def _edit(self, row: OutboxRow, it: Approval) -> DaycareError | None:
        """Return why a message could not be edited, None if it was, or if that cannot be done there."""
        said = await self._said(row, it)
        receipt = (row.receipt or "").split()[-1:]
        target = row.target if row.target is not None else await self._target(row.user, row.connector)
        if target is None or not receipt:
            return None
        connector = self._pushing[row.connector]
        try:
            with error_boundary(_CRASHED, f"{row.connector}: edit"):
                with trio.move_on_after(PRESENCE_CALL_S):
                    if connector.capabilities(target).edits:
                        await connector.edit(target, receipt[0], said)
                    return None
                return UnavailableError("CONNECTOR_LATE", f"{row.connector}: edit took over {PRESENCE_CALL_S:g} s")
        except DaycareError as error:
            return error

    async def _said(self, row: OutboxRow, it: Approval) -> str:
        same = row.shows is not None and row.shows.content_hash == it.content_hash
        said = f"{'Decided' if same else 'Changed before it was decided'}: {await self._service.outcome(it)}"
        # With a file the buttons are below that, and it is that which is edited.
        return f"**Request {it.no}**\n{said}" if row.files else concluded(row.text, said)
