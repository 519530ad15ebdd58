"""Writing from a lane while the disk refuses: wait and try again, nothing is given up and no attempt is counted."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from daycare.base.errors import BusyError, UnavailableError
from daycare.base.limits import STORE_RETRY_S

T = TypeVar("T")


async def patiently(write: Callable[[], Awaitable[T]]) -> T:
    """Repeat a store write until the store takes it.

    Waits as long as it takes: the only bound is the cancellation of the lane, as a turn's outcome must not be dropped
    while space may return. Each try is shielded, as a cancelled caller would not know whether it was carried out;
    between tries the caller can be cancelled, and nothing was written then.
    """
    while True:
        try:
            with trio.CancelScope(shield=True):
                return await write()
        except (UnavailableError, BusyError):
            await trio.sleep(STORE_RETRY_S)
