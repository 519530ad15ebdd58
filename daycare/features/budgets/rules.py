"""Budgets decided: which limits bind a call, and what is to be said of them. Pure functions over what is stored.

A call counts for its own path and for everything above: `/ann/telegram/sub/0`, `/ann/telegram`, `/ann`, users above
Ann, `/`. The tightest limit decides. What works in the background may use BUDGET_WARN_SHARE of a limit that it shares
with people's conversations: so it stops first, when people are told that a budget nears its end.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from daycare.base.budget import (
    EVERYTHING,
    GROUPS,
    LIFTED,
    UNITS,
    Limits,
    Period,
    Use,
    as_written,
    ends_ms,
    key_of,
    shown_amount,
    split_name,
    zone_of,
)
from daycare.base.limits import BUDGET_WARN_SHARE
from daycare.base.path import Kind
from daycare.base.times import local_time
from daycare.features.budgets.records import BudgetRow, BudgetStanding, Ceiling
from daycare.inference.catalog import ModelFacts

BUDGET_CALL_S: Final = 60.0  # of model time reserved for a call: few take longer

_ANSWER_MIN_TOKENS: Final = 256  # a paragraph: what is shorter is not worth what reading the prompt costs
_BACKGROUND: Final = (Kind.CRON, Kind.TASK)


class Scope(NamedTuple):
    """A path with a budget, and what it may use as it is today: by limit, in whole units."""

    path: str
    limits: Limits


def scopes_of(path: str) -> list[str]:
    """Return a path and those above it up to its user, the nearest first: `/ann/agent/x`, `/ann/agent`, `/ann`."""
    segments = path.strip("/").split("/")
    return ["/" + "/".join(segments[:count]) for count in range(len(segments), 0, -1) if segments[0]]


def is_background(path: str) -> bool:
    """Return whether nobody waits for what is done here: cron jobs, tasks, the system, memory workers."""
    segments = path.strip("/").split("/")
    if segments[0] == "system":
        return True
    named = len(segments) == 3 and segments[1] in GROUPS
    return (len(segments) > 1 and segments[1] in _BACKGROUND) or (segments[-1] == Kind.MEMORY and not named)


def is_subusers(path: str) -> bool:
    """Return whether a path is that of a sub-user, `/ann/subuser/bob`."""
    segments = path.strip("/").split("/")
    return len(segments) == 3 and segments[1] == Kind.SUBUSER


def writer_of(path: str) -> str:
    """Return the sub-user who talks to an agent at or above a path, "" if it is none's."""
    segments = path.strip("/").split("/")
    return segments[2] if len(segments) >= 3 and segments[1] == Kind.SUBUSER else ""


def effective(row: BudgetRow | None, default: Limits, day: str) -> dict[str, int]:
    """Return the limits that hold on a day: what was set, else the default, with what was added for that time."""
    limits = dict(default) | (row.limits if row else {})
    held = {name: limit for name, limit in limits.items() if limit != LIFTED}
    for name in held:
        period, _ = split_name(name)
        added = row.raises.get(key_of(period, day), {}).get(name, 0) if row else 0
        held[name] += added
    return held


def ceilings_of(scopes: Iterable[Scope], day: str, most: Use, *, background: bool = False) -> list[Ceiling]:
    """Return what must not be reached for a call that takes `most`: limits in measures of which it takes nothing
    do not bind it, so that a free model answers when the money is used up.
    """
    found = []
    for scope, limits in scopes:
        share = BUDGET_WARN_SHARE if background and not is_background(scope) else 1.0
        for name, limit in limits.items():
            period, measure = split_name(name)
            if most.of(measure) > 0:
                found.append(
                    Ceiling(
                        path=scope,
                        name=name,
                        key=key_of(period, day),
                        measure=measure,
                        most=int(limit * share),
                        limit=limit,
                    )
                )
    return found


def may_bind(scopes: Sequence[Scope], facts: ModelFacts) -> bool:
    """Return whether any limit can bind a call, without looking at it: money does not where there is no price."""
    measures = {split_name(name)[1] for scope in scopes for name in scope.limits}
    return bool(measures - {"usd"}) or (bool(measures) and facts.most_micros(1_000_000, 1_000_000) > 0)


def most_of(facts: ModelFacts, read: int, wrote: int) -> Use:
    """Return what a call takes at most."""
    return Use(usd=facts.most_micros(read, wrote), tokens=read + wrote, calls=1, minutes=int(1000 * BUDGET_CALL_S))


