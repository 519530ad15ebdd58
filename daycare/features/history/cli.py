"""Commands that look back: what was said with an agent, and what a model was shown."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from daycare.api.client import Json
from daycare.base.times import when
from daycare.cli.agents import message_text
from daycare.cli.command import Cli, command
from daycare.cli.render import plain


def register(app: typer.Typer) -> None:
    """Add the commands."""
    examples = "daycare history /ann/telegram\ndaycare history /ann/telegram --before 4711 --json"
    command(app, "history", examples=examples)(history)
    command(app, "prompt", examples="daycare prompt 4711\ndaycare prompt 4711 --call 1 --json")(prompt)


def history(
    cli: Cli,
    path: Annotated[str, typer.Argument(help="The agent's address.", metavar="PATH")],
    before: Annotated[int | None, typer.Option(help="Only turns below this number.", metavar="TURN")] = None,
    limit: Annotated[int, typer.Option(help="At most so many turns.", min=1, max=200)] = 20,
) -> None:
    """Show what was said with an agent, over all its sessions: the newest turns, with tool calls and files.

    The next older ones are shown with `--before` and the number of the first.
    """
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/history", path=path, limit=limit, before=before), _told)


def prompt(
    cli: Cli,
    turn: Annotated[int, typer.Argument(help="The turn's number.", metavar="TURN", min=0)],
    call: Annotated[int | None, typer.Option(help="Which call of a model in it, from 1.", metavar="N", min=1)] = None,
) -> None:
    """Show what a model was shown in a turn: sections with their tokens, the conversation, and what was left out.

    Without `--call` it is the last call of the turn. `daycare history PATH` shows the numbers of turns.
    """
    with cli.connect() as client:
        cli.out(client.call("GET", f"/v1/turns/{turn}/prompt", call=call), _shown)


def _told(document: Json) -> Any:
    if not document["turns"]:
        return "nothing was said"
    return "\n".join(_lines(document))


def _lines(document: Json) -> Iterator[str]:
    sessions = {each["session"]: each for each in document["sessions"]}
    session = None
    if document["next"] is not None:
        yield f"... older turns: --before {document['next']}"
    for turn in reversed(document["turns"]):
        if turn["session"] != session:
            session = turn["session"]
            yield f"--- session {session}, since {when(sessions[session]['started_at'])} ---"
        why = f": {turn['error']}" if turn["error"] else ""
        why += f" (what helps: {turn['hint']})" if turn["hint"] else ""
        taken_back = f", taken back for turn {turn['replaced_by']}" if turn["replaced_by"] else ""
        yield f"turn {turn['turn']}, {when(turn['started_at'])}, {turn['state']}{taken_back}{why}"
        for message in turn["messages"]:
            yield f"  {message['role']}: {plain(message_text(message))}"


def _shown(it: Json) -> Any:
    return "\n".join(_prompt_lines(it))


def _prompt_lines(it: Json) -> Iterator[str]:
    yield f"turn {it['turn']} of {it['path']}, call {it['call']} of {it['calls']}: about {it['tokens']:,} tokens"
    yield "This is what was sent, byte for byte." if it["exact"] else f"This is not all that was sent: {it['changed']}."
    for section in it["sections"]:
        cut = ", cut" if section.get("cut") else ""
        yield f"\n=== {section['name']}: {section['tokens']:,} tokens{cut} ===\n{plain(section['text'])}"
    if it["tools"]:
        names = ", ".join(each["name"] for each in it["tools"])
        yield f"\n=== tools: {it['tools_tokens']:,} tokens ===\n{names}"
    for group in it["conversation"]:
        what = f"turn {group['turn']}" if group["turn"] else "summary"
        yield f"\n=== {what}: {group['tokens']:,} tokens ==="
        yield from (f"{message['role']}: {plain(message_text(message))}" for message in group["messages"])
    if it["recalled"]:
        yield "\n=== recalled ==="
        yield from (f"#{each['label']} {each['tier']}: {plain(each['text'])}" for each in it["recalled"])
    left = it["left_out"]
    notes = [f"{name} was cut" for name in left["sections"]]
    notes += [f"turns up to {left['summary_through']} stand as a summary"] if left["summary_through"] else []
    notes += [f"{left['turns']} turns are left out"] if left["turns"] else []
    notes += [f"{left['results']} results of tools are shown by their ends"] if left["results"] else []
    if notes:
        yield "\n=== left out ===\n" + "\n".join(notes)
