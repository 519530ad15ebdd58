"""The postbox: how a message is committed, and observers hear of it. Who may send what is for the router to ask."""

from daycare.base.clock import Clock
from daycare.base.errors import InvalidError
from daycare.base.events import MessageAccepted
from daycare.base.limits import KEY_MAX_CHARS, MESSAGE_MAX_BYTES
from daycare.base.messages import Envelope
from daycare.observe.bus import Bus
from daycare.store.records import NewAgent, Receipt
from daycare.store.sqlite.store import Store


class Postbox:
    """Commits messages."""

    def __init__(self, store: Store, bus: Bus, clock: Clock) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock

    async def post(self, envelope: Envelope, create: NewAgent | None = None, began: int = 0) -> Receipt:
        """Commit a message to the agent at `envelope.to`; with `create` the agent comes into being if need be.

        `began` is when it was received (wall ms), 0 for just now. Raises as `check`, `NotFoundError` and `BusyError`.
        """
        check(envelope)
        return await self.commit(envelope, create, began)

    async def commit(self, envelope: Envelope, create: NewAgent | None = None, began: int = 0) -> Receipt:
        """Commit a message as `post` does that was checked."""
        receipt = await self._store.inbox.post(envelope, create)
        self.announce(envelope, receipt, began)
        return receipt

    def announce(self, envelope: Envelope, receipt: Receipt, began: int = 0) -> None:
        """Let observers know of a message that was committed, and received at `began` (wall ms; 0 for just now)."""
        now_ms = self._clock.now_ms()
        self._bus.publish(
            MessageAccepted(
                at_ms=now_ms,
                path=envelope.to,
                user=envelope.user,
                agent_id=receipt.agent_id,
                trace=envelope.trace,
                seq=receipt.seq,
                sender=envelope.sender,
                duplicate=receipt.duplicate,
                took_ms=now_ms - (began or now_ms),
            )
        )


def check(envelope: Envelope) -> None:
    """Refuse a message that no inbox takes."""
    size = len(envelope.text.encode()) if len(envelope.text) > MESSAGE_MAX_BYTES // 4 else 0
    if size > MESSAGE_MAX_BYTES:
        raise InvalidError(
            "MESSAGE_TOO_LONG",
            f"posting to {envelope.to}: {size} bytes, at most {MESSAGE_MAX_BYTES}",
            hint="split it, or put it into a file",
        )
    if not envelope.key or len(envelope.key) > KEY_MAX_CHARS:
        raise InvalidError(
            "MESSAGE_KEY",
            f"posting to {envelope.to}: an idempotency key of {len(envelope.key)} characters, 1 to {KEY_MAX_CHARS} fit",
            hint="use the platform's message id",
        )
