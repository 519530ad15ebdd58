"""Numbers and traces are read in threads while people talk: on connections that nobody else uses."""

from pathlib import Path

import trio

from daycare.base.clock import SystemClock
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted

SCRAPES = 40
PEOPLE = 4


async def test_scrapes_and_traces_while_four_people_talk_end_nobodys_daemon(tmp_path: Path) -> None:
    opened = open_daemon(tmp_path, Scripted(), location="daycare.db", clock=SystemClock(), inline=False)
    with trio.fail_after(60):
        async with opened as house:
            receipt = await house.say("hello")
            talking = True

            async def talk(number: int) -> None:
                while talking:
                    assert await house.talk(f"word {number}", path=f"/ann/agent/a{number}")

            for number in range(PEOPLE):
                await house.agent(f"/ann/agent/a{number}")
            async with trio.open_nursery() as nursery:
                for number in range(PEOPLE):
                    nursery.start_soon(talk, number)
                for _ in range(SCRAPES):
                    await look(house, receipt.trace)
                talking = False
            assert house.daemon.keeper.problems() == {}


async def look(house: TestDaemon, trace: str) -> None:
    text = await house.daemon.observation.metrics()
    assert "daycare_inbox" in text
    assert await trio.to_thread.run_sync(house.store.ledger.trace, trace)
    agent = await house.daemon.directory.at("/ann/direct")
    assert await house.daemon.memory.documents.search(agent, "tea") == []
