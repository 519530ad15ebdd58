"""How long a thread has the interpreter before another one that waits for it gets it."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

TURN_S: Final = 0.0005  # else 5 ms, which the thread that writes would wait for at each statement
_SHORT_TURN_S: Final = 0.0001

_lock = threading.Lock()
_wanted = 0
_before_s = TURN_S


@contextmanager
def short_turns() -> Iterator[None]:
    """Let threads take turns five times as often within this block: for a thread that works long without a pause.

    A step of the event loop gives the interpreter away at each read and each statement, some thirty times. Where
    another thread takes it each time and keeps it for a whole turn, such as one that imports, the step takes 15 ms.
    """
    global _wanted, _before_s
    with _lock:
        if not _wanted:
            _before_s = sys.getswitchinterval()  # another one in a program that runs a daemon inside of it
        _wanted += 1
        sys.setswitchinterval(_SHORT_TURN_S)
    try:
        yield
    finally:
        with _lock:
            _wanted -= 1
            if not _wanted:
                sys.setswitchinterval(_before_s)
