"""The first message after a start: what memory needs is loaded in a thread, and in time to recall something."""

import subprocess
import sys
from pathlib import Path

FIRST = """
import sys, threading
from pathlib import Path

import trio

import daycare.testing.daemon as houses
from daycare.base.clock import SystemClock
from daycare.base.memories import Tier
from daycare.features.memory.loading import SEARCH
from daycare.features.memory.store.rows import MemoryRows

loop, late = threading.get_ident(), []


class Recorder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith(("daycare.features.memory.", "numpy")) and threading.get_ident() == loop:
            late.append(name)


async def main():
    home = Path(sys.argv[1])
    async with houses.open_daemon(home, location="daycare.db", clock=SystemClock(), inline=False) as house:
        sys.meta_path.insert(0, Recorder())
        path = "/ann/agent/" + sys.argv[3]  # another one: what stands in a conversation is not recalled into it
        await house.agent(path)
        await house.talk(sys.argv[2], path=path)
        if sys.argv[3] == "log":
            while await house.store.of(MemoryRows).unlogged(1):
                await trio.sleep(0.05)
            assert await house.store.of(MemoryRows).find("ann", Tier.LOG, limit=1)
        else:
            [recalled] = house.events("memory.recalled")
            assert recalled["numbers"], recalled
    assert SEARCH[-1] in sys.modules or sys.argv[3] == "log"
    print(late)


houses.load = lambda: None
trio.run(main)
"""


def test_what_the_first_message_needs_is_loaded_beside_the_loop_and_before_its_deadline(tmp_path: Path) -> None:
    for text, part in (("My sister Clara lives in Bern.", "log"), ("Where does Clara live?", "recall")):
        run = subprocess.run(
            [sys.executable, "-c", FIRST, str(tmp_path), text, part], capture_output=True, text=True, timeout=120
        )
        assert run.returncode == 0, run.stderr
        assert run.stdout.strip() == "[]", "nothing was imported by the loop itself"
