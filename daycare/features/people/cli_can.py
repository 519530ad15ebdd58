"""The command `can`: whether an agent may do something to another, decided and explained step by step."""

from typing import Annotated, Any, Final

import typer

from daycare.api.client import Json
from daycare.base.permission import WRITE_MEMORY
from daycare.cli.command import Cli, command

Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="The agent that acts, such as /ann/agent/mailer.")]
Action = Annotated[
    str,
    typer.Argument(
        metavar="ACTION",
        help="message, spawn, read_memory, write_memory, read_history, kill, schedule or tool:NAME.",
    ),
]
Object = Annotated[str, typer.Argument(metavar="OBJECT", help="The agent it is done to; without one: SUBJECT itself.")]

EXIT_CODES: Final = {"allow": 0, "deny": 1, "ask": 3}
_WORDS: Final = {"allow": "allowed", "deny": "denied", "ask": "a person is asked"}
_NOBODY_ASKED: Final = "refused, as a person would have to be asked, and nobody is asked for this"


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(
        app,
        "can",
        examples="""
        daycare can /ann/agent/mailer message /ann/agent/bank
        daycare can /ann/telegram/sub/0 tool:send_message
        """,
    )(can)


def can(cli: Cli, subject: Subject, action: Action, object_: Object = "") -> None:
    """Tell whether an agent may do something, and which rule or ancestor decides it.

    Exit code 0: allowed, 1: denied, 3: a person is asked, or, where nobody can be, it is refused. What people do
    themselves is not subject to these rules.
    """
    with cli.connect() as client:
        verdict = client.call("GET", "/v1/can", subject=subject, action=action, object=object_ or None)
    cli.out(verdict, explained)
    if code := EXIT_CODES[verdict["decision"]]:
        raise typer.Exit(code)


def explained(verdict: Json) -> Any:
    """Return a verdict for people: the decision, then a paragraph for the subject and each ancestor."""
    words = _WORDS if verdict["action"] == WRITE_MEMORY else {**_WORDS, "ask": _NOBODY_ASKED}
    lines = [
        f"{words[verdict['decision']]}: {verdict['subject']} {verdict['action']} {verdict['object']}",
        f"because of {verdict['reason']}",
    ]
    for step in verdict["steps"]:
        limits = "  <- this limits it" if step["path"] == verdict.get("limited_by") else ""
        lines += ["", f"{step['path']}: {words[step['decision']]}{limits}"]
        lines += [
            f"  {'*' if fit == step['because'] else '-'} {fit['source']}: {fit['says']}"
            for fit in (step["because"], *(fit for fit in step["fits"] if fit != step["because"]))
        ]
    return "\n".join(lines)
