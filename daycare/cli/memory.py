"""Commands about memory: the documents that agents and people keep, their versions, and the files in `memory/`."""

import sys
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from daycare.api.client import Client, Json
from daycare.base.errors import ConflictError, InvalidError, NotFoundError
from daycare.base.sizes import size
from daycare.base.times import when
from daycare.cli import memories
from daycare.cli.command import Cli, command, default_command
from daycare.cli.editor import edited, forget, kept_unless_saved, new_file
from daycare.cli.memories import AgentOption
from daycare.cli.render import one_line, plain, table, visible

app = typer.Typer(rich_markup_mode=None)

DocumentPath = Annotated[
    str, typer.Argument(metavar="PATH", help="Such as SOUL.md, knowledge/garden.md, shared/STYLE.md, global/SOUL.md.")
]
Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why; kept with the version.")]

_HASH_CHARS: Final = 12


@default_command(app, examples="daycare memory\ndaycare memory search tea")
def memory(cli: Cli) -> None:
    """List the documents of your own agent, or work on one of them."""
    _list(cli, "", None)


@command(app, "list", examples="daycare memory list\ndaycare memory list knowledge --agent /ann/telegram")
def list_(
    cli: Cli,
    folder: Annotated[
        str, typer.Argument(metavar="[FOLDER]", help="knowledge, skills, daily, workspace, project, shared or global.")
    ] = "",
    *,
    agent: AgentOption = None,
) -> None:
    """List documents with the layer each comes from."""
    _list(cli, folder, agent)


@command(app, "show", examples="daycare memory show MEMORY.md --agent /ann/telegram > memory.md")
def show(
    cli: Cli,
    path: DocumentPath,
    *,
    version: Annotated[int | None, typer.Option(min=1, metavar="N", help="As it was then.")] = None,
    agent: AgentOption = None,
) -> None:
    """Print a document. In a terminal invisible characters are written out, in a pipe it is what is stored."""
    with cli.connect() as client:
        found = client.call("GET", "/v1/memory/document", path=path, version=version, agent=agent)
    if cli.json:
        cli.line(found)
        return
    text = found["text"] or ""
    sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


@command(app, "edit", examples="daycare memory edit SOUL.md\nEDITOR='code --wait' daycare memory edit USER.md")
def edit(cli: Cli, path: DocumentPath, *, agent: AgentOption = None, reason: Reason = "") -> None:
    """Open a document in $VISUAL or $EDITOR, and save it as a new version unless it changed meanwhile.

    Without a prefix it is saved for this agent: a text that comes from shared/ or global/ is copied, and edited there
    if the path says so. What cannot be saved is kept in a file, and the error says where.
    """
    with cli.connect() as client:
        old, base_hash = _to_edit(client, path, agent)
    # No daemon is kept during the edit: it would hold the home for as long as that takes.
    file = new_file(path, old or "")
    new = edited(file)
    if new == (old or ""):
        forget(file)
        cli.out({"changed": False}, lambda _: f"{path} is as it was")
        return
    wish = {"text": new, "base_hash": base_hash, "reason": reason}
    with kept_unless_saved(file), cli.connect() as client:
        done = client.call("PUT", "/v1/memory/document", wish, path=path, agent=agent)
    cli.out(done | {"changed": True}, lambda saved: _saved(saved, path, old, new))


@command(app, "rm", examples="daycare memory rm knowledge/old-plans.md")
def rm(cli: Cli, path: DocumentPath, *, agent: AgentOption = None, reason: Reason = "") -> None:
    """Delete a document of one layer; `daycare memory undo` brings it back."""
    with cli.connect() as client:
        seen = _newest_hash(client, path, agent)
        done = client.call(
            "DELETE", "/v1/memory/document", path=path, agent=agent, base_hash=seen, reason=reason or None
        )
    cli.out(done, lambda each: f"deleted {path}, version {each['version']}; back with: daycare memory undo {path}")


