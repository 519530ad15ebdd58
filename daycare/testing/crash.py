"""Crashing a house at a chosen commit, and opening the next one over the same folder.

A crash is a `BaseException` out of the very write, and from then on no write of that house happens any more: what the
process had not committed is gone, as after `kill -9`. What happened outside the store stays.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import trio
import trio.testing

from daycare.base.clock import Clock
from daycare.config import Config
from daycare.plugin import Plugin
from daycare.store.records import Commit
from daycare.store.sqlite.store import SqliteStore
from daycare.testing.house import House, open_house
from daycare.testing.scripted import Scripted


class Crash(BaseException):
    """The process died here. No `except Exception` stops it."""


class Doom:
    """When a house crashes: `after` the n-th commit is durable and before anyone hears of it, or right `before` it.

    Between the two lies what happens in memory and in the outside world: a tool that ran, a reply that was sent. With
    `n` 0 it never comes. `commits` counts; `struck` tells whether it came.
    """

    def __init__(self, n: int = 0, *, before: bool = False) -> None:
        self.n = n
        self.before = before
        self.commits = 0
        self.struck = False

    def hang_over(self, store: SqliteStore) -> None:
        """Count the commits of a store that was opened `inline`, and crash it at the chosen one."""
        writer = store._writer
        write_inline = writer._write_inline
        listener = writer.listener

        def write(fn: Callable[[Any], Any]) -> Any:
            if self.struck:
                raise Crash
            if self.before and self.commits + 1 == self.n:
                self.struck = True
                raise Crash
            return write_inline(fn)

        def listen(commit: Commit) -> None:
            self.commits += 1
            if not self.before and self.commits == self.n:
                self.struck = True
                raise Crash
            listener(commit)

        writer._write_inline = write  # type: ignore[method-assign]
        writer.listener = listen


async def live(
    tmp: Path,
    model: Scripted,
    doom: Doom,
    story: Callable[[House], Awaitable[object]],
    *,
    plugins: Sequence[Plugin] = (),
    config: Config | None = None,
    clock: Clock | None = None,
) -> bool:
    """Let `story` happen in a house over the file in `tmp`, until it ends or the doom strikes; return whether it did.

    What the story raises is raised as it is.
    """
    failure: Exception | None = None
    try:
        async with (
            open_house(
                tmp, model, location="daycare.db", plugins=plugins, config=config, clock=clock, work=False
            ) as house,
            trio.open_nursery() as nursery,
        ):
            doom.hang_over(house.store)
            nursery.start_soon(house.daemon.work)
            await trio.testing.wait_all_tasks_blocked()
            try:
                await story(house)
            except Exception as error:  # noqa: BLE001 - out of the nurseries it would come wrapped in groups
                failure = error
            nursery.cancel_scope.cancel()
    except* Crash:
        pass
    if failure is not None and not doom.struck:
        raise failure
    return doom.struck
