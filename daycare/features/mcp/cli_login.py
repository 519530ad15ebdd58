"""Logging in to an MCP server from a terminal: a link to follow, and a port of loopback that the browser comes to."""

import http.server
from functools import partial
from typing import Annotated, Any, Final
from urllib.parse import parse_qs, urlsplit

import typer

from daycare.api.client import Client, Json
from daycare.base.errors import InvalidError, UnavailableError
from daycare.cli.command import Cli, command
from daycare.cli.operations import ask
from daycare.features.mcp import operations as ops

WAITED_S: Final = 280.0  # for a person; the daemon waits for five minutes

_DONE: Final = b"<!doctype html><title>daycare</title><p>Go back to the terminal; this window can be closed.</p>"


def register(app: typer.Typer) -> None:
    """Register the command."""
    command(app, "login", examples="daycare mcp login tracker\ndaycare mcp login tracker --paste")(login)


def login(
    cli: Cli,
    server: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    *,
    paste: Annotated[
        bool, typer.Option("--paste", help="Your browser is on another machine: paste where it ended up.")
    ] = False,
) -> None:
    """Log in to an MCP server that wants it (OAuth): follow the link that is printed.

    The browser comes back to a port of this machine. What the login leaves is kept encrypted.
    """
    came: list[str] = []
    with http.server.HTTPServer(("127.0.0.1", 0), partial(_Back, came)) as back, cli.connect() as client:
        redirect = f"http://127.0.0.1:{back.server_port}/callback"
        begun = ask(client, ops.LoginMcp(server=server, redirect=redirect))
        if begun["link"]:
            print(f"Open this link, and log in:\n\n{begun['link']}\n", flush=True)
            if paste:
                came.append(input("The address that the browser shows then: ").strip())
            back.timeout = WAITED_S
            while not came:
                back.handle_request()
                if not came:
                    raise UnavailableError("MCP_LOGIN", f"logging in to {server}: nobody came back", hint="--paste")
            done = _finished(client, server, came[0])
        else:
            done = ask(client, ops.ShowMcp(server=server))
    cli.out(done, lambda it: f"logged in to {server}, which has {len(it['tools'])} tools: daycare mcp approve {server}")


def _finished(client: Client, server: str, address: str) -> Json:
    given = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
    if "code" not in given:
        why = given.get("error", "there is no code in it")
        raise InvalidError("MCP_LOGIN", f"logging in to {server}: {why}", hint=f"daycare mcp login {server}")
    wish = ops.FinishMcpLogin(
        server=server, code=given["code"], state=given.get("state", ""), issuer=given.get("iss", "")
    )
    return ask(client, wish)


class _Back(http.server.BaseHTTPRequestHandler):
    """Takes the one request with which the browser comes back."""

    def __init__(self, came: list[str], *arguments: Any) -> None:
        self._came = came
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """Take it."""
        if urlsplit(self.path).path == "/callback":
            self._came.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(_DONE)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the path holds the code."""
