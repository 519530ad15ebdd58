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


def _left_mb(first: str) -> float:
    done = subprocess.run([sys.executable, "-c", _GROW.format(first)], capture_output=True, text=True, check=True)
    return float(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="what is resident is read from /proc")
def test_large_pieces_of_memory_go_back_to_the_system_when_they_are_freed() -> None:
    assert _left_mb("give_back_memory()") < 20
