"""Commands about tokens of services: list them, set, check or remove one. A token is never an argument, never shown."""

import sys
from typing import Annotated, Any

import typer

from daycare.api.client import Json, segment
from daycare.base.errors import InvalidError
from daycare.base.limits import SECRET_MAX_CHARS
from daycare.base.secrecy import hide
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import table

app = typer.Typer(rich_markup_mode=None)

Service = Annotated[str, typer.Argument(metavar="SERVICE", help="Whose token it is, such as slack.")]


@default_command(app, examples="daycare credentials\ndaycare credentials set slack")
def credentials(cli: Cli) -> None:
    """List tokens of services, or work with them."""
    _list(cli)


@command(app, "list", examples="daycare credentials list --json | jq '.credentials[] | .service'")
def list_(cli: Cli) -> None:
    """List services, whether there is a token of each, and what it needs."""
    _list(cli)


@command(app, "set", examples="daycare credentials set slack\npass show slack | daycare credentials set slack --stdin")
def set_(
    cli: Cli,
    service: Service,
    *,
    stdin: Annotated[bool, typer.Option("--stdin", help="Read the token from stdin instead of asking for it.")] = False,
) -> None:
    """Keep a token, in place of the one before, once its service has said that it is good."""
    token = (sys.stdin.read(SECRET_MAX_CHARS + 1) if stdin else _ask(service)).strip()
    hide(token)
    with cli.connect() as client:
        done = client.call("POST", _route(service), {"token": token})
    cli.out({"service": service, **done}, lambda _: _told(service, "stored", done))


@command(app, "check", examples="daycare credentials check slack")
def check(cli: Cli, service: Service) -> None:
    """Ask a service whether it still takes the token that is kept."""
    with cli.connect() as client:
        done = client.call("POST", f"{_route(service)}/check")
    cli.out({"service": service, **done}, lambda _: _told(service, "good", done))


@command(app, "remove", examples="daycare credentials remove slack")
def remove(cli: Cli, service: Service) -> None:
    """Delete the token of a service, if there is one."""
    with cli.connect() as client:
        client.call("DELETE", _route(service))
    cli.out({"service": service, "configured": False}, lambda _: f"removed: {service}")


def credentials_table(document: Json) -> Any:
    """Return services as a table."""
    rows = (
        (each["service"], "stored" if each["configured"] else "none", each["shape"], ", ".join(each["scopes"]))
        for each in document["credentials"]
    )
    return table(("service", "token", "looks like", "needs the scopes"), rows)


def _told(service: str, what: str, done: Json) -> str:
    """Return what a service says of a token."""
    who = f" as {done['identity']}" if done["identity"] else ""
    lines = [f"{what}: {service} takes it{who}"]
    if missing := done["missing"]:
        lines.append(f"it lacks the scopes {', '.join(missing)}: give them to the app, and install it again")
    return "\n".join(lines)


def _list(cli: Cli) -> None:
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/credentials"), credentials_table)


def _route(service: str) -> str:
    return f"/v1/credentials/{segment(service)}"


def _ask(service: str) -> str:
    import getpass

    if not sys.stdin.isatty():
        raise InvalidError(
            "USAGE",
            f"ask for the token of {service}: there is no terminal",
            hint=f"daycare credentials set {service} --stdin",
        )
    return getpass.getpass(f"token of {service} (not shown): ")
