"""Faults on purpose: a process that dies at a chosen commit, and a wall clock that is set.

A killed daemon writes nothing more, whoever asks and however shielded, just as a dead process would not.
"""

from collections.abc import Callable
from typing import Any, Literal

import outcome
import trio

from daycare.store.records import Commit
from daycare.store.sqlite.store import Store


class Killed(BaseException):
    """The simulated death of the process. No `except Exception` stops it; catch it around the house."""


class Switch:
    """Kills the daemon over `store`: now, or at one of its commits.

    `on_kill` is called at the moment of death, to cancel what runs; whatever writes later raises `Killed`. `commits`
    counts those since the switch was made.
    """

    def __init__(self, store: Store, on_kill: Callable[[], None]) -> None:
        self.dead = False
        self.commits = 0
        self._fatal: tuple[int, str] | None = None
        self._on_kill = on_kill
        self._announce = store._listener
        store.subscribe(self._committed)
        store._db.exec_trace = self._trace
        self._commit = store._writer._commit
        store._writer._commit = self._commit_or_die  # type: ignore[method-assign]

    def kill_at(self, commit: int, when: Literal["before", "after"]) -> None:
        """Die at the commit with this number: with its transaction undone, or durable and told to nobody."""
        self._fatal = (commit, when)

    def kill(self) -> None:
        """Die now."""
        self.dead = True
        self._on_kill()

    def _trace(self, _cursor: Any, sql: str, _bindings: Any) -> bool:
        if sql == "COMMIT":
            self.commits += 1
            self._die_if((self.commits, "before"))
        if self.dead:
            raise Killed
        return True

    async def _commit_or_die(self, batch: list[Any]) -> None:
        """What a store that writes in its thread does: whoever waits for the batch dies with it, however shielded."""
        try:
            await self._commit(batch)
        except Killed:
            for write in batch:
                if write.task is not None:
                    trio.lowlevel.reschedule(write.task, outcome.Error(Killed()))

    def _committed(self, commit: Commit) -> None:
        self._die_if((self.commits, "after"))
        self._announce(commit)

    def _die_if(self, moment: tuple[int, str]) -> None:
        if moment == self._fatal and not self.dead:
            self.kill()
            raise Killed
