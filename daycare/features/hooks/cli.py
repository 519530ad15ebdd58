"""Commands about webhooks: make one, give it another secret, try it, list them, remove one."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from daycare.api.client import Json
from daycare.base.errors import InvalidError
from daycare.base.secrecy import hide
from daycare.base.times import when
from daycare.cli.command import Cli, default_command
from daycare.cli.operations import Given, ask, operation
from daycare.cli.render import one_line, pairs, table
from daycare.features.hooks import operations as ops
from daycare.features.hooks.template import TEMPLATE_MAX_CHARS

app = typer.Typer(rich_markup_mode=None)

PAYLOAD_MAX_BYTES: Final = 256 * 1024  # what the API takes


@default_command(app, examples="daycare hooks\ndaycare hooks add github --to /ann/agent/scribe --scheme github")
def hooks(cli: Cli) -> None:
    """List webhooks, or work with them."""
    with cli.connect() as client:
        cli.out(ask(client, ops.ListHooks()), hooks_table)


def hooks_table(document: Json) -> Any:
    """Return webhooks as a table."""
    rows = (
        (
            each["name"],
            each["path"] or f"signal {each['signal']}",
            each["scheme"],
            ", ".join(each["events"]) or "all",
            f"{when(each['accepted_at'])} {each['accepted_event']}".strip() if each["accepted_at"] else "never",
            each["accepted"],
            each["repeated"],
            each["ignored"],
            each["refused"],
            one_line(f"{when(each['refused_at'])}: {each['refused_why']}", 80) if each["refused_at"] else "",
        )
        for each in document["hooks"]
    )
    columns = ("webhook", "goes to", "signed", "events", "last", "taken#", "repeats#", "ignored#", "refused#", "why")
    return table(columns, rows) if document["hooks"] else "no webhooks"


def hook_facts(hook: Json) -> Any:
    """Return one webhook with all that is known of it."""
    taken = f"{hook['accepted']}, {hook['repeated']} repeats, {hook['ignored']} ignored"
    last = f"{when(hook['accepted_at'])} {hook['accepted_event']}".strip() if hook["accepted_at"] else "never"
    refused = f"{hook['refused']}, {hook['failing']} in a row"
    refused += f", last {when(hook['refused_at'])}: {hook['refused_why']}" if hook["refused_at"] else ""
    facts = [("address", f"POST {hook['route']}"), ("user", hook["user"])]
    facts += [("goes to", hook["path"] or f"signal {hook['signal']}"), ("signed", hook["scheme"])]
    facts += [("events", ", ".join(hook["events"]) or "all"), ("template", hook["template"] or "event and payload")]
    facts += [("instruction", hook["instruction"])] if hook["instruction"] else []
    facts += [("taken", taken), ("last", last), ("refused", refused)]
    if hook["older_until"]:
        facts.append(("earlier secret", f"good until {when(hook['older_until'])}"))
    return pairs(facts)


def _made(document: Json) -> str:
    older = f"The earlier one is good until {when(document['older_until'])}.\n" if document["older_until"] else ""
    return (
        f"{document['secret']}\n\nThis is the secret of the webhook {document['name']}, shown this once.\n{older}"
        f"Its sender posts to {document['route']}, where it reaches [api] listen, and signs as {document['scheme']}."
    )


def _edited(document: Json) -> str:
    known = f"changed: {document['name']}"
    return f"{_made(document)}\n\n{known}" if document["secret"] else known


def _secret(
    *,
    own_secret: Annotated[
        bool, typer.Option("--own-secret", help="Read the secret that its sender has made from stdin.")
    ] = False,
) -> Mapping[str, Any]:
    if not own_secret:
        return {}
    text = sys.stdin.readline(ops.SECRET_MAX_CHARS + 2).strip()
    hide(text)
    return {"secret": text}


def _another_secret(
    *,
    new_secret: Annotated[
        bool, typer.Option("--new-secret", help="Make another secret and show it; the earlier one has 24 hours.")
    ] = False,
    own_secret: Annotated[
        bool, typer.Option("--own-secret", help="Read another secret that its sender has made from stdin.")
    ] = False,
) -> Mapping[str, Any]:
    return {"new_secret": new_secret or own_secret, **_secret(own_secret=own_secret)}


def _events(
    *,
    events: Annotated[
        str, typer.Option("--events", metavar="A,B", help="Only these events; issues is issues.opened, too.")
    ] = "",
) -> Mapping[str, Any]:
    return {"events": [each.strip() for each in events.split(",") if each.strip()]}


def _template(
    *,
    template: Annotated[
        str,
        typer.Option(
            "--template", metavar="TEXT", help="Makes the text: 'New: {{ issue.title }}'; @FILE reads a file."
        ),
    ] = "",
) -> Mapping[str, Any]:
    if not template.startswith("@"):
        return {"template": template}
    return {"template": _file(Path(template[1:]), 4 * TEMPLATE_MAX_CHARS).strip()}


def _other_events(
    *,
    events: Annotated[
        str | None, typer.Option("--events", metavar="A,B", help="Only these events; '' for all of them.")
    ] = None,
) -> Mapping[str, Any]:
    return {} if events is None else _events(events=events)


def _other_template(
    *,
    template: Annotated[
        str | None,
        typer.Option("--template", metavar="TEXT", help="Makes the text; @FILE reads a file; '' for none."),
    ] = None,
) -> Mapping[str, Any]:
    return {} if template is None else _template(template=template)


def _payload(
    *,
    payload: Annotated[
        str, typer.Option("--payload", metavar="FILE", help="What it brings, as JSON; a short example without it.")
    ] = "",
) -> Mapping[str, Any]:
    if not payload:
        return {}
    try:
        found = msgspec.json.decode(_file(Path(payload), PAYLOAD_MAX_BYTES), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidError("USAGE", f"read {payload}: {error}", hint="a payload is an object in JSON") from None
    return {"payload": found}


def _file(path: Path, most: int) -> str:
    try:
        with path.open("rb") as opened:
            data = opened.read(most + 1)
        text = data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError("USAGE", f"read {path}: {error}", hint="name a file of text that you can read") from None
    if len(data) > most:
        raise InvalidError("USAGE", f"read {path}: it has over {most} bytes", hint="a shorter one")
    return text


operation(
    app,
    "add",
    ops.AddHook,
    _made,
    examples="daycare hooks add github --to /ann/agent/scribe --scheme github --events issues,pull_request\n"
    "daycare hooks add shop --signal shop:paid --template 'Order {{ data.id }}'",
    given=[Given(("secret",), _secret), Given(("events",), _events), Given(("template",), _template)],
)
operation(app, "list", ops.ListHooks, hooks_table, examples="daycare hooks list --json | jq '.hooks[] | .name'")
operation(app, "show", ops.ShowHook, hook_facts, examples="daycare hooks show github")
operation(
    app,
    "edit",
    ops.EditHook,
    _edited,
    examples="daycare hooks edit github --events issues --template 'New: {{ issue.title }}'\n"
    "daycare hooks edit shop --to /ann/agent/clerk --new-secret",
    given=[
        Given(("new_secret", "secret"), _another_secret),
        Given(("events",), _other_events),
        Given(("template",), _other_template),
    ],
)
operation(
    app,
    "rotate",
    ops.RotateHook,
    _made,
    examples="daycare hooks rotate github\ndaycare hooks rotate github --hours 0",
    given=[Given(("secret",), _secret)],
)
operation(
    app,
    "test",
    ops.TryHook,
    lambda it: (
        f"{it['state']}: message {it['message']}"
        if it.get("message")
        else f"{it['state']}: signal {it['signal']}"
        if it.get("signal")
        else it["state"]
    ),
    examples="daycare hooks test github --event issues.opened --payload issue.json",
    given=[Given(("payload",), _payload)],
)
operation(
    app,
    "rm",
    ops.RemoveHook,
    lambda it: f"removed: {it['removed']['name']}",
    examples="daycare hooks rm github",
)
