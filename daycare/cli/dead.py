"""Commands about dead letters: messages and replies that were given up on."""

import json
import re
from typing import Annotated, Any

import typer

from daycare.api.client import Client, Json
from daycare.base.errors import InvalidError
from daycare.base.times import when
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import one_line, pairs, table

app = typer.Typer(rich_markup_mode=None)

_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400}
OfPath = Annotated[str | None, typer.Option(help="Only those of this agent.")]
OfCode = Annotated[str | None, typer.Option(metavar="CODE", help="Only those given up with this error.")]
Numbers = Annotated[
    list[int] | None, typer.Argument(metavar="[NO...]", help="Numbers of dead letters.", show_default=False)
]
Before = Annotated[int | None, typer.Option(metavar="NO", help="Only older ones than this.")]
Limit = Annotated[int, typer.Option(help="At most so many.", min=1)]


@default_command(app, examples="daycare dead\ndaycare dead show 12")
def dead(cli: Cli) -> None:
    """List, show, replay or prune dead letters: what was given up on, and why."""
    _list(cli, None, None, 50)


@command(app, "list", examples="daycare dead list --path /ann/direct")
def list_(cli: Cli, *, path: OfPath = None, before: Before = None, limit: Limit = 50) -> None:
    """List dead letters, newest first."""
    _list(cli, path, before, limit)


@command(app, "show", examples="daycare dead show 12")
def show(cli: Cli, no: Annotated[int, typer.Argument(metavar="NO", help="Number of the dead letter.")]) -> None:
    """Show one dead letter with its reason and content."""
    with cli.connect() as client:
        cli.out(client.call("GET", f"/v1/dead/{no}"), letter_facts)


@command(app, "replay", examples="daycare dead replay 12 13 14\ndaycare dead replay --code PROVIDER_DOWN")
def replay(cli: Cli, numbers: Numbers = None, *, path: OfPath = None, code: OfCode = None) -> None:
    """Queue dead letters again, after what made them fail is repaired. With --json, one line each."""
    if not numbers and not path and not code:
        raise InvalidError("USAGE", "replay dead letters: nothing says which", hint="daycare dead replay --help")
    with cli.connect() as client:
        if path or code:
            _replay_all(cli, client, {"numbers": numbers or (), "path": path, "code": code})
            return
        for no in numbers or ():
            queued = client.call("POST", f"/v1/dead/{no}/replay")
            cli.out({"no": no} | queued, lambda done: f"dead letter {done['no']} is queued again as {done['seq']}")


@command(app, "prune", examples="daycare dead prune --older-than 30d\ndaycare dead prune 12 13")
def prune(
    cli: Cli,
    numbers: Numbers = None,
    *,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Only those older: 12h, 30d, 8w.")
    ] = None,
    path: OfPath = None,
    code: OfCode = None,
) -> None:
    """Delete dead letters: those that are older, chosen ones, or all of an agent or an error."""
    if not (numbers or older_than or path or code):
        raise InvalidError("USAGE", "prune dead letters: nothing says which", hint="daycare dead prune --help")
    body: Json = {name: value for name, value in (("numbers", numbers), ("path", path), ("code", code)) if value}
    body |= {"older_than_s": read_age(older_than)} if older_than else {}
    with cli.connect() as client:
        done = client.call("POST", "/v1/dead/prune", body)
    cli.out(done, lambda document: f"deleted {document['deleted']}")


def _replay_all(cli: Cli, client: Client, which: Json) -> None:
    """Queue all that fit, some at a time."""
    after: int | None = 0
    while after is not None:
        done = client.call("POST", "/v1/dead/replay", which | {"after": after})
        for no in done["queued"]:
            cli.out({"no": no}, lambda it: f"dead letter {it['no']} is queued again")
        for refusal in done["refused"]:
            cli.out(refusal, lambda it: f"dead letter {it['no']} is not: {it['reason']}")
        after = done["next"]


def read_age(text: str) -> int:
    """Read a length of time such as `30d` in seconds; the unit must be given."""
    match = re.fullmatch(r"(\d+)([smhdw])", text)
    if not match:
        raise InvalidError("USAGE", f"read the age {text!r}: expected a number and s, m, h, d or w", hint="such as 30d")
    return int(match[1]) * _UNITS[match[2]]


def letters_table(document: Json) -> Any:
    """Return dead letters as a table."""
    letters = document["dead"]
    rows = (
        (
            each["no"],
            when(each["created_at"]),
            each["path"],
            each["source"],
            each["code"],
            one_line(each["reason"]),
            "replayed" if each.get("replayed_at") else "",
        )
        for each in letters
    )
    shown = table(("no#", "at", "path", "was", "code", "reason", ""), rows) if letters else "no dead letters"
    notes = [_dropped(each) for each in document.get("dropped", ())]
    if not notes:
        return shown
    from rich.console import Group  # late: tables alone do not need it

    return Group(shown, *notes)


def _dropped(each: Json) -> str:
    whose = f"of {each['user']}" if each["user"] else "that nobody could read"
    return f"{each['letters']} older ones {whose} made room for newer ones, the last {when(each['last_at'])}"


def letter_facts(letter: Json) -> Any:
    """Return one dead letter with its content."""
    letter = letter.get("letter", letter)  # the API may wrap it
    names = ("no", "path", "user", "source", "seq", "origin", "code", "reason", "attempts", "trace")
    facts = [(name, letter.get(name)) for name in names]
    facts += [
        ("at", when(letter["created_at"])),
        ("replayed", when(letter.get("replayed_at"))),
        ("text", _text(letter["body"])),
    ]
    return pairs(facts)


def _text(body: str) -> str:
    """Return the words of a stored body: an envelope as JSON, or a reply's text."""
    try:
        document = json.loads(body)
    except ValueError:
        return body
    return str(document.get("text", body)) if isinstance(document, dict) else str(document)


def _list(cli: Cli, path: str | None, before: int | None, limit: int) -> None:
    with cli.connect() as client:
        found = client.call("GET", "/v1/dead", path=path, before=before, limit=limit)
    found.setdefault("dead", found.get("letters", found.get("value", [])))
    cli.out(found, letters_table)
