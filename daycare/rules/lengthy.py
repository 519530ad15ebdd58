"""Work over texts that may be long: done at once while they are short, else in a thread, so that nobody else waits."""

from collections.abc import Callable
from typing import Final, TypeVar

import trio

T = TypeVar("T")

_AT_ONCE: Final = 4_000  # characters together: some 10 ms for the difference of texts in strange signs


async def aside(work: Callable[[], T], *texts: str | None) -> T:
    """Return what `work` over these texts does."""
    if sum(len(text or "") for text in texts) <= _AT_ONCE:
        return work()
    return await trio.to_thread.run_sync(work)
