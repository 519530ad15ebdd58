"""Commands about budgets: what paths may spend, and who has how much left."""

from typing import Annotated, Any, Final

import typer

from daycare.api.client import Json
from daycare.base.budget import LIFTED, MEASURES, Period, limit_name, read_amount, shown_amount, split_name
from daycare.base.errors import InvalidError
from daycare.base.times import when
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import table

app = typer.Typer(rich_markup_mode=None)

_NONE: Final = "none"
Path = Annotated[str, typer.Argument(metavar="PATH", help="An agent, /ann for all of Ann's, / for everything.")]
Amounts = Annotated[
    list[str] | None,
    typer.Option(metavar="AMOUNT", help="Such as 5usd, 200k tokens, 100calls, 60min; none lifts every limit of it."),
]


@default_command(app, examples="daycare budget\ndaycare budget explain /ann")
def budget(cli: Cli) -> None:
    """Show what everybody may spend and has spent, set it, raise it for a day or a month, and explain it."""
    _list(cli)


@command(app, "list", examples="daycare budget list\ndaycare budget list --json")
def list_(cli: Cli) -> None:
    """List the budgets of the installation, of everybody, and of all paths for which something was set."""
    _list(cli)


@command(app, "explain", examples="daycare budget explain /ann/telegram/sub/0")
def explain(cli: Cli, path: Path) -> None:
    """Show every budget that binds a call of a model at PATH: the tightest decides."""
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/budget", path=path), budgets)


@command(
    app,
    "set",
    examples="""
    daycare budget set /bob --day 5usd --day '2m tokens' --month 50usd
    daycare budget set /ann/cron --day 1usd   # all cron jobs of Ann together
    daycare budget set / --month 100usd       # the whole installation
    daycare budget set /ann --day none        # no limit a day, whatever config.toml says
    """,
)
def set_(cli: Cli, path: Path, *, day: Amounts = None, month: Amounts = None) -> None:
    """Set what PATH and all below it may use in a day and in a month. What is not named stays as it is."""
    limits = _limits("day", day or ()) | _limits("month", month or ())
    if not limits:
        raise InvalidError("USAGE", "set a budget: there is no amount", hint="daycare budget set PATH --day 5usd")
    with cli.connect() as client:
        view = client.call("PUT", "/v1/budget", {"path": path, "limits": limits})
    cli.out(view, lambda document: budgets({"budgets": [document]}))


@command(app, "raise", examples="daycare budget raise /bob 2usd\ndaycare budget raise / '100k tokens' --period month")
def raise_(
    cli: Cli,
    path: Path,
    amount: Annotated[list[str], typer.Argument(metavar="AMOUNT...", help="Such as 2usd, or: 2 usd today.")],
    *,
    period: Annotated[str, typer.Option(metavar="day|month", help="For today, or for this month.")] = "day",
) -> None:
    """Allow so much more for today or this month. What was given up for want of it is answered after all."""
    words = list(amount)
    if words[-1] in ("today", "day", "month"):
        period = "month" if words.pop() == "month" else "day"
    body = {"path": path, "amount": " ".join(words), "period": period}
    with cli.connect() as client:
        done = client.call("POST", "/v1/budget/raise", body)
    cli.out(done, _raised)


@command(app, "rm", examples="daycare budget rm /bob")
def rm(cli: Cli, path: Path) -> None:
    """Forget what was set for PATH: what config.toml gives everybody holds again."""
    with cli.connect() as client:
        done = client.call("DELETE", "/v1/budget", path=path)
    cli.out(done, lambda document: "removed" if document["removed"] else f"nothing was set for {path}")


def budgets(document: Json) -> Any:
    """Return budgets as a table: a line for each limit."""
    rows = []
    for view in document["budgets"]:
        lifted = ", ".join(view["lifted"])
        if not view["limits"]:
            rows.append((view["path"], "no limits", "", "", "", "", f"set: {lifted} lifted" if lifted else ""))
        rows += [(view["path"], *_limit(limit)) for limit in view["limits"]]
    return table(("path", "limit", "used#", "reserved#", "%#", "renews", "from"), rows)


def _limit(limit: Json) -> tuple[str, ...]:
    period, measure = split_name(limit["name"])
    most = f"{shown_amount(measure, limit['limit'])} a {period}"
    if limit["raised"]:
        most += f" ({shown_amount(measure, limit['raised'])} of it for now)"
    percent = 100 * limit["used"] // max(limit["limit"], 1)
    reserved = shown_amount(measure, limit["reserved"]) if limit["reserved"] else ""
    used = shown_amount(measure, limit["used"])
    return most, used, reserved, str(percent), when(limit["until_ms"]), limit["source"]


def _raised(document: Json) -> str:
    count = document["replayed"]
    waited = f"\nanswered after all: {count} message{'' if count == 1 else 's'}" if count else ""
    return f"{budgets({'budgets': [document['budget']]})}{waited}"


def _list(cli: Cli) -> None:
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/budgets"), budgets)


def _limits(period: Period, amounts: tuple[str, ...] | list[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for amount in (part for text in amounts for part in text.split(",")):
        if amount.strip().lower() == _NONE:
            found |= {limit_name(period, measure): LIFTED for measure in MEASURES}
        else:
            measure, most = read_amount(amount)
            found[limit_name(period, measure)] = most
    return found
