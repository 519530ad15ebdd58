"""Crashing a daemon at a chosen commit, and opening the next one over the same folder.

A crash is a `BaseException` out of the very write, and from then on no write of that daemon happens any more: what the
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
from daycare.store.sqlite.store import Store
from daycare.testing.daemon import TestDaemon, open_daemon
from daycare.testing.scripted import Scripted


class Crash(BaseException):
    """The process died here. No `except Exception` stops it."""


class Doom:
    """When a daemon crashes: right after its n-th commit is durable and before anyone hears of it.

    `when` names the commit by what it made true instead: the first after which this SQL query returns a row. `late`
    crashes just before the next commit instead: what lies between the two happens in memory and in the outside world,
    a tool that ran, a reply that was sent. Without `n` or `when` it never comes. `commits` counts; `struck` tells
    whether it came.
    """

    def __init__(self, n: int | None = None, *, when: str = "", late: bool = False) -> None:
        self.commits = 0
        self.struck = False
        self._n = n
        self._when = when
        self._late = late
        self._armed = late and n == 0

    def hang_over(self, store: Store) -> None:
        """Count the commits of a store that was opened `inline`, and crash it at the chosen one."""
        writer = store._writer
        write_inline = writer._write_inline
        listener = writer.listener

        def write(fn: Callable[[Any], Any], user: str = "") -> Any:
            if self.struck or self._armed:
                self.struck = True
                raise Crash
            return write_inline(fn, user)

        def listen(commit: Commit) -> None:
            self.commits += 1
            if self.commits == self._n or (self._when and store._db.execute(self._when).fetchone()):
                if not self._late:
                    self.struck = True
                    raise Crash
                self._armed = True
            listener(commit)

        writer._write_inline = write  # type: ignore[method-assign]
        writer.listener = listen


async def live(
    tmp: Path,
    model: Scripted,
    doom: Doom,
    story: Callable[[TestDaemon], Awaitable[object]],
    *,
    plugins: Sequence[Plugin] = (),
    config: Config | None = None,
    clock: Clock | None = None,
    curates: bool = False,
) -> bool:
    """Let `story` happen in a daemon over the file in `tmp`, until it ends or the doom strikes; return whether it did.

    What the story raises is raised as it is.
    """
    failure: Exception | None = None
    try:
        async with (
            open_daemon(
                tmp,
                model,
                location="daycare.db",
                plugins=plugins,
                config=config,
                clock=clock,
                work=False,
                curates=curates,
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
