"""Commands about MCP servers: how they are, what tools they have, and the yes that these need."""

from typing import Annotated, Any, Final

import msgspec
import typer

from daycare.api.client import Json
from daycare.base.errors import InvalidError
from daycare.base.times import when
from daycare.cli import asking
from daycare.cli.command import Cli, command, default_command
from daycare.cli.operations import ask, operation
from daycare.cli.render import one_line, table, visible
from daycare.features.mcp import cli_login
from daycare.features.mcp import operations as ops

app = typer.Typer(rich_markup_mode=None)

POST_S: Final = 660.0  # a question may wait for ten minutes

_WAITING: Final = ("new", "changed")


@default_command(app, examples="daycare mcp\ndaycare mcp approve github")
def mcp(cli: Cli) -> None:
    """List MCP servers, or work with them."""
    with cli.connect() as client:
        cli.out(ask(client, ops.ListMcp()), _servers)


def _servers(document: Json) -> Any:
    rows = [
        (
            each["name"],
            each["state"].replace("_", " "),
            each["offered"],
            each["waiting"],
            one_line(each["where"], 60),
            one_line(each["problem"], 80),
        )
        for each in document["servers"]
    ]
    columns = ("server", "state", "tools#", "to approve#", "where", "problem")
    return table(columns, rows) if rows else "no MCP servers; add [mcp.NAME] to config.toml"


def _tools(document: Json) -> Any:
    return "\n\n".join(map(_told, document["tools"])) or f"{document['server']} has no tools"


def _told(tool: Json) -> str:
    """Return a tool word for word, as a person decides about it."""
    state = f"refused: {tool['refused']}" if tool.get("refused") else tool["state"]
    at = f", approved {when(tool['approved_at'])}" if tool.get("approved_at") else ""
    lines = [f"{tool['tool']} ({state}{at}), called {tool['called']}"]
    lines += [f"  SUSPICIOUS: {each}" for each in tool.get("suspicious", ())]
    if tool.get("before") is not None and tool["state"] == "changed":
        lines += [f"  before: {visible(tool.get('before', ''))}", f"  before: {_json(tool.get('before_schema'))}"]
    return "\n".join([*lines, f"  {visible(tool.get('description', ''))}", f"  {_json(tool.get('schema'))}"])


def _json(schema: Any) -> str:
    return visible(msgspec.json.encode(schema or {}).decode())


operation(app, "show", ops.ShowMcp, _tools, examples="daycare mcp show github")
operation(
    app,
    "test",
    ops.TestMcp,
    lambda it: f"{it['server']} answers after {it['seconds']:.1f} s and has {len(it['tools'])} tools",
    examples="daycare mcp test github",
)


@command(app, "approve", examples="daycare mcp approve github\ndaycare mcp approve github create_issue --yes")
def approve(
    cli: Cli,
    server: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    tools: Annotated[list[str] | None, typer.Argument(metavar="[TOOL]...", show_default=False)] = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Show tools that are new or have changed, word for word, and approve of them.

    Exactly what is shown is approved of. Suspicious ones are left out unless they are named.
    """
    with cli.connect() as client:
        found = ask(client, ops.ShowMcp(server=server))["tools"]
        waiting = [each for each in found if each["state"] in _WAITING]
        wanted = [each for each in waiting if (each["tool"] in tools if tools else not each.get("suspicious"))]
        if missing := set(tools or ()) - {each["tool"] for each in wanted}:
            raise InvalidError(
                "USAGE",
                f"approving of {', '.join(sorted(missing))}: nothing waits there",
                hint=f"daycare mcp show {server}",
            )
        if not yes and wanted:
            _confirm(cli, wanted)
        digests = {each["tool"]: each["digest"] for each in wanted}
        done = (
            ask(client, ops.ApproveMcp(server=server, tools=digests)) if wanted else {"server": server, "tools": found}
        )
    left = len(waiting) - len(wanted)
    more = f"; {left} suspicious or not named: daycare mcp show {server}" if left else ""
    cli.out(done, lambda _: f"approved of {len(wanted)} tools of {server}{more}")


def _confirm(cli: Cli, wanted: list[Json]) -> None:
    if cli.json or not asking.terminal():
        raise InvalidError(
            "USAGE", "approving of tools: nobody can be asked here", hint="--yes, once you have read them"
        )
    for each in wanted:
        print(_told(each), end="\n\n")
    if not asking.yes(f"Approve of these {len(wanted)}?", usual=False):
        raise typer.Abort


operation(
    app,
    "revoke",
    ops.RevokeMcp,
    lambda it: f"{it['revoked']} tools of {it['server']} may not be used any more",
    examples="daycare mcp revoke github\ndaycare mcp revoke github --tool create_issue",
)
operation(
    app,
    "restart",
    ops.RestartMcp,
    lambda it: f"{it['server']} runs again",
    examples="daycare mcp restart github",
)


cli_login.register(app)


@command(app, "serve", examples="daycare mcp serve\ndaycare mcp serve --url https://home.example --token-env TOKEN")
def serve(
    cli: Cli,
    *,
    url: Annotated[str, typer.Option("--url", metavar="URL", help="A daemon elsewhere, in the name of a token.")] = "",
    token_env: Annotated[
        str, typer.Option("--token-env", metavar="VARIABLE", help="The environment variable that holds the token.")
    ] = "",
) -> None:
    """Be an MCP server for another program: stdio, with the tools send, ask, memory_search and list_agents.

    It speaks with the daemon of this home in the name of its operator, or with one elsewhere.
    """
    from daycare.features.mcp.stdio import RemoteDaemon, serve_stdio

    if bool(url) != bool(token_env):
        raise InvalidError(
            "USAGE", "serving: --url and --token-env are given together", hint="daycare mcp serve --help"
        )
    if url:
        with RemoteDaemon(url, token_env) as remote:
            serve_stdio(remote.post)
        return
    with cli.connect(work=True) as client:
        serve_stdio(lambda message: client.call("POST", "/mcp", message, timeout_s=POST_S))
