"""Retry what the store refuses for now: wait and try again; nothing is given up and no attempt is counted."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from daycare.base.errors import BusyError, UnavailableError
from daycare.base.limits import STORE_RETRY_S

T = TypeVar("T")


async def with_retry(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a read or a write of the store until the store carries it out.

    Waits as long as it takes: the only bound is the cancellation of the caller, as a turn's outcome must not be dropped
    while the disk may come back. Each try is shielded, as a cancelled caller would not know whether a write was carried
    out; between tries the caller can be cancelled, and nothing was written then.
    """
    while True:
        try:
            with trio.CancelScope(shield=True):
                return await call()
        except (UnavailableError, BusyError):
            await trio.sleep(STORE_RETRY_S)
