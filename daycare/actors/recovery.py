"""After crashes: a turn that was at work each time the daemon died runs again while no other does.

So only the message that kills the daemon pays for it. One death is nobody's fault; from the second on, the turns that
were at work both times are suspects. After the next start they are tried first and one at a time, each marked as alone
in the store, and all other turns wait for that long. Commands are obeyed meanwhile.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping

import trio

from daycare.actors.lifecycle import Activation
from daycare.observe import log
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store


class Recovery:
    """Lets the suspects of one start run one by one. `awake` are the lanes, by agent."""

    def __init__(self, store: Store, awake: Mapping[str, Activation]) -> None:
        self._store = store
        self._awake = awake
        self._suspects: deque[str] = deque()
        self._tried = trio.Event()  # set when the one alone has been tried, or has nothing to try

    async def begin(self) -> None:
        """Find the suspects; to be called once, before any turn is tried."""
        self.add(await with_retry(self._store.turns.recover))

    def add(self, suspects: Iterable[str]) -> None:
        """Take agents for suspects; `run` is to be called then."""
        self._suspects.extend(suspects)

    async def run(self, wake: Callable[[str], Activation]) -> None:
        """Let each suspect run alone, then all others."""
        if self._suspects:
            log.logger().warning("turns.one_at_a_time", agents=len(self._suspects))
        while self._suspects:
            self._tried = trio.Event()
            lane = wake(self._suspects[0])
            lane.alone = lane.retiring = True
            lane.nudge()
            await self._tried.wait()
            self._suspects.popleft()
        for lane in self._awake.values():
            lane.nudge()

    @property
    def under_way(self) -> bool:
        """Whether a suspect runs alone, so that nobody else is woken for what waits since before the start."""
        return bool(self._suspects)

    def holds(self, lane: Activation) -> bool:
        """Return whether a lane has to wait before it tries a turn."""
        return self.under_way and not lane.alone

    def tried(self, lane: Activation) -> None:
        """A try of a lane has ended, or there is nothing it could try."""
        if lane.alone:
            lane.alone = False
            self._tried.set()
