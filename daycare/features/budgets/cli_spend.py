"""The command `spend`: what calls of models took, as a table, and as a picture in the terminal."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date, timedelta
from typing import Annotated, Any, Final

import msgspec
import typer

from daycare.api.client import Json
from daycare.base.budget import Measure, Use, agent_of, shown_amount
from daycare.base.durations import duration
from daycare.base.errors import InvalidError
from daycare.base.limits import SPEND_DAYS_MAX
from daycare.cli.command import Cli, command
from daycare.cli.render import table
from daycare.features.budgets.records import Spent

_BARS: Final = " ▁▂▃▄▅▆▇█"
_PLOT_ROWS_MAX: Final = 20  # the rest is one line
_PLOT_DAYS_MAX: Final = 62  # as columns of a terminal
_BAR_CELLS: Final = 40
Key = Callable[[Spent], str]
_KEYS: Final[dict[str, Key]] = {
    "agent": lambda each: agent_of(each.path),
    "path": lambda each: each.path,
    "day": lambda each: each.key,
    "model": lambda each: f"{each.provider}/{each.model}",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, "spend", examples="daycare spend --by model --days 30\ndaycare spend --path /ann --plot")(spend)


def spend(
    cli: Cli,
    *,
    by: Annotated[str, typer.Option(metavar="agent|day|model|path", help="What each line is about.")] = "agent",
    days: Annotated[int, typer.Option(help="So many days, today included.", min=1, max=SPEND_DAYS_MAX)] = 7,
    path: Annotated[str, typer.Option(metavar="PATH", help="Only what this path and all below it spent.")] = "/",
    plot: Annotated[bool, typer.Option("--plot", help="Draw it by day.")] = False,
) -> None:
    """Show what calls of models took: money, tokens, calls and time, by agent, day or model.

    A day is that of the calendar of whose agent it is. Helpers count for their agent; `--by path` shows each.
    """
    if by not in _KEYS:
        raise InvalidError("USAGE", f"show what was spent by {by}: expected one of {', '.join(_KEYS)}")
    with cli.connect() as client:
        found = client.call("GET", "/v1/spend", days=days, path=path)
    cli.out(found, lambda document: picture(document, by) if plot else listing(document, by))


def listing(document: Json, by: str) -> str:
    """Return sums as a table, the dearest first (days: the newest), with what has to be said of them."""
    rows = _rows(document)
    if not rows:
        return f"nothing was spent in {document['days']} days"
    sums = _sums(rows, _KEYS[by])
    order = (
        sorted(sums, reverse=True) if by == "day" else sorted(sums, key=lambda key: _weight(sums[key]), reverse=True)
    )
    lines = [(key, *_cells(sums[key])) for key in order]
    if len(lines) > 1:
        lines.append(("all", *_cells(rows)))
    grid = table((by, "cost#", "read#", "written#", "calls#", "time#"), lines)
    return "\n".join([str(grid), *remarks(rows)])


def picture(document: Json, by: str) -> str:
    """Return a picture: a line for each agent or model and a column for each day, or a bar for each day."""
    rows = _rows(document)
    if not rows:
        return f"nothing was spent in {document['days']} days"
    measure: Measure = "usd" if any(each.use.usd for each in rows) else "tokens"
    days = _days(document)
    drawn = _bars(rows, days, measure) if by == "day" else _matrix(rows, days[-_PLOT_DAYS_MAX:], measure, _KEYS[by])
    return "\n".join([*drawn, *remarks(rows)])


def remarks(rows: Sequence[Spent]) -> list[str]:
    """Return what has to be said, so that nobody takes the sums for more than they are."""
    lines = []
    unpriced = sorted({f"{each.provider}/{each.model}" for each in rows if each.unpriced})
    if unpriced:
        lines.append(f"price unknown: {', '.join(unpriced)}; they count 0 dollars, see daycare models")
    if unsettled := sum(each.unsettled for each in rows):
        cost = shown_amount("usd", sum(each.unsettled_micros for each in rows))
        lines.append(f"unsettled: {unsettled} calls were cut off and count in full as reserved ({cost} of the above)")
    return lines


def _matrix(rows: Sequence[Spent], days: Sequence[str], measure: Measure, key: Key) -> list[str]:
    cells: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for each in rows:
        cells[key(each)][each.key] += each.use.of(measure)
    order = sorted(cells, key=lambda name: sum(cells[name].values()), reverse=True)
    most = max((amount for line in cells.values() for amount in line.values()), default=0)
    width = max(len(name) for name in order[:_PLOT_ROWS_MAX])
    lines = [
        f"{name:<{width}} │{''.join(_block(cells[name][day], most) for day in days)}│ "
        f"{shown_amount(measure, sum(cells[name].values()))}"
        for name in order[:_PLOT_ROWS_MAX]
    ]
    if len(order) > _PLOT_ROWS_MAX:
        lines.append(f"and {len(order) - _PLOT_ROWS_MAX} more")
    lines.append(f"{'':<{width}}  {days[0]} to {days[-1]}, █ is {shown_amount(measure, most)} a day")
    return lines


def _bars(rows: Sequence[Spent], days: Sequence[str], measure: Measure) -> list[str]:
    sums = {day: sum(each.use.of(measure) for each in rows if each.key == day) for day in days}
    most = max(sums.values())
    return [f"{day} {_bar(sums[day], most):<{_BAR_CELLS}} {shown_amount(measure, sums[day])}" for day in days]


def _bar(amount: int, most: int) -> str:
    eighths = round(8 * _BAR_CELLS * amount / most) if most else 0
    eighths = max(eighths, int(amount > 0))
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")


def _block(amount: int, most: int) -> str:
    """Return a column's block: anything spent is seen."""
    return _BARS[max(round(8 * amount / most), 1)] if amount and most else _BARS[0]


def _days(document: Json) -> list[str]:
    last = max([document["today"], *(row["key"] for row in document["spent"])])
    return [(date.fromisoformat(last) - timedelta(days=back)).isoformat() for back in range(document["days"])][::-1]


def _rows(document: Json) -> list[Spent]:
    return msgspec.convert(document["spent"], list[Spent])


def _sums(rows: Iterable[Spent], key: Key) -> dict[str, list[Spent]]:
    found: dict[str, list[Spent]] = defaultdict(list)
    for each in rows:
        found[key(each)].append(each)
    return found


def _weight(rows: Sequence[Spent]) -> tuple[int, int]:
    use = sum((each.use for each in rows), Use())
    return use.usd, use.tokens


def _cells(rows: Sequence[Spent]) -> tuple[Any, ...]:
    use = sum((each.use for each in rows), Use())
    unknown = use.usd == 0 and any(each.unpriced for each in rows)
    return (
        "unknown" if unknown else shown_amount("usd", use.usd),
        f"{sum(each.input_tokens for each in rows):,}",
        f"{sum(each.output_tokens for each in rows):,}",
        f"{use.calls:,}",
        duration(use.minutes / 1000),
    )
