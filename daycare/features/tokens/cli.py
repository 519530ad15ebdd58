"""Commands about tokens of the API: make one, list them, revoke one; and log a browser in."""

import socket
import sys
from typing import Annotated, Any, Final

import typer

from daycare.api.client import Client, Json
from daycare.base.english import plural
from daycare.base.errors import ConflictError
from daycare.base.times import when
from daycare.cli.command import Cli, command, default_command
from daycare.cli.operations import ask, operation
from daycare.cli.render import table
from daycare.features.tokens.operations import (
    API_CLOSED,
    AddToken,
    LinkBrowser,
    ListTokens,
    LogOutBrowsers,
    RevokeToken,
)

USUAL_PORT: Final = 8686
PORTS_TRIED: Final = 10  # another home of the same machine may have the first

app = typer.Typer(rich_markup_mode=None)


@default_command(app, examples="daycare tokens\ndaycare tokens add laptop --may operator")
def tokens(cli: Cli) -> None:
    """List tokens of the API, or work with them."""
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/tokens"), tokens_table)


def tokens_table(document: Json) -> Any:
    """Return tokens as a table."""
    if not document["tokens"]:
        return "no tokens"
    rows = (
        (
            each["name"],
            each["kind"],
            each["user"],
            f"{each['may']} {each['paths']}".rstrip(),
            "revoked" if each.get("revoked_at") else when(each.get("expires_at")) or "does not expire",
            f"{when(each['used_at'])} from {each['used_from']}" if each.get("used_at") else "never",
        )
        for each in document["tokens"]
    )
    return table(("token", "kind", "whose", "may", "until", "last used"), rows)


def _made(document: Json) -> str:
    whose = f"This is the token {document['name']} of {document['user']}, shown this once. Programs send it as"
    return f"{document['token']}\n\n{whose}\n  Authorization: Bearer {document['token']}"


operation(
    app,
    "add",
    AddToken,
    _made,
    examples="daycare tokens add laptop --may operator\ndaycare tokens add webui --user ann --days 90",
)
operation(app, "list", ListTokens, tokens_table, examples="daycare tokens list --json | jq '.tokens[] | .name'")
operation(
    app,
    "revoke",
    RevokeToken,
    lambda it: f"revoked: {it['revoked']['name']}",
    examples="daycare tokens revoke laptop",
)


def register(main: typer.Typer) -> None:
    """Add `web` to the commands."""
    command(main, "web", examples="daycare web\ndaycare web --user ann\ndaycare web --revoke")(web)


def web(
    cli: Cli,
    *,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="Whose it is; the operator's without it.")
    ] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Log all browsers out, and make no link.")] = False,
) -> None:
    """Print a link that logs a browser in, once and within five minutes.

    Where no address is set yet, `[api] listen` in config.toml gets one that only this machine reaches. On a new home
    the pages lead through setting it up.

    What is logged in is listed by `daycare tokens list`. It ends after 30 days, with `daycare tokens revoke NAME`, or
    with `--revoke`.
    """
    with cli.connect() as client:
        if revoke:
            cli.out(ask(client, LogOutBrowsers()), _logged_out)
        else:
            cli.out(_link(client, LinkBrowser(user=user)), _linked)


def _link(client: Client, wish: LinkBrowser) -> Json:
    try:
        return ask(client, wish)
    except ConflictError as error:
        if error.code != API_CLOSED:
            raise
    listen = f"127.0.0.1:{_free_port()}"
    client.call("PATCH", "/v1/config", {"changes": {"api": {"listen": listen}}})
    print(f'note: config.toml has listen = "{listen}" below [api] now', file=sys.stderr)
    return ask(client, wish)


def _free_port() -> int:
    """Return the first port of loopback that nobody has, the usual one if all are taken: the daemon says so then."""
    for port in range(USUAL_PORT, USUAL_PORT + PORTS_TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    return USUAL_PORT


def _linked(document: Json) -> str:
    return f"{document['url']}\n\nOpen it within five minutes; it logs one browser in as {document['user']}."


def _logged_out(document: Json) -> str:
    count = len(document["revoked"])
    return f"logged out: {count} {plural('browser', count)}"