def fitting(facts: ModelFacts, read: int, wrote: int, standings: Sequence[BudgetStanding]) -> int | None:
    """Return how long an answer may be that what is left has room for, None if none is worth the call.

    What calls that run have reserved counts as left: it is waited for. Other limits a shorter answer does not help.
    """
    fits = wrote
    price = facts.most_micros(0, 1_000_000) / 1_000_000
    for it in standings:
        room = it.ceiling.most - it.used
        match it.ceiling.measure:
            case "tokens":
                fits = min(fits, room - read)
            case "usd" if price > 0:
                fits = min(fits, math.floor((room - 1 - facts.most_micros(read, 0)) / price))
            case _ if it.used_up:
                return None
    return fits if _ANSWER_MIN_TOKENS <= fits < wrote else None


def tightest(standings: Sequence[BudgetStanding]) -> BudgetStanding | None:
    """Return the ceiling that stops a call, None if there is room: of several the one that will stop it longest."""
    reached = [standing for standing in standings if standing.reached]
    if not reached:
        return None
    return max(reached, key=lambda it: (it.used_up, it.ceiling.name.startswith("month"), len(it.ceiling.path)))


def near_end(standings: Iterable[BudgetStanding]) -> list[BudgetStanding]:
    """Return the ceilings of which people are to be told that little is left."""
    return [it for it in standings if it.used >= BUDGET_WARN_SHARE * it.ceiling.limit]


def may_change(user: str, path: str, row: BudgetRow | None, *, operator: bool, parents: Mapping[str, str]) -> bool:
    """Return whether a person may change what a path may use.

    An operator may always. Others may below their own user, and for users below theirs, but for what somebody else has
    set: who gave a budget decides on it.
    """
    if operator:
        return True
    segments = path.strip("/").split("/")
    below = segments[0] == user and len(segments) > 1
    above = parents.get(segments[0]) == user
    return (below or above) and (row is None or row.set_by == user)


# -- words -------------------------------------------------------------------------------------------------------------


def whose(path: str) -> str:
    """Return what a budget's path is called in a sentence."""
    return "this installation" if path == EVERYTHING else path


def period_of(name: str) -> Period:
    """Return the period of a limit by its name."""
    return split_name(name)[0]


def this(period: Period) -> str:
    """Return how a period is spoken of while it lasts."""
    return "today" if period == "day" else "this month"


def until_words(period: Period, day: str, zone: str, now_ms: int) -> str:
    """Return when a budget begins anew, in its user's zone: `until 00:00`, `until 1 December, 00:00`."""
    ends = local_time(ends_ms(period, day, zone), zone_of(zone))
    now = local_time(now_ms, zone_of(zone))
    if (ends - now).total_seconds() <= 86_400:
        return f"until {ends:%H:%M}"
    return f"until {ends.day} {ends:%B}, {ends:%H:%M}"


def used_up_words(standing: BudgetStanding, until: str) -> str:
    """Return the sentence that says that a budget is used up."""
    it = standing.ceiling
    period, measure = split_name(it.name)
    if standing.used < it.most:
        left, most = shown_amount(measure, it.most - standing.used), shown_amount(measure, standing.asked)
        return (
            f"The budget of {whose(it.path)} for {this(period)}, {shown_amount(measure, it.limit)}, has {left} left,"
            f" and the next call may take {most}: none is made {until}"
        )
    what = f"The budget of {whose(it.path)} for {this(period)}, {shown_amount(measure, it.limit)}, is used"
    if it.most == it.limit:
        return f"{what} up {until}"
    return f"{what} to {round(100 * BUDGET_WARN_SHARE)} %, and {until} the rest is for what people write"


def near_end_words(standing: BudgetStanding) -> str:
    """Return the sentence that says that little is left of a budget."""
    it = standing.ceiling
    period, measure = split_name(it.name)
    percent = 100 * standing.used // max(it.limit, 1)
    used, limit = shown_amount(measure, standing.used), shown_amount(measure, it.limit)
    return f"{used} of {limit} ({percent} %) of the budget of {whose(it.path)} for {this(period)} are used."


def raise_words(standing: BudgetStanding) -> str:
    """Return what stands behind `/budget raise` to have as much once more: `2 usd today`."""
    it = standing.ceiling
    period, measure = split_name(it.name)
    return f"{as_written(measure, it.limit or UNITS[measure])} {this(period).removeprefix('this ')}"
