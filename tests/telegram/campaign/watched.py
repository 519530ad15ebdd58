"""`python -m tests.telegram.campaign.watched ...` is `python -m daycare ...` that kills itself at a chosen commit.

`DAYCARE_KILL_WHEN` is a query: the commit is the first that changes its result. `DAYCARE_KILL_AT` says `before` (all
is written, nothing is committed) or `after` (it is durable, and nobody has heard of it).
"""

import os
import runpy
import signal
from typing import Any

import apsw

from daycare.store.sqlite.writer import Writer


class Watched:
    """The store's writing connection, which dies at the commit."""

    def __init__(self, db: apsw.Connection, when: str, *, before: bool) -> None:
        self._db = db
        self._when = when
        self._before = before
        self._first = self._look()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    def execute(self, statements: str, *more: Any) -> apsw.Cursor:
        """Run statements as the connection does."""
        if statements != "COMMIT":
            return self._db.execute(statements, *more)
        strikes = self._look() != self._first
        if strikes and self._before:
            os.kill(os.getpid(), signal.SIGKILL)
        done = self._db.execute(statements, *more)
        if strikes:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    def _look(self) -> object:
        return self._db.execute(self._when).fetchall()


def watch(when: str, *, before: bool) -> None:
    """Let every store that is opened from now on be watched."""
    plain = Writer.__init__

    def made(self: Writer, db: apsw.Connection, *rest: Any, **more: Any) -> None:
        plain(self, db, *rest, **more)
        self._db = Watched(db, when, before=before)  # type: ignore[assignment]

    Writer.__init__ = made  # type: ignore[method-assign]


if __name__ == "__main__":
    watch(os.environ["DAYCARE_KILL_WHEN"], before=os.environ["DAYCARE_KILL_AT"] == "before")
    runpy.run_module("daycare.cli.daemon", run_name="__main__", alter_sys=True)
