"""From a platform to the host: a batch is committed whole, what makes trouble is parked alone, and errands follow."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import trio

from daycare.base.connector import Inbound, Outcome, Unreadable
from daycare.base.error_boundary import error_boundary
from daycare.base.errors import BusyError, DaycareError, UnavailableError
from daycare.plugin import PluginContext

WAITING_MAX: Final = 100  # errands of one kind: more is a flood, and nobody reads them all
AGAIN_S: Final = 5.0
AGAIN_MAX_S: Final = 60.0

T = TypeVar("T")
Item = Inbound | Unreadable


class Receiver:
    """Hands to the host what came over one connector.

    `family` begins the names of log lines; `defect` is the code of what is met over a message.
    With `within_s` a commit that was begun is seen to its end, also when the plugin is stopped, but no longer than so;
    `late` is the code then.
    """

    def __init__(
        self,
        context: PluginContext,
        connector: str,
        family: str,
        *,
        defect: str,
        within_s: float | None = None,
        late: str = "",
    ) -> None:
        self.defect = defect
        self._context = context
        self._connector = connector
        self._family = family
        self._within_s = within_s
        self._late = late

    async def receive(self, items: Sequence[Item], cursor: str = "") -> list[Outcome]:
        """Return what became of each item, once all of them and the cursor are committed.

        A defect over one of them must not make us deaf: it becomes a dead letter, and the others are taken. Raises
        `BusyError` or `UnavailableError` when the store takes nothing: all of it has to come again.
        """
        try:
            return await self._commit(items, cursor)
        except DaycareError as error:
            if not items or not self.is_defect(error):
                raise
            self._context.log.error(
                f"{self._family}_receive_failed", connector=self._connector, items=len(items), code=error.code
            )
        outcomes = [await self._alone(item) for item in items]
        if cursor:
            await self._commit((), cursor)
        return outcomes

    def is_defect(self, error: DaycareError) -> bool:
        """Whether it says something about what came, and not about the store."""
        return error.code == self.defect or not isinstance(error, BusyError | UnavailableError)

    async def _alone(self, item: Item) -> Outcome:
        try:
            [outcome] = await self._commit([item])
            return outcome
        except DaycareError as error:
            if not self.is_defect(error):
                raise
            reason = error.message
        body = item.body if isinstance(item, Unreadable) else item.text
        [outcome] = await self._commit([Unreadable(key=item.key, reason=reason, body=body)])
        return outcome

    async def _commit(self, items: Sequence[Item], cursor: str = "") -> list[Outcome]:
        with error_boundary(self.defect, "receiving"):
            if self._within_s is None:
                return list(await self._context.receive(self._connector, items, cursor))
            with trio.move_on_after(self._within_s, shield=True):
                return list(await self._context.receive(self._connector, items, cursor))
        raise BusyError(self._late, f"keeping what came over {self._connector}: no answer within {self._within_s:g} s")


class Errands(Generic[T]):
    """What follows of a message and matters less than receiving: a stranger is shown a code, a button stops spinning.

    They wait in a short queue, are done one after another, each tried a few times, and dropped with a line in the log:
    `NAME_dropped` where the queue is full, `NAME_failed` at each failure. `do` is given whether it is tried again.
    With `at_once` so many are done at the same time, so that one that hangs does not keep the others waiting.
    """

    def __init__(
        self,
        context: PluginContext,
        connector: str,
        name: str,
        do: Callable[[T, bool], Awaitable[None]],
        *,
        tries: int = 2,
        within_s: float = 600.0,
        at_once: int = 1,
    ) -> None:
        self._context = context
        self._connector = connector
        self._name = name
        self._do = do
        self._tries = tries
        self._within_s = within_s
        self._at_once = at_once
        self._put, self._waiting = trio.open_memory_channel[T](WAITING_MAX)

    def add(self, errand: T) -> None:
        """Let it be done soon."""
        try:
            self._put.send_nowait(errand)
        except trio.WouldBlock:
            self._context.log.warning(f"{self._name}_dropped", connector=self._connector)

    async def run(self) -> None:
        """Do them, until cancelled."""
        async with trio.open_nursery() as nursery:
            for _ in range(self._at_once):
                nursery.start_soon(self._work)

    async def _work(self) -> None:
        async for errand in self._waiting:
            for again in range(self._tries):
                wait_s = await self._try(errand, again > 0)
                if wait_s is None or again + 1 == self._tries:
                    break
                await trio.sleep(wait_s)

    async def _try(self, errand: T, again: bool) -> float | None:
        """Do one; return how long to wait before the next try, None for no other."""
        try:
            with trio.fail_after(self._within_s):
                await self._do(errand, again)
        except (DaycareError, trio.TooSlowError) as error:
            code, why = (
                (error.code, error.message)
                if isinstance(error, DaycareError)
                else ("", f"not done within {self._within_s:g} s")
            )
            self._context.log.warning(f"{self._name}_failed", connector=self._connector, code=code, reason=why)
            if isinstance(error, BusyError | UnavailableError):
                return min(error.retry_after_s or AGAIN_S, AGAIN_MAX_S)
        return None
