"""Room for turns: how many run at once. Who finds none waits in line.

A limiter of trio's keeps account of who has which token, and takes four times as long, once for each turn.
"""

from collections import OrderedDict

import trio


class TurnRoom:
    """Room for `size` turns at once, which may be changed while they run: those that run go on."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._inside = 0
        self._line: OrderedDict[trio.lowlevel.Task, None] = OrderedDict()

    @property
    def size(self) -> int:
        """How many turns may run at once."""
        return self._size

    @size.setter
    def size(self, size: int) -> None:
        self._size = size
        self._let_in()

    def enter(self) -> bool:
        """Take room for one turn if there is some and nobody waits for it; return whether it did."""
        if self._inside >= self._size or self._line:
            return False
        self._inside += 1
        return True

    async def wait(self) -> None:
        """Take room for one turn once there is some, after those who wait already."""
        task = trio.lowlevel.current_task()

        def give_up(_: object) -> trio.lowlevel.Abort:
            del self._line[task]
            return trio.lowlevel.Abort.SUCCEEDED

        self._line[task] = None
        await trio.lowlevel.wait_task_rescheduled(give_up)

    def leave(self) -> None:
        """Give back the room of one turn."""
        self._inside -= 1
        self._let_in()

    def _let_in(self) -> None:
        while self._line and self._inside < self._size:
            task, _ = self._line.popitem(last=False)
            self._inside += 1
            trio.lowlevel.reschedule(task)
