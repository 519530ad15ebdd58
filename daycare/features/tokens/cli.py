"""Commands about tokens of the API: make one, list them, revoke one."""

from typing import Any

import typer

from daycare.api.client import Json
from daycare.base.times import when
from daycare.cli.command import Cli, default_command
from daycare.cli.operations import operation
from daycare.cli.render import table
from daycare.features.tokens.operations import AddToken, ListTokens, RevokeToken

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
            each["user"],
            each["may"],
            "revoked" if each.get("revoked_at") else when(each.get("expires_at")) or "does not expire",
            f"{when(each['used_at'])} from {each['used_from']}" if each.get("used_at") else "never",
        )
        for each in document["tokens"]
    )
    return table(("token", "whose", "may", "until", "last used"), rows)


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
