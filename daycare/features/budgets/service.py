"""The gate before each call of a model: whether there is budget for it, and who is told when there is not.

What a call may take at most becomes a committed row before the request leaves; charging the call, as soon as it is
answered, settles it.
Where no limit binds, nothing is written before a call.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec
import trio

from daycare.agent import tokens
from daycare.base.bounded import Bounded
from daycare.base.budget import EVERYTHING, LIFTED, Limits, Period, Use, day_of, ends_ms, read_limits
from daycare.base.clock import Clock
from daycare.base.errors import AwayError, BudgetError
from daycare.base.events import BudgetExhausted, BudgetWarned
from daycare.base.limits import BUDGET_TOLD_MAX, BUDGET_WARN_SHARE, CONTEXT_OUTPUT_TOKENS
from daycare.base.messages import Usage
from daycare.base.path import Kind
from daycare.features.budgets import rules
from daycare.features.budgets.records import BudgetNews, BudgetRow, BudgetStanding, NewReservation
from daycare.features.budgets.rows import BudgetRows
from daycare.features.budgets.rules import Scope
from daycare.inference.catalog import ModelFacts
from daycare.inference.metering import Bill, CallGrant, Payer
from daycare.inference.names import ModelChoice
from daycare.observe.bus import Bus
from daycare.plugin import Completion, InferRequest
from daycare.settings import OFFLINE, BudgetsSection, Live
from daycare.store.records import Commit, Spend, User
from daycare.store.retry import with_retry
from daycare.store.sqlite.store import Store

BUDGET_ROOM_S: Final = 60.0  # that a call waits for calls that run to give back what they did not need
BUDGET_LOOK_S: Final = 5.0  # between two looks at it, should nobody have told
BUDGET_USERS_KNOWN_S: Final = 10.0  # for which a user's zone and rank are remembered

_PARENTS_MAX: Final = 16  # users above users that are looked at
_FULL: Final = 100
_ANY: Final = Use(usd=1, tokens=1, calls=1, minutes=1)


class _KnownUser(msgspec.Struct):
    user: User
    until: float  # trio's clock


class NotifyUser(Protocol):
    """Tells a person something; see `Notifier.notify`."""

    async def __call__(self, user: str, text: str, *, topic: str, path: str) -> None: ...  # noqa: D102


class Budgets:
    """Reserves before calls, and knows what limits there are. See `inference.metering.BudgetGate`."""

    def __init__(self, store: Store, notify: NotifyUser, bus: Bus, clock: Clock, live: Live, owner: str) -> None:
        self._people = store.people
        self._rows = store.of(BudgetRows)
        self._notify = notify
        self._bus = bus
        self._clock = clock
        self._owner = owner
        self._by_path: dict[str, BudgetRow] | None = None
        self._changes = 0  # of what is known
        self._users: Bounded[str, _KnownUser] = Bounded(BUDGET_TOLD_MAX)
        self._news = trio.Event()
        self._told: Bounded[tuple[str, str, str, int, int], None] = Bounded(BUDGET_TOLD_MAX)
        self._defaults = live.made(lambda settings: _limits(settings.budgets))  # of whom nothing was set
        live.watch(lambda settings: settings.budgets, self.settled)

    # -- the gate ----------------------------------------------------------------------------------------------------

    async def reserve(
        self, payer: Payer, choice: ModelChoice, facts: ModelFacts, request: InferRequest, ends_at: float
    ) -> CallGrant:
        """Return the number of a committed reservation, 0 if no limit binds this call; see `BudgetGate.reserve`.

        Where a budget has no room for the longest answer, and none is to come, a shorter one is allowed.
        """
        if choice.provider == OFFLINE:
            return CallGrant()
        user = await self._user(payer)
        scopes = await self.scopes(payer.path, user)
        if not rules.may_bind(scopes, facts):
            return CallGrant()
        give_up_at = min(trio.current_time() + BUDGET_ROOM_S, ends_at)
        # As far as can be told before: our estimate, and the longest answer.
        read = math.ceil(tokens.of_request(request) * max(payer.ratio, 1.0))
        wrote = request.max_output_tokens or min(facts.output_tokens, CONTEXT_OUTPUT_TOKENS)
        most = rules.most_of(facts, read, wrote)
        shorter: int | None = None
        background = payer.background or rules.is_background(payer.path)
        while True:
            day = day_of(self._clock.now_ms(), user.zone)
            ceilings = rules.ceilings_of(scopes, day, most, background=background)
            if not ceilings:
                return CallGrant()
            new = NewReservation(
                path=payer.path, user=user.id, day=day, provider=choice.provider, model=choice.model, most=most
            )
            news = self._news
            reserved = await self._rows.reserve(new, ceilings)
            stop = rules.tightest(reserved.standings)
            if stop is None:
                await self._warn(payer, user, day, reserved.standings)
                return CallGrant(reserved.no, shorter)
            # Workers in the background are asked for whole lists and documents: a part of one is no use.
            shorten = stop.used_up and not background
            fits = rules.fitting(facts, read, wrote, reserved.standings) if shorten else None
            if fits is not None:
                wrote = shorter = fits
                most = rules.most_of(facts, read, wrote)
                continue
            if stop.used_up:
                await self._warn(payer, user, day, [it for it in reserved.standings if not it.reached or background])
                await self._refuse(payer, user, day, stop, background=background)
            if trio.current_time() >= give_up_at:
                path = stop.ceiling.path
                raise AwayError(
                    "BUDGET_RESERVED",
                    f"what is left of the budget of {rules.whose(path)} is reserved by calls that run",
                    hint=f"daycare budget explain {path}",
                    retry_after_s=BUDGET_LOOK_S,
                )
            with trio.move_on_at(min(give_up_at, trio.current_time() + BUDGET_LOOK_S)):
                await news.wait()
            scopes = await self.scopes(payer.path, user)

    async def release(self, reservation: int) -> None:
        """The call surely cost nothing."""
        await self._rows.release(reservation)

    async def strand(self, reservation: int) -> None:
        """Nobody knows how the call ended."""
        await self._rows.strand(reservation)

    def counted(self, choice: ModelChoice, request: InferRequest, completion: Completion) -> Usage:
        """Estimate what a call took whose provider counts nothing; the offline one takes nothing."""
        if choice.provider == OFFLINE:
            return completion.usage
        return Usage(tokens.of_request(request), tokens.of_message(completion.message))

    def spend(self, payer: Payer, choice: ModelChoice, bill: Bill) -> Spend | None:
        """Return what charging a call writes; of the offline one, which is free, that is nothing."""
        if choice.provider == OFFLINE:
            return None
        return Spend(
            agent_id=payer.agent_id,
            user=payer.user or self._owner,
            turn=payer.turn,
            provider=choice.provider,
            model=choice.model,
            usage=bill.usage,
            cost_micros=bill.cost_micros,
            priced=bill.priced,
            wall_ms=bill.wall_ms,
            reservation=bill.reservation,
            path=payer.path,
        )

    async def settle(self, payer: Payer, choice: ModelChoice, bill: Bill) -> None:
        """Charge a call."""
        spend = self.spend(payer, choice, bill)
        if spend is not None:
            await with_retry(lambda: self._rows.settle(spend))

    # -- what is known -----------------------------------------------------------------------------------------------

    def committed(self, commit: Commit) -> None:
        """Look again: a commit may have removed people, set limits, or given back what was reserved."""
        news = commit.news_of(BudgetNews) or BudgetNews()
        if commit.people or news.limits:
            self._changes += 1
            self._by_path = None
            self._users.clear()
            self.settled()
        elif news.room:
            self.settled()

    def settled(self) -> None:
        """Something reserved was given back: who waits for room looks again."""
        news, self._news = self._news, trio.Event()
        news.set()

    async def rows(self) -> Mapping[str, BudgetRow]:
        """Return what was set, by path."""
        if self._by_path is not None:
            return self._by_path
        before = self._changes
        found = {row.path: row for row in await self._rows.find()}
        if before == self._changes:  # else something was set while they were read
            self._by_path = found
        return found

    async def scopes(self, path: str, user: User) -> list[Scope]:
        """Return everything a call at a path counts for, the nearest first, with the limits of today."""
        rows = await self.rows()
        day = day_of(self._clock.now_ms(), user.zone)
        found = []
        paths = [*rules.scopes_of(path), *rules.scopes_of(await self._rows.payer_of(path))]
        if user.parent is not None and user.kind == "person":  # all their agents are one with their address
            paths += [f"/{user.id}", *rules.scopes_of(f"/{user.parent}/{Kind.SUBUSER}/{user.id}")]
        for scope in dict.fromkeys(paths):
            found.append(Scope(scope, rules.effective(rows.get(scope), self._default_of(scope, user), day)))
        above = user
        for _ in range(_PARENTS_MAX):
            if above.parent is None:
                break
            above = await self.user(above.parent) or User(id=above.parent, name=above.parent)  # removed: binds as well
            scope = f"/{above.id}"
            found = [it for it in found if it.path != scope]
            found.append(Scope(scope, rules.effective(rows.get(scope), self.default(above), day)))
        found.append(Scope(EVERYTHING, rules.effective(rows.get(EVERYTHING), self._defaults()["everything"], day)))
        return found

    async def is_set(self, path: str, user_id: str) -> bool:
        """Return whether somebody has set a limit at or above a path; defaults of config.toml do not count."""
        user = await self.user(user_id)
        if user is None:
            return False
        rows = await self.rows()
        scopes = [scope.path for scope in await self.scopes(path, user)]
        return any(limit != LIFTED for scope in scopes if scope in rows for limit in rows[scope].limits.values())

    async def why_stopped(self, path: str, user_id: str) -> str:
        """Return why the background may spend nothing at a path now, and until when; "" if it may."""
        user = await self.user(user_id)
        if user is None:
            return "its user is gone"
        now_ms = self._clock.now_ms()
        day = day_of(now_ms, user.zone)
        ceilings = rules.ceilings_of(await self.scopes(path, user), day, _ANY, background=True)
        stop = rules.tightest(await self._rows.standings(ceilings))
        if stop is None or not stop.used_up:
            return ""
        return rules.used_up_words(stop, rules.until_words(rules.period_of(stop.ceiling.name), day, user.zone, now_ms))

    def default(self, user: User) -> Limits:
        """Return what a user may use of whom nothing was set. Users below others use what those may."""
        if user.parent is not None:
            return {}
        if user.operator:
            return self._defaults()["operator"]
        return self._defaults()[user.kind]

    def _default_of(self, scope: str, user: User) -> Limits:
        """Return what holds for a scope below which a user's call is made, as long as nothing was set."""
        if scope == f"/{user.id}":
            return self.default(user)
        return self._defaults()["person"] if rules.is_subusers(scope) else {}

    async def user(self, user_id: str) -> User | None:
        """Return a user, from memory if they were asked for just now."""
        known = self._users.get(user_id)
        if known is None or known.until <= trio.current_time():
            before = self._changes
            user = await self._people.get(user_id)
            if user is None:
                return None
            known = _KnownUser(user, trio.current_time() + BUDGET_USERS_KNOWN_S)
            if before == self._changes:
                self._users[user_id] = known
        return known.user

    async def _user(self, payer: Payer) -> User:
        """Return whose calendar counts: the owner's for what is nobody's."""
        name = payer.user or self._owner
        return await self.user(name) or User(id=name, name=name)

    # -- telling -----------------------------------------------------------------------------------------------------

    async def _warn(self, payer: Payer, user: User, day: str, standings: Sequence[BudgetStanding]) -> None:
        for it in rules.near_end(standings):
            if not await self._first(it, share := round(_FULL * BUDGET_WARN_SHARE)):
                continue
            period = rules.period_of(it.ceiling.name)
            ends = ends_ms(period, day, user.zone)
            self._bus.publish(
                BudgetWarned(
                    at_ms=self._clock.now_ms(),
                    path=payer.path,
                    user=user.id,
                    agent_id=payer.agent_id,
                    trace=payer.trace,
                    budget=it.ceiling.path,
                    name=it.ceiling.name,
                    used=it.used,
                    limit=it.ceiling.limit,
                    share=share,
                    until_ms=ends,
                )
            )
            text = (
                f"{rules.near_end_words(it)} At 100 % I stop"
                f" {rules.until_words(period, day, user.zone, self._clock.now_ms())}; cron jobs and tasks stop now."
            )
            for person in {user.id, *self._responsible(it.ceiling.path)}:
                more = await self._how(person, it, period)
                await self._notify(person, f"{text} {more}", topic=self._topic(it, share), path=payer.path)

    async def _refuse(self, payer: Payer, user: User, day: str, stop: BudgetStanding, *, background: bool) -> None:
        """Raise for a budget that is used up; the first time, whoever answers for it is told."""
        ceiling = stop.ceiling
        period = rules.period_of(ceiling.name)
        now_ms = self._clock.now_ms()
        until = rules.until_words(period, day, user.zone, now_ms)
        words = rules.used_up_words(stop, until)
        ends = ends_ms(period, day, user.zone)
        if ceiling.most == ceiling.limit and await self._first(stop, _FULL):
            self._bus.publish(
                BudgetExhausted(
                    at_ms=now_ms,
                    path=payer.path,
                    user=user.id,
                    agent_id=payer.agent_id,
                    trace=payer.trace,
                    budget=ceiling.path,
                    name=ceiling.name,
                    used=stop.used,
                    limit=ceiling.limit,
                    until_ms=ends,
                )
            )
            answered = set() if background else {user.id}  # they are told by the turn that ends here
            for person in {user.id, *self._responsible(ceiling.path)} - answered:
                how = await self._how(person, stop, period)
                await self._notify(person, f"{words}. {how}", topic=self._topic(stop, _FULL), path=payer.path)
        raise BudgetError(
            "BUDGET_EXHAUSTED",
            words,
            hint=await self._how(rules.writer_of(payer.path) or user.id, stop, period),
            retry_after_s=max((ends - now_ms) / 1000, 0.0),
            brief=f"The budget is still used up {until}: /budget shows it",
        )

    async def _how(self, person: str, it: BudgetStanding, period: Period) -> str:
        """Return what can be done about a budget, for this person to read."""
        path, amount = it.ceiling.path, rules.raise_words(it)
        if await self.may_change(person, path):
            return f"/budget raise {path} {amount} allows as much again."
        others = [await self.user(each) for each in self._responsible(path)]
        name = " or ".join(each.name for each in others if each) or "The operator"
        return f"{name} may raise it: /budget raise {path} {amount}, or daycare budget raise {path} {amount}."

    def _topic(self, it: BudgetStanding, share: int) -> str:
        return f"budget:{it.ceiling.path}:{it.ceiling.name}:{share}"

    def _responsible(self, path: str) -> set[str]:
        """Return who is to know of a budget besides who has used it."""
        segments = path.strip("/").split("/")
        whose = segments[0]
        if not whose or whose == "system" or len(segments) == 1:
            return {self._owner}
        return {whose}

    async def may_change(self, person: str, path: str) -> bool:
        """Return whether a person may change what a path may use."""
        user = await self.user(person)
        if user is None:
            return False
        first = path.strip("/").split("/")[0]
        below = await self.user(first) if first else None
        parents = {first: below.parent} if below is not None and below.parent else {}
        row = (await self.rows()).get(path)
        return rules.may_change(person, path, row, operator=user.operator, parents=parents)

    async def _first(self, it: BudgetStanding, share: int) -> bool:
        """Return whether nobody was told of this yet; it is remembered, also over restarts."""
        ceiling = it.ceiling
        key = (ceiling.path, ceiling.key, ceiling.name, ceiling.limit, share)
        if key in self._told:
            return False
        self._told[key] = None
        return await self._rows.mark(ceiling, share)


def _limits(section: BudgetsSection) -> dict[str, Limits]:
    return {who: read_limits(texts) for who, texts in msgspec.structs.asdict(section).items()}
