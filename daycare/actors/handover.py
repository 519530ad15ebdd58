"""Users that go to another node, while their agents are at work: lanes end, and turns are suspended."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import trio

from daycare.actors.lifecycle import Activation
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

HANDOVER_S: Final = 0.3  # for turns to end by themselves before they go on elsewhere: their users wait meanwhile
SUSPEND_MAX_S: Final = 5.0  # for turns of users that go to another node


class Handover:
    """Lets go of lanes. `awake` are those there are, by agent."""

    def __init__(self, store: Store, awake: Mapping[str, Activation]) -> None:
        self._store = store
        self._awake = awake

    async def let_go(self) -> None:
        """End the lanes of users that are another node's; their turns are suspended, unless that one took them."""
        share = self._store.share
        lanes = [lane for lane in self._awake.values() if lane.user and not share.owns(lane.user)]
        suspended = at_work(lanes)
        for lane in lanes:
            lane.gone = trio.Event()
            if lane.whole is not None:
                lane.whole.cancel()
        for lane in lanes:
            assert lane.gone is not None
            await lane.gone.wait()
        if share.may_write:
            await self.suspend(suspended, SUSPEND_MAX_S)

    async def suspend(self, turns: Iterable[int], within_s: float) -> None:
        """Take back the attempts of turns that were cut off in order, as far as the store lets that happen in time."""
        with trio.CancelScope(shield=True), trio.move_on_after(within_s):
            async with trio.open_nursery() as nursery:  # so that they are one commit
                for turn in turns:
                    nursery.start_soon(with_retry, partial(self._store.turns.suspend, turn))


def at_work(lanes: Iterable[Activation]) -> list[int]:
    """Return the turns of lanes that are tried, or were journaled ahead."""
    return [lane.turn.turn for lane in lanes if lane.turn is not None and (lane.trying or lane.begun)]
