"""The record of events: all that is noteworthy is kept, in order, and what each turn recalls makes no commit each."""

from pathlib import Path

import msgspec
import trio
import trio.testing

from daycare.base.events import AgentRestored, Event, MemoryRecalled
from daycare.testing.daemon import open_daemon
from tests.store.samples import commits


def recalled(turn: int) -> Event:
    return MemoryRecalled(at_ms=turn, user="ann", path="/ann/direct", turn=turn, numbers=(1,), scores=(1.0,), took_ms=1)


async def test_what_many_turns_recall_is_kept_in_order_with_one_commit(tmp_path: Path, autojump_clock: object) -> None:
    async with open_daemon(tmp_path) as house:
        await house.talk("hello")
        await trio.sleep(5)
        seen, bus = commits(house.store), house.daemon.bus
        before = len(await house.store.ledger.events())
        for turn in range(1, 21):
            bus.publish(recalled(turn))
        bus.publish(AgentRestored(at_ms=21, user="ann", path="/ann/direct"))
        bus.publish(recalled(22))
        await trio.sleep(5)
        texts = await house.store.ledger.events()
        assert [msgspec.json.decode(text)["at_ms"] for text in reversed(texts[: len(texts) - before])] == [
            *range(1, 23)
        ]
        assert len(seen) == 2, "one of the first, with what came behind them, and one of the last"
