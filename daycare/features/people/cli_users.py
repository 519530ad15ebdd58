"""Commands about people: who may write, in which time zone they live, which accounts are theirs."""

from typing import Annotated, Any

import typer

from daycare.api.client import Json, segment
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import table

app = typer.Typer(rich_markup_mode=None)

UserId = Annotated[str, typer.Argument(metavar="ID", help="Id of the user: the first part of their paths.")]
LinkKey = Annotated[str, typer.Argument(metavar="KEY", help="Connector key, such as telegram:42.")]


Under = Annotated[
    str | None, typer.Option(metavar="USER", help="Make them a sub-user of this person, who looks after them.")
]


@default_command(app, examples="daycare users\ndaycare users list --json")
def users(cli: Cli) -> None:
    """List people, or work on one of them."""
    _list(cli)


@command(app, "list", examples="daycare users list\ndaycare users list --json")
def list_(cli: Cli) -> None:
    """List people and groups."""
    _list(cli)


@command(
    app, "add", examples="daycare users add ben --name Ben --zone Europe/Berlin\ndaycare users add mia --under ann"
)
def add(
    cli: Cli,
    id_: UserId,
    *,
    name: Annotated[str, typer.Option(help="What to call them; default: the id.")] = "",
    zone: Annotated[str, typer.Option(help="IANA time zone, such as Europe/Berlin.")] = "UTC",
    operator: Annotated[bool, typer.Option("--operator", help="They own this installation.")] = False,
    under: Under = None,
) -> None:
    """Add a person.

    A sub-user (--under) talks to an agent of their own, /OWNER/subuser/ID, over every account, with a memory and a
    budget of their own. Neither reads what the other keeps.
    """
    body: Json = {"id": id_, "name": name or id_, "zone": zone, "operator": operator}
    body |= {"under": under} if under else {}
    with cli.connect() as client:
        cli.out(client.call("POST", "/v1/users", body), lambda _: f"added {id_}")


@command(app, "link", examples="daycare users link ann telegram:42")
def link(cli: Cli, id_: UserId, key: LinkKey) -> None:
    """Say that an account of a connector is this person."""
    with cli.connect() as client:
        cli.out(client.call("POST", f"/v1/users/{segment(id_)}/links", {"key": key}), lambda _: f"{key} is {id_}")


@command(app, "unlink", examples="daycare users unlink telegram:123456")
def unlink(cli: Cli, key: LinkKey) -> None:
    """Take an account from its person: it is a stranger's again."""
    with cli.connect() as client:
        cli.out(client.call("DELETE", f"/v1/links/{segment(key)}"), lambda _: f"{key} is nobody now")


@command(app, "remove", examples="daycare users remove ben")
def remove(cli: Cli, id_: UserId) -> None:
    """Remove a person or a group with everybody below them, such as topics and sub-users.

    Their accounts are strangers' from then on. Their agents, jobs, tasks and reminders end, what waits for an answer
    becomes dead letters. What was said stays: `daycare purge ID` removes that, too.
    """
    with cli.connect() as client:
        cli.out(client.call("DELETE", f"/v1/users/{segment(id_)}"), lambda done: _removed(id_, done))


def users_table(document: Json) -> Any:
    """Return people as a table."""
    rows = (
        (
            each["id"],
            each["name"],
            each.get("zone", "UTC"),
            _is(each),
            " ".join(each.get("keys", ())),
        )
        for each in document["users"]
    )
    return table(("id", "name", "zone", "is", "accounts"), rows) if document["users"] else "no users"


def _removed(id_: str, document: Json) -> str:
    below = document.get("below", ())
    return f"removed {id_}" + (f", and below: {', '.join(below)}" if below else "")


def _is(user: Json) -> str:
    if user.get("operator"):
        return "operator"
    kind = str(user.get("kind", "person"))
    return f"{kind} of {user['parent']}" if user.get("parent") else kind


def _list(cli: Cli) -> None:
    with cli.connect() as client:
        cli.out({"users": client.listed("/v1/users", "users", "id")}, users_table)
