"""What a test may claim of time: how one piece of work compares with another in the same minute.

Seconds belong to benchmarks. A machine may be three times slower than the one a test was written on, and slower still
while others use it; both pieces of work are then. Nothing makes either of them quicker than it is, so that the best of
a few rounds is compared.
"""

import time
from collections.abc import Awaitable, Callable

import trio

IN_STEP = 10.0  # four times the size: 4 where cost grows in step with it, 16 where it grows with its square
ROUNDS = 6


def cost(work: Callable[[], object]) -> float:
    """Return the processor time of this thread for a piece of work, in seconds."""
    began = time.thread_time()
    work()
    return time.thread_time() - began


def costs_at_most(times: float, work: Callable[[], object], reference: Callable[[], object]) -> bool:
    """Tell whether work takes at most so many times what the reference takes, by the best of up to six rounds.

    Either should take a millisecond or more.
    """
    best, best_reference = cost(work), cost(reference)
    for _ in range(ROUNDS - 1):
        if best <= times * best_reference:
            break
        best, best_reference = min(best, cost(work)), min(best_reference, cost(reference))
    return best <= times * best_reference


async def holds(work: Callable[[], Awaitable[object]]) -> list[float]:
    """Return for how long others had to wait for the loop each time, in seconds of this thread, the longest last."""
    found: list[float] = []
    done = False

    async def watch() -> None:
        before = time.thread_time()
        while not done:
            await trio.lowlevel.checkpoint()
            now = time.thread_time()
            found.append(now - before)
            before = now

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        await work()
        done = True
    return sorted(found)
