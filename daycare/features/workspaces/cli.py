"""Commands about the files of workspaces: what is there, what was changed, take it back."""

from typing import Any

import typer

from daycare.api.client import Json
from daycare.base.times import when
from daycare.cli.command import Cli, default_command
from daycare.cli.operations import operation
from daycare.cli.render import table
from daycare.features.workspaces import operations as ops

app = typer.Typer(rich_markup_mode=None)


@default_command(app, examples="daycare workspace list /ann/direct\ndaycare workspace history /ann/direct")
def workspace(cli: Cli) -> None:
    """Look into the workspaces of agents, and take changes back."""
    with cli.connect() as client:
        agents = client.listed("/v1/agents", "agents", "path")
    found = [each for each in agents if each["config"].get("workspace")]
    rows = [(each["path"], each["config"]["workspace"], each["config"].get("access") or "limited") for each in found]
    cli.out(
        {"agents": found},
        lambda _: table(("agent", "workspace", "access"), rows) if rows else "no agent has a workspace",
    )


def _files(document: Json) -> Any:
    rows = [
        (f"{each['path']}/" if each["kind"] == "folder" else each["path"], each["size"]) for each in document["files"]
    ]
    return table(("file", "bytes#"), rows) if rows else f"nothing is in {document['folder']}"


def _changes(document: Json) -> Any:
    rows = [
        (each["no"], when(each["created_at"]), each["file"], each["path"], each["size"], _told(each))
        for each in document["changes"]
    ]
    return table(("change#", "at", "file", "by", "bytes#", ""), rows) if rows else "no changes"


def _told(change: Json) -> str:
    if change["undone_at"]:
        return f"undone {when(change['undone_at'])}"
    return "new" if not change["before_hash"] else "" if change["after_hash"] else "deleted"


operation(app, "list", ops.ListFiles, _files, examples="daycare workspace list /ann/direct --deep")
operation(app, "history", ops.FileHistory, _changes, examples="daycare workspace history /ann/direct")
operation(
    app,
    "undo",
    ops.UndoFile,
    lambda it: f"{it['file']} is as it was before change {it['no']}",
    examples="daycare workspace undo /ann/direct 12",
)
