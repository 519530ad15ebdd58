"""What the C library does with memory that was freed."""

import ctypes
from typing import Final

_M_MMAP_THRESHOLD: Final = -3  # of <malloc.h>
_LARGE_BYTES: Final = 256 * 1024


def give_back_large_pieces() -> None:
    """Let pieces of memory of this size come from the system, one by one, and go back to it as soon as they are freed.

    By itself glibc raises the size up to 32 MB as soon as such a piece is freed (mallopt(3)). Arrays that grow, such as
    vectors in memory, then leave holes in a heap that never shrinks: 61 MB for 31 MB of them, instead of 40.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # another C library: it has ways of its own
        return
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
