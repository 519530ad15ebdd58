"""Commands that let people in: who wrote, and the code that makes a stranger somebody."""

import sys
import time
from typing import Annotated, Any

import typer

from daycare.api.client import Client, Json
from daycare.base.durations import duration
from daycare.base.times import when
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import one_line, plain, table
from daycare.features.people.cli_users import Under

app = typer.Typer(rich_markup_mode=None)

Code = Annotated[str, typer.Argument(metavar="CODE", help="The code that they were shown, such as 7KQM-2XDA.")]


@default_command(app, examples="daycare pair\ndaycare pair approve 1234-5678")
def pair(cli: Cli) -> None:
    """List strangers who wrote, let one in, or turn them away."""
    _list(cli)


@command(app, "list", examples="daycare pair list --json | jq .pairings")
def list_(cli: Cli) -> None:
    """List those who wrote and are nobody's account yet, the last first. Codes are not shown: only hashes are kept."""
    _list(cli)


@command(
    app,
    "approve",
    examples="daycare pair approve 7KQM-2XDA\ndaycare pair approve 7kqm2xda --as ann  # another account of ann's",
)
def approve(
    cli: Cli,
    code: Code,
    *,
    as_: Annotated[
        str | None,
        typer.Option("--as", metavar="USER", help="Who it is: a user, added if there is none of that id."),
    ] = None,
    name: Annotated[str, typer.Option(help="What to call a new user; default: what they call themselves.")] = "",
    under: Under = None,
) -> None:
    """Let the person or group with this code in, and greet them.

    In a terminal it asks who that is, unless --as says so. Otherwise they become a new user, with an id made of their
    name. A group is always a user of its own.
    """
    with cli.connect() as client:
        if as_ is None and not cli.json and sys.stdin.isatty() and sys.stdout.isatty():
            as_ = _ask(client, code)
        wish = {"code": code, "user": as_, "name": name, "under": under}
        done = client.call("POST", "/v1/pairings/approve", {key: value for key, value in wish.items() if value})
        cli.out(done, approved)


@command(app, "deny", examples="daycare pair deny 7KQM-2XDA\ndaycare pair deny telegram:42")
def deny(
    cli: Cli,
    who: Annotated[str, typer.Argument(metavar="CODE_OR_KEY", help="Their code, or their account: telegram:42.")],
) -> None:
    """Turn somebody away: what they write is counted, and they are shown no more codes."""
    body = {"key" if ":" in who else "code": who}
    with cli.connect() as client:
        cli.out(client.call("POST", "/v1/pairings/deny", body), lambda each: f"{_called(each)} is shown no more codes")


def pairings_table(document: Json) -> Any:
    """Return strangers as a table."""
    rows = (
        (
            each["key"],
            one_line(each["name"], 40),
            each["kind"],
            each["knocks"],
            when(each["first_at"]),
            when(each["last_at"]),
            _code(each),
        )
        for each in document["pairings"]
    )
    head = ("account", "name", "is a", "messages#", "since", "last", "code")
    return table(head, rows) if document["pairings"] else "no stranger wrote"


def approved(done: Json) -> str:
    """Return what became of an approval."""
    user = done["user"]
    new = " (new)" if done["created"] else ""
    greeting = "they are told" if done["welcomed"] else "they could not be told: let them write again"
    return plain(f"{done['key']} is {user['id']}{new}, and talks to {done['path']}; {greeting}")


def _ask(client: Client, code: str) -> str:
    """Ask whose code it is, and return the id of the user to be. Ctrl-C or Ctrl-D lets nobody in."""
    stranger = client.call("POST", "/v1/pairings/look", {"code": code})
    kind = stranger["kind"]
    known = [user for user in client.listed("/v1/users", "users", "id") if user.get("kind", "person") == kind]
    known.sort(key=lambda user: (not user.get("operator"), user["id"]))
    count = f"{stranger['knocks']} message{'' if stranger['knocks'] == 1 else 's'}"
    print(plain(f"{_called(stranger)}, a {kind}, {count} since {when(stranger['first_at'])}."))
    print("Who is it?" if kind == "person" else "Which group is it?")
    for number, user in enumerate(known, 1):
        print(
            plain(f"  {number}  {'you, ' if user.get('operator') else ''}{user['id']} ({one_line(user['name'], 40)})")
        )
    print("  n  somebody new" if kind == "person" else "  n  a new one")
    while True:
        chosen = _read("[n] ") or "n"
        if chosen == "n":
            return _read(f"Id of the new user [{stranger['suggested']}]: ") or str(stranger["suggested"])
        if chosen.isdecimal() and 1 <= int(chosen) <= len(known):
            return str(known[int(chosen) - 1]["id"])
        if chosen in [user["id"] for user in known]:
            return chosen
        print("Type one of the numbers, or n.")


def _read(question: str) -> str:
    try:
        return input(question).strip()
    except EOFError:
        raise typer.Abort from None


def _called(each: Json) -> str:
    name = one_line(each["name"], 40)
    return plain(f"{name}, {each['key']}" if name else each["key"])


def _code(each: Json) -> str:
    if each["denied"]:
        return "denied"
    left_s = each["code_until"] / 1000 - time.time()
    return f"valid for {duration(left_s)}" if each["code_valid_s"] and left_s > 0 else "none is valid"


def _list(cli: Cli) -> None:
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/pairings"), pairings_table)