@command(app, "mv", examples="daycare memory mv knowledge/garden.md knowledge/balcony.md")
def mv(
    cli: Cli,
    path: DocumentPath,
    to: Annotated[str, typer.Argument(metavar="TO", help="Its new path; nothing may be there.")],
    *,
    agent: AgentOption = None,
    reason: Reason = "",
) -> None:
    """Give a document another path, also in another layer; its versions stay at the old one."""
    with cli.connect() as client:
        wish = {"to": to, "base_hash": _newest_hash(client, path, agent), "reason": reason}
        done = client.call("POST", "/v1/memory/move", wish, path=path, agent=agent)
    cli.out(done, lambda each: f"{path} is {to} now, version {each['version']}")


@command(app, "export", examples="daycare memory export")
def export(cli: Cli) -> None:
    """Write all documents into the folder memory/ of the home. A file that you changed is never overwritten."""
    with cli.connect() as client:
        cli.out(client.call("POST", "/v1/memory/export", timeout_s=600), exchanged)


@command(app, "import", examples="daycare memory import")
def import_(cli: Cli) -> None:
    """Take in what was changed in the folder memory/, and write there what was changed here.

    What was changed on both sides is shown and left alone; the other text is in NAME.store.md next to it. Merge the
    two, remove that file, and import again.
    """
    with cli.connect() as client:
        done = client.call("POST", "/v1/memory/import", timeout_s=600)
        cli.out(done, exchanged)
    if done["conflicts"]:
        raise ConflictError(
            "MEMORY_CONFLICT",
            f"importing memory: {len(done['conflicts'])} changed on both sides and were left alone",
            hint="merge each file with the one next to it, remove that, then: daycare memory import",
        )


@command(app, "diff", examples="daycare memory diff SOUL.md\ndaycare memory diff SOUL.md 3 7")
def diff(
    cli: Cli,
    path: DocumentPath,
    old: Annotated[int | None, typer.Argument(metavar="[OLD]", min=0, help="A version; 0: before the first.")] = None,
    new: Annotated[int | None, typer.Argument(metavar="[NEW]", min=0, help="Another one.")] = None,
    *,
    agent: AgentOption = None,
) -> None:
    """Show what the newest version changed, or what changed from one to another."""
    with cli.connect() as client:
        found = client.call("GET", "/v1/memory/diff", path=path, agent=agent, old=old, new=new)
    cli.out(found, lambda each: visible(each["diff"].rstrip("\n")) or "no difference")


@command(app, "history", examples="daycare memory history USER.md\ndaycare memory history MEMORY.md --limit 5")
def history(
    cli: Cli,
    path: DocumentPath,
    *,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="How many, the newest first.")] = 50,
    agent: AgentOption = None,
) -> None:
    """List the versions of a document: who wrote each, who approved it, and why."""
    with cli.connect() as client:
        found = client.call("GET", "/v1/memory/history", path=path, agent=agent, limit=limit)
    cli.out(found, lambda each: versions_table(each["versions"]))


@command(app, "undo", examples="daycare memory undo SOUL.md")
def undo(
    cli: Cli,
    path: DocumentPath,
    *,
    version: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only if the newest is this one.")] = None,
    agent: AgentOption = None,
    reason: Reason = "",
) -> None:
    """Make the text before the newest version the newest again; nothing is lost, and it can be undone as well."""
    wish = {"version": version, "reason": reason}
    with cli.connect() as client:
        done = client.call("POST", "/v1/memory/undo", wish, path=path, agent=agent)
    what = "is deleted" if not done["hash"] else "is as before"
    cli.out(done, lambda each: f"{path} {what}, in version {each['version']}")


@command(app, "explain", examples="daycare memory explain SOUL.md --agent /ann/telegram")
def explain(cli: Cli, path: DocumentPath, *, agent: AgentOption = None) -> None:
    """Say from which layer a document comes, and what the other layers have."""
    with cli.connect() as client:
        found = client.call("GET", "/v1/memory/explain", path=path, agent=agent)
    cli.out(found, lambda each: explained(path, each["layers"]))


memories.add_to(app)


