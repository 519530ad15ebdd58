"""What the C library does with memory that was freed."""

import ctypes
from collections.abc import Callable
from typing import Any, Final

import trio

_M_MMAP_THRESHOLD: Final = -3  # of <malloc.h>
_M_ARENA_MAX: Final = -8
_LARGE_BYTES: Final = 256 * 1024
_ARENAS: Final = 2
_TRIM_EVERY_S: Final = 30.0


def give_back_memory() -> None:
    """Have large pieces of memory go back to the system as soon as they are freed, and few heaps. See mallopt(3).

    By itself glibc keeps pieces of up to 32 MB as soon as one was freed: arrays that grow, such as vectors in memory,
    then leave holes that are never given back, 61 MB for 31 MB of them instead of 40. And it gives each thread a heap
    of its own, of 4 to 10 MB after an hour, though one lock lets these threads run by turns. To be called before there
    are threads.
    """
    mallopt = _of_c_library("mallopt")
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)


async def trimming() -> None:
    """Give back the free pages between smaller pieces, twice a minute until cancelled. See malloc_trim(3).

    By itself glibc gives back only what lies at the end of a heap. Under the load of thirty people, pieces of 8 to
    200 KB left 46 MB of such holes in two hours, while what was in use stayed the same, and 34 MB in one busy minute.
    """
    trim = _of_c_library("malloc_trim")
    while trim is not None:
        await trio.sleep(_TRIM_EVERY_S)
        await trio.to_thread.run_sync(trim, 0)


def _of_c_library(name: str) -> Callable[..., Any] | None:
    """Return a function of glibc; None with another C library, which has ways of its own."""
    try:
        found: Callable[..., Any] = getattr(ctypes.CDLL(None), name)
    except (OSError, AttributeError):
        return None
    return found
