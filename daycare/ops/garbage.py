"""When a daemon looks for garbage: objects that keep each other alive, which counting references does not find.

Turns leave none. So it is looked for only that what rare paths leave, such as errors and plugins that end, is bounded;
and in small portions, by a task of its own, and not at the end of somebody's long step.

A look costs some 0.3 us for each object it goes through. The young ones are 1,500 and what took the place of others:
the interpreter looks through these by itself, in whichever thread makes them. What has outlived one look is looked
through by the task. What has outlived two may be tens of thousands of objects, and take 10 to 50 ms: it is looked
through while nobody talks, unless it has grown by 30 MB before such a time comes.
"""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

_YOUNG: Final = 1_500  # 3,000 came with what they replaced to 9,000, and 3.5 ms; 700 cost a tenth of a busy second
_MIDDLE: Final = 0  # each other look is at what outlived the last one, too, where the task comes late: 5 made it 12 ms
_OLD: Final = 200  # looks at what outlived one, for who does not look by hand
_NEVER: Final = 1_000_000_000
_PAUSE_S: Final = 0.05  # between looks while there is much to do
_IDLE_S: Final = 3.2  # and while there is nothing
_QUIET_S: Final = 30.0  # for as long nobody has talked
_WORTH_LOOKS: Final = 100  # at what outlived a look: then there may be old garbage
_GROWN_BLOCKS: Final = 500_000  # pieces of memory of any age, some 30 MB; to count what is old takes 8 ms


def tune() -> None:
    """Look seldom, and in small portions."""
    freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


def freeze() -> None:
    """Look through everything, and never again through what there is now: what imports made stays anyway."""
    gc.collect()
    gc.freeze()


async def look_for_garbage() -> None:
    """Look for what has outlived a first look, or two, until cancelled."""
    pause_s, quiet_s = _PAUSE_S, 0.0
    with _old_by_hand():
        most = sys.getallocatedblocks() + _GROWN_BLOCKS
        while True:
            await trio.sleep(pause_s)
            _, outlived, looks = gc.get_count()
            quiet_s = 0.0 if outlived else quiet_s + pause_s
            pause_s = _PAUSE_S if outlived else min(2 * pause_s, _IDLE_S)
            if outlived:
                gc.collect(1)
            if looks > _WORTH_LOOKS and (quiet_s > _QUIET_S or sys.getallocatedblocks() > most):
                gc.collect()
                most = sys.getallocatedblocks() + _GROWN_BLOCKS


@contextmanager
def _old_by_hand() -> Iterator[None]:
    """Let the interpreter not look through what is old by itself, within this block."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
