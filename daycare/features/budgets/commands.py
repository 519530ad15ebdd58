"""The chat commands `/spend`, what was spent here, and `/budget`, what may be, with the way to raise it."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from daycare.actors.lifecycle import Activation
from daycare.agent.commands import Command, CommandAnswer, Commands, who_asks
from daycare.base.budget import EVERYTHING, Measure, Period, limit_name, read_amount, shown_amount, split_name
from daycare.base.errors import InvalidError
from daycare.features.budgets import rules
from daycare.features.budgets.controls import BudgetControls, BudgetView, LimitView
from daycare.features.budgets.records import Spent
from daycare.store.records import Agent, InboxRow
from daycare.store.sqlite.people import PeopleStore

_LINES_MAX: Final = 12  # of agents: a screen of a phone
_HOW: Final = "/budget raise 2 usd today, or /budget raise PATH 2 usd month; /budget set PATH 5 usd day"
_PERIODS: Final[dict[str, Period]] = {"today": "day", "day": "day", "month": "month"}


class BudgetCommands:
    """Answers the two commands. In a chat, people see what is theirs; an operator, in their own, everything."""

    def __init__(self, controls: BudgetControls, people: PeopleStore) -> None:
        self._controls = controls
        self._people = people

    def add_to(self, commands: Commands) -> None:
        """Register them."""
        commands.add("spend", Command("show what was spent", self._spend))
        commands.add("budget", Command("show what may be spent, or raise it [raise 2 usd today]", self._budget))

    async def _spend(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        asker = await who_asks(self._people, row)
        everything = asker is not None and asker.operator and asker.id == agent.user
        subuser = rules.writer_of(agent.path)
        path = EVERYTHING if everything else f"/{agent.user}/subuser/{subuser}" if subuser else f"/{agent.user}"
        today = await self._controls.today(path)
        days = [each for each in await self._controls.spent(1, path) if each.key == today]
        month = await self._controls.month(path)
        lines = [f"today: {_sums(days)}", f"this month: {_sums(month)}"]
        cost: Counter[str] = Counter()
        for each in month:
            cost[each.path] += each.use.usd
        for name, micros in cost.most_common(_LINES_MAX):
            if micros:
                lines.append(f"{name} {shown_amount('usd', micros)}")
        lines += _remarks(month)
        return CommandAnswer("\n".join(lines))

    async def _budget(self, agent: Agent, lane: Activation, row: InboxRow, rest: str) -> CommandAnswer:
        word, _, more = rest.partition(" ")
        if not word:
            return await self._shown(agent)
        if word not in ("raise", "set"):
            return CommandAnswer(f"What about it? {_HOW}.")
        path, measure, amount, period = _read(more)
        if not path:
            path = await self._controls.reached_for(agent.path, measure, period) if word == "raise" else agent.path
        asker = await who_asks(self._people, row)
        if asker is None or not await self._controls.budgets.may_change(asker.id, path):
            return CommandAnswer(f"The budget of {rules.whose(path)} is not yours to change.")
        if word == "set":
            view = await self._controls.put(path, {limit_name(period, measure): amount}, by=asker.id)
            return CommandAnswer(_view(view))
        view, answered = await self._controls.allow_more(path, measure, amount, period, by=asker.id)
        waited = f"\nI answer what waited: {answered} message{'' if answered == 1 else 's'}." if answered else ""
        return CommandAnswer(_view(view) + waited)

    async def _shown(self, agent: Agent) -> CommandAnswer:
        views = [view for view in await self._controls.explained(agent.path) if view.limits]
        if not views:
            return CommandAnswer("Nothing limits what is spent here. /budget set 5 usd day does.")
        return CommandAnswer("\n".join([*map(_view, views), f"To change it: {_HOW}."]))


def _read(text: str) -> tuple[str, Measure, int, Period]:
    """Read `[PATH] AMOUNT [today|day|month]`."""
    words = text.split()
    path = words.pop(0) if words and words[0].startswith("/") else ""
    if words and words[0] == "this":
        words.pop(0)
    period: Period = "day"
    if words and words[-1].lower() in _PERIODS:
        period = _PERIODS[words.pop().lower()]
        if words and words[-1] in ("this", "a", "per"):
            words.pop()
    if not words:
        raise InvalidError("BUDGET_INVALID", "reading what to do with the budget: there is no amount", hint=_HOW)
    return path, *read_amount(" ".join(words)), period


def _view(view: BudgetView) -> str:
    found = [_limit(limit) for limit in view.limits] or ["no limits"]
    return f"{view.path}: {'; '.join(found)}"


def _limit(limit: LimitView) -> str:
    period, measure = split_name(limit.name)
    percent = 100 * limit.used // max(limit.limit, 1)
    used, most = shown_amount(measure, limit.used), shown_amount(measure, limit.limit)
    running = f", {shown_amount(measure, limit.reserved)} reserved by running calls" if limit.reserved else ""
    return f"{used} of {most} {rules.this(period)} ({percent} %{running})"


def _sums(rows: Sequence[Spent]) -> str:
    micros = sum(each.use.usd for each in rows)
    tokens, calls = sum(each.use.tokens for each in rows), sum(each.use.calls for each in rows)
    return f"{shown_amount('usd', micros)}, {shown_amount('tokens', tokens)}, {shown_amount('calls', calls)}"


def _remarks(rows: Sequence[Spent]) -> list[str]:
    """Return what has to be said of the sums, so that nobody takes them for more than they are."""
    lines = []
    unpriced = sorted({f"{each.provider}/{each.model}" for each in rows if each.unpriced})
    if unpriced:
        lines.append(f"Nobody knows the price of {', '.join(unpriced)}: in dollars they count 0.")
    if unsettled := sum(each.unsettled for each in rows):
        lines.append(f"{unsettled} calls were cut off and count in full, as they were reserved.")
    return lines
