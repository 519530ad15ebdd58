"""Agents in the order of their paths: a branch at a time, by what they are called, and those that are parked.

A branch is found by one look at an index, whatever lies below it, so a tree of a million costs what its page shows.
"""

from typing import Final

import trio

from daycare.base.budget import GROUPS
from daycare.features.roster.records import Branch
from daycare.store.sqlite.database import count
from daycare.store.sqlite.rows import Rows
from daycare.store.sqlite.sql import fetch

BELOW_MAX: Final = 1_000  # agents below a branch that are counted
_LIVING: Final = "path >= ? AND path < ? AND state <> 'dead'"
_PATHS: Final = f"SELECT path FROM agents WHERE {_LIVING} ORDER BY path LIMIT ?"
_LIVES: Final = "SELECT 1 FROM agents WHERE path = ? AND state <> 'dead'"
_NEXT: Final = f"SELECT path FROM agents WHERE {_LIVING} ORDER BY path LIMIT 1"
_BELOW: Final = f"SELECT count(*) FROM (SELECT 1 FROM agents WHERE {_LIVING} LIMIT ?)"
_NAMED: Final = (
    f"SELECT path FROM agents WHERE {_LIVING} AND path > ? AND (instr(lower(path), ?4) OR config <> '{{}}' AND"
    " instr(lower(coalesce(config ->> 'name', '') || ' ' || coalesce(config ->> 'description', '')), ?4))"
    " AND (path = ?6 OR ?7 AND substr(path, 1, length(?6) + 1) = ?6 || '/') ORDER BY path LIMIT ?5"
)
_PARKED: Final = f"SELECT path FROM agents WHERE {_LIVING} AND state = 'parked' ORDER BY path LIMIT ?"


class RosterRows(Rows):
    """Reads the table of agents, which is the core's."""

    async def branches(self, under: str, after: str, limit: int) -> tuple[list[Branch], str]:
        """Return what grows right below a path ("": users), behind the branch `after`, and where a next page begins.

        All that is there is returned, each agent by itself, where that fits the limit.
        """
        low, high = _inside(under)
        if not after:
            paths = [str(path) for (path,) in fetch(self._reader, _PATHS, (low, high, limit + 1))]
            if len(paths) <= limit:
                return [Branch(path) for path in paths], ""
        found: list[Branch] = []
        at = max(low, self._behind(after)) if after else low
        while (row := self._reader.execute(_NEXT, (at, high)).fetchone()) is not None:
            path = branch_of(str(row[0]), under)
            inside, beyond = _inside(path)
            if path != row[0] and self._lives(path):  # it was there itself: `x-y` stands between `x` and what is below
                at = beyond
                continue
            if len(found) == limit:
                return found, found[-1].path
            found.append(Branch(path, count(self._reader, _BELOW, (inside, beyond, BELOW_MAX))))
            at = self._behind(path)
        return found, ""

    def _behind(self, path: str) -> str:
        """Return the first text behind a branch: where it stands itself, what is below it comes later."""
        return f"{path}\1" if self._lives(path) else _inside(path)[1]

    def _lives(self, path: str) -> bool:
        return self._reader.execute(_LIVES, (path,)).fetchone() is not None

    async def named(self, text: str, under: str, after: str, limit: int, within: str = "/**") -> list[str]:
        """Return the paths of living agents in a pattern whose path, name or description has a text in any case."""
        root = within.removesuffix("/**")

        def look() -> list[str]:
            with self._readers.lent() as db:
                found = fetch(db, _NAMED, (*_inside(under), after, text.lower(), limit, root, root != within))
            return [str(path) for (path,) in found]

        return await trio.to_thread.run_sync(look)  # it may look at every agent

    async def parked(self, under: str, limit: int) -> list[str]:
        """Return the paths of agents that are parked."""
        return [str(path) for (path,) in fetch(self._reader, _PARKED, (*_inside(under), limit))]


def branch_of(path: str, under: str) -> str:
    """Return the branch right below `under` that a path is at or below: of a user, of a root, or of a helper."""
    names = path.removeprefix(f"{under}/").strip("/").split("/")
    level = under.count("/")
    if level == 0:
        taken = 1
    elif level == 1:
        taken = 2 if names[0] in GROUPS else 1
    else:
        taken = 1 if names[0] == "memory" else 2
    return "/".join((under, *names[:taken]))


def _inside(path: str) -> tuple[str, str]:
    """Return between which texts all paths below one lie: 0 is the character after the slash."""
    return f"{path}/", f"{path}0"
