"""What the C library does with memory that was freed."""

import ctypes
from typing import Final

_M_MMAP_THRESHOLD: Final = -3  # of <malloc.h>
_M_ARENA_MAX: Final = -8
_LARGE_BYTES: Final = 256 * 1024
_ARENAS: Final = 2


def give_back_memory() -> None:
    """Have large pieces of memory go back to the system as soon as they are freed, and few heaps. See mallopt(3).

    By itself glibc keeps pieces of up to 32 MB as soon as one was freed: arrays that grow, such as vectors in memory,
    then leave holes that are never given back, 61 MB for 31 MB of them instead of 40. And it gives each thread a heap
    of its own, of 4 to 10 MB after an hour, though one lock lets these threads run by turns. To be called before there
    are threads.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library: it has ways of its own
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    mallopt(_M_ARENA_MAX, _ARENAS)
