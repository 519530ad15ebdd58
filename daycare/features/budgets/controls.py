"""What people do with budgets: look at them, set and raise them, and see what was spent. For chat, API and terminal."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

import msgspec
import trio

from daycare.actors.directory import Directory
from daycare.base.budget import (
    EVERYTHING,
    GROUPS,
    LIFTED,
    Measure,
    Period,
    Use,
    day_of,
    ends_ms,
    key_of,
    limit_name,
    split_name,
)
from daycare.base.clock import Clock
from daycare.base.errors import ConflictError, DaycareError, InvalidError, NotFoundError
from daycare.base.limits import SPEND_DAYS_MAX
from daycare.base.messages import Origin
from daycare.base.path import Kind
from daycare.features.budgets import rules
from daycare.features.budgets.records import BudgetRow, Ceiling, Spent
from daycare.features.budgets.rows import BudgetRows
from daycare.features.budgets.rows_overview import By, Summed
from daycare.features.budgets.rules import Scope
from daycare.features.budgets.service import Budgets
from daycare.store.records import DeadLetter, User
from daycare.store.sqlite.store import Store

BUDGET_RAISE_REPLAYS_MAX: Final = 50  # messages answered after all when a budget is raised
SPEND_ROWS_MAX: Final = 50_000  # sums in one answer, some 15 MB: a hundred agents for a year

_ALL: Final = Use(1, 1, 1, 1)  # takes some of everything, so that every limit is looked at
_PEOPLE: Final = (Origin.PERSON, Origin.GROUP, Origin.FORWARD, Origin.FILE)
_DAY_USD: Final = limit_name("day", "usd")
_PAGE: Final = 200
_PLACES: Final = 1_000  # users looked at in one step
_LOOKED_AT_MAX: Final = 2_000  # dead letters, for those that wait for a budget


class LimitView(msgspec.Struct, frozen=True, kw_only=True):
    """One limit as it stands: amounts in whole units (millionths of a dollar, milliseconds).

    `limit` holds now, `raised` of it for this period only. `reserved` is what calls that run may still take. `source`
    is `set`, or `default` for what config.toml says.
    """

    name: str
    limit: int
    raised: int
    used: int
    reserved: int
    until_ms: int
    source: str


class SpentToday(msgspec.Struct, frozen=True, kw_only=True):
    """What was spent at and below a path in millionths of a dollar; `limit` is None where none was set for it."""

    micros: int
    limit: int | None = None


class BudgetView(msgspec.Struct, frozen=True, kw_only=True):
    """What a path and all below it may use. `lifted` are limits of the default that do not hold here."""

    path: str
    limits: tuple[LimitView, ...]
    lifted: tuple[str, ...] = ()
    set_by: str = ""
    day: str = ""
    zone: str = "UTC"


@dataclass(frozen=True)
class BudgetControls:
    """Does it. Who may is asked before, of `Budgets.may_change`."""

    store: Store
    directory: Directory
    budgets: Budgets
    clock: Clock
    owner: str

    # -- looking -----------------------------------------------------------------------------------------------------

    async def listed(self, after: str = "", limit: int | None = None) -> list[BudgetView]:
        """Return the budgets of the installation, of everybody, and of every path for which something was set.

        They begin behind the path `after`.
        """
        whose = dict.fromkeys((EVERYTHING, *await self.budgets.rows()), "")
        page = await self.store.people.places(limit=_PLACES)
        while page:
            whose |= {_address(*place): place[0] for place in page}
            await trio.lowlevel.checkpoint()  # others have a turn: there may be very many
            page = await self.store.people.places(after=page[-1][0], limit=_PLACES)
        found = []
        for path in sorted(path for path in whose if path > after)[:limit]:
            found.append(await self._view(path, await self.store.people.get(whose[path]) if whose[path] else None))
            await trio.lowlevel.checkpoint()
        return found

    async def explained(self, path: str) -> list[BudgetView]:
        """Return all that binds a call at a path, the nearest first."""
        await self._check(path)
        user = await self._user_of(path)
        return [await self._view(scope.path, user) for scope in await self.budgets.scopes(path, user)]

    async def spent(self, days: int, path: str = EVERYTHING) -> list[Spent]:
        """Return what was spent at or below a path in the last days, today included, newest first."""
        if not 1 <= days <= SPEND_DAYS_MAX:
            raise InvalidError("SPEND_DAYS", f"looking at {days} days: expected 1 to {SPEND_DAYS_MAX}")
        await self._check(path)
        last = await self.today(path)
        first = (date.fromisoformat(last) - timedelta(days=days - 1)).isoformat()
        after = (date.fromisoformat(last) + timedelta(days=1)).isoformat()  # others live where it is tomorrow already
        found = await self._rows.spent(first, after, path=path, limit=SPEND_ROWS_MAX)
        if len(found) >= SPEND_ROWS_MAX:
            raise InvalidError(
                "SPEND_TOO_MUCH",
                f"looking at {days} days of {path}: there are over {SPEND_ROWS_MAX} sums",
                hint="look at fewer days, or at one path",
            )
        return found

    async def spent_today(self, paths: Sequence[str]) -> dict[str, SpentToday]:
        """Return what was spent today at and below paths, each with the limit that was set for it itself."""
        rows = await self.budgets.rows()
        found: dict[str, SpentToday] = {}
        for path in paths:
            first = path.strip("/").split("/")[0]
            user = await self.budgets.user(rules.writer_of(path) or first) or User(id=self.owner, name=self.owner)
            day = day_of(self.clock.now_ms(), user.zone)
            default = self.budgets.default(user) if path == f"/{user.id}" else {}
            limit = rules.effective(rows.get(path), default, day).get(_DAY_USD)
            most = limit or 0
            asked = Ceiling(path=path, name=_DAY_USD, key=day, measure="usd", most=most, limit=most)
            [standing] = await self._rows.standings([asked])
            found[path] = SpentToday(micros=standing.used, limit=limit)
        return found

    async def summed(self, first: str, last: str, by: By, path: str, groups: int) -> Summed:
        """Return what was spent at or below a path from one day to another, of the dearest groups and all others."""
        return await self._rows.summed(first, last, by, path, groups)

    async def turns(self, since_ms: int, until_ms: int) -> int | None:
        """Return how many turns began in a time, of all agents; None if not all of them are kept any more."""
        return await self._rows.turns(since_ms, until_ms)

    async def zone(self, path: str) -> str:
        """Return the time zone whose days count for a path."""
        return (await self._user_of(path)).zone

    async def month(self, path: str) -> list[Spent]:
        """Return what was spent at or below a path in the month of today."""
        key = key_of("month", await self.today(path))
        return await self._rows.spent(key, key, path=path, limit=SPEND_ROWS_MAX)

    async def today(self, path: str) -> str:
        """Return the day it is for a path's user."""
        return day_of(self.clock.now_ms(), (await self._user_of(path)).zone)

    # -- changing ----------------------------------------------------------------------------------------------------

    async def put(self, path: str, limits: Mapping[str, int], by: str = "") -> BudgetView:
        """Set some limits of a path, LIFTED to lift one that a default has; the others stay as they are."""
        await self._check(path)
        for name, limit in limits.items():
            split_name(name)
            if limit < LIFTED:
                raise InvalidError("BUDGET_INVALID", f"set {name} of {path} to {limit}: expected 0 or more")
        row = await self._row(path)
        await self._rows.put(msgspec.structs.replace(row, limits=row.limits | dict(limits), set_by=by))
        return await self._view(path)

    async def remove(self, path: str) -> bool:
        """Forget what was set for a path, so that the default holds; return whether there was anything."""
        return await self._rows.remove(path)

    async def allow_more(
        self, path: str, measure: Measure, amount: int, period: Period, by: str = ""
    ) -> tuple[BudgetView, int]:
        """Add to a limit for this day or month; return how it stands, and how many messages are answered after all."""
        await self._check(path)
        user = await self._user_of(path)
        day, name = day_of(self.clock.now_ms(), user.zone), limit_name(period, measure)
        before = next(scope for scope in await self.budgets.scopes(path, user) if scope.path == path)
        if name not in before.limits:
            raise ConflictError(
                "BUDGET_UNLIMITED",
                f"raising {name} of {path}: there is no such limit",
                hint=f"daycare budget explain {path}",
            )
        row = await self._row(path)
        key = key_of(period, day)
        kept = {old: added for old, added in row.raises.items() if old >= day[:7]}
        kept[key] = kept.get(key, {}) | {name: kept.get(key, {}).get(name, 0) + amount}
        await self._rows.put(msgspec.structs.replace(row, raises=kept, set_by=row.set_by or by))
        return await self._view(path), await self._replay(path)

    async def reached_for(self, path: str, measure: Measure, period: Period) -> str:
        """Return which budget above a path is meant by a raise that names none: one that is used up, or the nearest."""
        user = await self._user_of(path)
        day, name = day_of(self.clock.now_ms(), user.zone), limit_name(period, measure)
        scopes = [scope for scope in await self.budgets.scopes(path, user) if name in scope.limits]
        if not scopes:
            raise NotFoundError("BUDGET_UNLIMITED", f"raising {name} of {path}: nothing limits it")
        found = await self._rows.standings(
            [ceiling for ceiling in rules.ceilings_of(scopes, day, _ALL) if ceiling.name == name]
        )
        return next((it.ceiling.path for it in found if it.used_up), scopes[0].path)

    # -- inside ------------------------------------------------------------------------------------------------------

    @property
    def _rows(self) -> BudgetRows:
        return self.store.of(BudgetRows)

    async def _view(self, path: str, user: User | None = None) -> BudgetView:
        user = user or await self._user_of(path)
        row = (await self.budgets.rows()).get(path)
        day = day_of(self.clock.now_ms(), user.zone)
        scope = next((it for it in await self.budgets.scopes(path, user) if it.path == path), Scope(path, {}))
        standings = await self._rows.standings(rules.ceilings_of([scope], day, _ALL))
        limits = []
        for it in standings:
            name = it.ceiling.name
            period = rules.period_of(name)
            limits.append(
                LimitView(
                    name=name,
                    limit=it.ceiling.limit,
                    raised=row.raises.get(key_of(period, day), {}).get(name, 0) if row else 0,
                    used=it.used,
                    reserved=it.reserved,
                    until_ms=ends_ms(period, day, user.zone),
                    source="set" if row and name in row.limits else "default",
                )
            )
        lifted = tuple(name for name, limit in row.limits.items() if limit == LIFTED) if row else ()
        set_by = row.set_by if row else ""
        return BudgetView(path=path, limits=tuple(limits), lifted=lifted, set_by=set_by, day=day, zone=user.zone)

    async def _row(self, path: str) -> BudgetRow:
        return (await self.budgets.rows()).get(path) or BudgetRow(path=path)

    async def _user_of(self, path: str) -> User:
        first = path.strip("/").split("/")[0]
        name = rules.writer_of(path) or (first if first and first != "system" else self.owner)
        return await self.store.people.get(name) or User(id=name, name=name)

    async def _check(self, path: str) -> None:
        """Raise for what is no path of an agent, nor above one."""
        if path == EVERYTHING or path == "/system":
            return
        segments = path.removeprefix("/").split("/")
        if path.startswith("/") and (len(segments) == 1 or (len(segments) == 2 and segments[1] in GROUPS)):
            if await self.store.people.get(segments[0]) is None:
                raise NotFoundError("USER_UNKNOWN", f"a budget for {path}: no such user", hint="daycare users list")
            return
        self.directory.parse(path)

    async def _replay(self, path: str) -> int:
        """Queue again what was given up for want of this budget, the oldest first; return how many messages."""
        user = await self._user_of(path)
        since_ms = ends_ms("day", day_of(self.clock.now_ms(), user.zone), user.zone) - 2 * 86_400_000
        letters: list[DeadLetter] = []
        before: int | None = None
        for _ in range(_LOOKED_AT_MAX // _PAGE):
            page = await self.store.dead.find(before=before, limit=_PAGE)
            letters += [each for each in page if each.created_at >= since_ms and await self._waits(each, path)]
            if len(page) < _PAGE or page[-1].created_at < since_ms:
                break
            before = page[-1].no
        done = 0
        for letter in sorted(letters, key=lambda each: each.no)[-BUDGET_RAISE_REPLAYS_MAX:]:
            try:
                await self.store.dead.replay(letter.no)
            except DaycareError:
                continue  # its agent has died, or somebody pressed the button meanwhile
            done += 1
        return done

    async def _waits(self, letter: DeadLetter, path: str) -> bool:
        """Whether a person waits for it: agents that asked were answered with the error, cron jobs have a ledger."""
        if letter.code != "BUDGET_EXHAUSTED" or letter.source != "inbox" or letter.replayed_at is not None:
            return False
        if letter.origin not in _PEOPLE:
            return False
        user = await self._user_of(letter.path)
        return any(scope.path == path for scope in await self.budgets.scopes(letter.path, user))


def _address(user: str, parent: str | None, kind: str) -> str:
    """Return the path that has a user's budget: below others that at which they are talked with."""
    return f"/{user}" if parent is None or kind == "group" else f"/{parent}/{Kind.SUBUSER}/{user}"