def versions_table(versions: list[Json]) -> Any:
    """Return versions as a table."""
    rows = (
        (
            each["version"],
            when(each["created_at"]),
            size(each["size"]) if each["hash"] else "deleted",
            each["by"]["author"],
            each["by"].get("approver"),
            each["by"]["origin"],
            one_line(each["by"].get("reason", ""), 60),
            each["hash"][:_HASH_CHARS],
        )
        for each in versions
    )
    return table(("version#", "when", "size", "author", "approved by", "origin", "reason", "hash"), rows)


def explained(path: str, layers: list[Json]) -> Any:
    """Return which layer a document comes from."""
    if not layers:
        return f"{path} is made when it is read"
    rows = (
        (
            "read" if each["wins"] else "",
            each["layer"],
            each["path"],
            "" if each["newest"] is None else each["newest"]["version"],
            "never had it" if each["newest"] is None else _newest(each["newest"]),
        )
        for each in layers
    )
    return table(("", "layer", "path", "version#", ""), rows)


def exchanged(done: Json) -> str:
    """Return what an export or import came to."""
    lines = [f"folder: {done['folder']}"]
    for word in ("written", "removed", "imported", "deleted"):
        lines += [f"{word}: {file}" for file in done[word]]
    lines += [f"changed on disk, not imported: {file}" for file in done["pending"]]
    lines += [f"left alone: {each['file']}: {each['why']}" for each in done["skipped"]]
    for each in done["conflicts"]:
        lines += [
            f"changed on both sides: {each['file']} (+), and the store's text (-), saved as {each['theirs']}",
            each["diff"].rstrip(),
        ]
    lines.append(f"unchanged: {done['unchanged']}")
    return visible("\n".join(lines))


def documents_table(document: Json) -> Any:
    """Return documents as a table, with a warning when they are many."""
    from rich.console import Group

    rows = (
        (
            each["path"],
            each["layer"],
            each["version"] or "",
            size(each["size"]),
            when(each["updated_at"]) if each["version"] else "",
        )
        for each in document["documents"]
    )
    listed = table(("path", "layer", "version#", "size", "changed"), rows) if document["documents"] else "no documents"
    warning = document["total"]["warning"]
    return Group(listed, "", plain(warning)) if warning else listed


def _list(cli: Cli, folder: str, agent: str | None) -> None:
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/memory", prefix=folder, agent=agent), documents_table)


def _newest_hash(client: Client, path: str, agent: str | None) -> str:
    """Return the hash of what a change of a path would concern, empty if there is nothing."""
    layers = client.call("GET", "/v1/memory/explain", path=path, agent=agent)["layers"]
    newest = layers[0]["newest"] if layers else None
    return newest["hash"] if newest else ""


def _to_edit(client: Client, path: str, agent: str | None) -> tuple[str | None, str]:
    """Return the text to begin with, and the hash of what is to be replaced."""
    layers = client.call("GET", "/v1/memory/explain", path=path, agent=agent)["layers"]
    if not layers:
        raise InvalidError(
            "DOCUMENT_READ_ONLY", f"editing {path}: it is made when it is read", hint="daycare agents set"
        )
    try:
        found = client.call("GET", "/v1/memory/document", path=path, agent=agent)
    except NotFoundError:
        return None, ""
    return found["text"], found["hash"] if found["layer"] == layers[0]["layer"] else ""


def _saved(done: Json, path: str, old: str | None, new: str) -> str:
    from daycare.base.differences import unified

    version, layer = done["version"]["version"], done["version"]["place"]["layer"]
    lines: Iterable[str] = (
        visible(unified(old, new, path).rstrip("\n")),
        f"saved {path} as version {version} of the layer {layer}"
        + (f", which {done['agent']} alone reads" if layer == "agent" else ""),
        plain(done["total"]["warning"]),
    )
    return "\n".join(line for line in lines if line)


def _newest(version: Json) -> str:
    what = "deleted" if not version["hash"] else size(version["size"])
    return f"{what}, {when(version['created_at'])}, by {version['by']['author']}"
