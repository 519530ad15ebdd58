"""Memory that was freed."""

import subprocess
import sys

import pytest

# Arrays that grow side by side, as the vectors of some people do; the size at which each moves elsewhere rises.
_GROW = """
import ctypes
from daycare.ops.heap import give_back_memory
{}
def resident():
    text = open("/proc/self/status").read()
    return int(text.split("RssAnon:")[1].split()[0]) / 1024
base = resident()
kept = [bytearray(b"x" * 300_000) for _ in range(60)]
for size in range(400_000, 1_000_000, 100_000):
    for at in range(60):
        kept[at] = bytearray(kept[at] + b"x" * 100_000)
small = [bytearray(b"x" * 1_000) for _ in range(2_000)]
del kept
print(resident() - base)
"""


# Pieces of many sizes, of which some stay between those that are freed: the ways of a daemon with many conversations.
_HOLES = """
import random
import trio, trio.testing
from daycare.ops.heap import give_back_memory, trimming
give_back_memory()
def resident():
    text = open("/proc/self/status").read()
    return int(text.split("RssAnon:")[1].split()[0]) / 1024
async def main():
    rolled = random.Random(1)
    base = resident()
    kept = [bytearray(b"x" * rolled.randrange(8_000, 200_000)) for _ in range(1_000)]
    kept = kept[::20]
    async with trio.open_nursery() as nursery:
        {}
        await trio.sleep(200)
        print(resident() - base)
        nursery.cancel_scope.cancel()
trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0.1))
"""


def _left_mb(program: str) -> float:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="what is resident is read from /proc")
def test_large_pieces_of_memory_go_back_to_the_system_when_they_are_freed() -> None:
    assert _left_mb(_GROW.format("give_back_memory()")) < 20


@pytest.mark.skipif(sys.platform != "linux", reason="what is resident is read from /proc")
def test_holes_between_small_pieces_of_memory_go_back_to_the_system() -> None:
    assert _left_mb(_HOLES.format("nursery.start_soon(trimming)")) < 30
    assert _left_mb(_HOLES.format("pass")) > 60
