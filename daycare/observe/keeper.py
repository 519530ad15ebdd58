"""What keeps background parts going: one that crashes is started again, and one row that is bad is set aside."""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

import trio

from daycare.base.clock import Clock
from daycare.base.error_boundary import origin_of, reason_of
from daycare.base.errors import BrokenError, BusyError, UnavailableError
from daycare.base.events import PartCrashed, RowSetAside
from daycare.base.limits import RETRY_BASE_S, RETRY_FACTOR, RETRY_MAX_S
from daycare.observe import log
from daycare.observe.bus import Bus

STEADY_S: Final = 300.0  # a part that has run for so long since its last crash counts as well again


class Keeper:
    """Keeps the daemon's background parts running: one that raises takes no other along, and never the daemon.

    `part.crashed` is published at each crash; its `alert` is set at the first one after the part ran steadily, so that
    the operator is told once.
    """

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus = bus
        self._clock = clock
        self._crashed: dict[str, tuple[str, float]] = {}  # why a part crashed last, and when by trio's clock

    async def keep(self, part: str, run: Callable[[], Awaitable[object]]) -> None:
        """Run a part until it returns. When it raises, run it again: after 1, 4, 16, 64 s and at most RETRY_MAX_S."""
        retry_in_s = 0.0
        while True:
            began = trio.current_time()
            try:
                await run()
                return
            except Exception as error:  # noqa: BLE001 - nothing but the store's own death may end the daemon
                crash = error
            except BaseExceptionGroup as group:
                # It is being cancelled: what went wrong on the way out concerns nobody any more.
                raise (group.split(Exception)[1] or group) from None
            first = not retry_in_s or trio.current_time() - began >= STEADY_S
            retry_in_s = RETRY_BASE_S if first else min(retry_in_s * RETRY_FACTOR, RETRY_MAX_S)
            self._tell(part, crash, retry_in_s, alert=first)
            await trio.sleep(retry_in_s)

    def guard(self, part: str, call: Callable[[], object]) -> None:
        """Make a call that must not fail; if it does, that is told as the crash of a part."""
        try:
            call()
        except Exception as crash:  # noqa: BLE001 - as in `keep`
            known = self._crashed.get(part)
            alert = known is None or trio.current_time() - known[1] >= STEADY_S
            self._tell(part, crash, 0.0, alert=alert)

    def problems(self) -> dict[str, str]:
        """Return why parts crashed lately, by name."""
        since = trio.current_time() - STEADY_S
        self._crashed = {part: it for part, it in self._crashed.items() if it[1] > since}
        return {part: reason for part, (reason, _) in self._crashed.items()}

    def _tell(self, part: str, crash: Exception, retry_in_s: float, *, alert: bool) -> None:
        reason = reason_of(crash)
        self._crashed[part] = (reason, trio.current_time())
        name, where = origin_of(crash)
        log.logger().error("part.defect", part=part, error=name, where=where)
        self._bus.publish(
            PartCrashed(at_ms=self._clock.now_ms(), part=part, reason=reason, retry_in_s=retry_in_s, alert=alert)
        )


class SetAside:
    """`with SetAside(...) as tried:` lets a part go on when one piece of its work fails; then `tried.failed` is set.

    That is told (`row.set_aside`), and the caller sees to it that the piece does not come up again. What is wrong with
    the store as a whole passes: that is no piece's fault.
    """

    def __init__(self, bus: Bus, clock: Clock, part: str, what: str) -> None:
        self._bus = bus
        self._clock = clock
        self._part = part
        self._what = what
        self.failed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or is_of_the_store(error):
            return False
        self.failed = True
        name, where = origin_of(error)
        log.logger().error("row.defect", part=self._part, what=self._what, error=name, where=where)
        self._bus.publish(
            RowSetAside(at_ms=self._clock.now_ms(), part=self._part, what=self._what, reason=reason_of(error))
        )
        return True


def is_of_the_store(error: Exception) -> bool:
    """Whether an error says that the store takes or gives nothing at all for now."""
    return isinstance(error, UnavailableError | BusyError) or (
        isinstance(error, BrokenError) and error.code == "STORE_CORRUPT"
    )
