"""Commands that follow a message: send it, see it wait, see what became of it, watch what happens."""

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from daycare.api.client import RECONNECT_S, RETRY_S, Client, Json, StreamEvent, new_key, pause, segment
from daycare.base.errors import BusyError, InvalidError, StoppedError, UnavailableError
from daycare.base.limits import ASK_DEADLINE_S
from daycare.base.times import when
from daycare.cli.command import Cli, command, show
from daycare.cli.home import takes_turns
from daycare.cli.render import clock, one_line, plain, table
from daycare.store.home import Home

_IDLE: Final = "no daemon runs: it is answered as soon as `daycare run` or `daycare chat` does"


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    command(
        app,
        "send",
        examples="""
        daycare send "What is on today?" --wait
        git log -5 | daycare send /ann/agent/scribe - --wait --timeout 600
        daycare send "What is this?" --file photo.jpg --wait
        daycare send --key backup-2026-11-21 "The backup is done"   # a repeat adds nothing
        daycare send --instead 4711 "What is on tomorrow?" --wait   # takes back the last turn, as `history` numbers it
        daycare send --all "I am away until Monday"   # to each agent of yours
        """,
    )(send)
    command(app, "inbox", examples="daycare inbox /ann/direct\ndaycare inbox /ann/direct --drop 4711")(inbox)
    command(
        app,
        "trace",
        examples="""
        daycare trace 4711                # a message's number, as `send` printed it
        daycare trace 0123456789abcdef    # a trace id, as the log shows it
        """,
    )(trace)
    command(
        app,
        "tail",
        examples="""
        daycare tail
        daycare tail --path /ann/direct --types turn.finished,turn.failed --json
        """,
    )(tail)


def send(
    cli: Cli,
    words: Annotated[list[str], typer.Argument(metavar="[PATH] TEXT", help="Text to send; - reads it from stdin.")],
    *,
    everywhere: Annotated[bool, typer.Option("--all", help="Send it to all agents, each its own message.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the answer and print it.")] = False,
    timeout: Annotated[float, typer.Option(metavar="S", help="How many seconds to wait at most.", min=0)] = (
        ASK_DEADLINE_S
    ),
    key: Annotated[str, typer.Option(metavar="K", help="Idempotency key: a repeat is the same message.")] = "",
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Whose message it is; default: the operator's.")
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option("--file", metavar="FILE", help="Attach a text, a picture or a voice note; may be repeated."),
    ] = None,
    instead: Annotated[
        int, typer.Option(metavar="TURN", help="Answer this in place of the last turn, which is taken back.", min=0)
    ] = 0,
) -> None:
    """Send a message to an agent; with --wait, print its answer.

    Without PATH it goes to your own agent. The message is on disk when this command returns. When no daemon runs and
    you do not wait, it stays queued until one does.
    """
    path, text = _addressed(words, bare=bool(file))
    if everywhere and (path or wait or instead):
        raise InvalidError(
            "USAGE",
            "send --all: it takes no PATH and no --instead, and waits for no answer",
            hint="daycare send --help",
        )
    key = key or new_key()
    with cli.connect(work=wait) as client:
        files = [client.upload(each, key=f"{key}:{number}", user=user) for number, each in enumerate(file or ())]
        if everywhere:
            sent = client.persist(text, key=key, path=None, user=user, files=files, everywhere=True)
            cli.out(sent | {"key": key, "working": takes_turns(client.status() or {})}, sent_text)
            if sent["refused"]:
                raise typer.Exit(BusyError.exit_code)
        elif wait:
            answer = client.ask(
                text,
                timeout_s=timeout,
                key=key,
                path=path,
                user=user,
                files=files,
                instead=instead,
                troubled=show_trouble,
            )
            cli.out(answer, answer_text)
            client.with_retry(lambda: acknowledge(client, answer))  # another daemon may be taking over
            if answer["state"] == "stopped":
                what = f"wait for the answer to message {answer['seq']}: its turn was stopped before it was done"
                raise StoppedError("MESSAGE_STOPPED", what, hint=f"daycare trace {answer['seq']}")
        else:
            receipt = client.persist(text, key=key, path=path, user=user, files=files, instead=instead)
            cli.out(receipt | {"working": takes_turns(client.status() or {})}, receipt_text)


def inbox(
    cli: Cli,
    path: Annotated[str, typer.Argument(help="Path of the agent.")],
    *,
    after: Annotated[int | None, typer.Option(metavar="SEQ", help="Only messages behind this one.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many.", min=1)] = 50,
    drop: Annotated[int | None, typer.Option(metavar="SEQ", help="Give this message up: nobody answers it.")] = None,
) -> None:
    """Show what waits for an agent, in order.

    With `--drop` one of these becomes a dead letter: `daycare dead replay` sends it again.
    """
    with cli.connect() as client:
        if drop is not None:
            gone = client.call("DELETE", "/v1/inbox", path=path, seq=drop)
            cli.out(gone, lambda it: f"dropped message {it['dropped']}")
            return
        cli.out(client.call("GET", "/v1/inbox", path=path, after=after, limit=limit), inbox_table)


def trace(cli: Cli, id_: Annotated[str, typer.Argument(metavar="ID", help="Trace id or message number.")]) -> None:
    """Show what became of a message: received, turns, tool calls, replies."""
    with cli.connect() as client:
        cli.out(client.call("GET", f"/v1/trace/{segment(id_)}"), trace_table)


def tail(
    cli: Cli,
    *,
    path: Annotated[str | None, typer.Option(help="Only what happens at this path; PATH/** also below it.")] = None,
    types: Annotated[str | None, typer.Option(metavar="A,B", help="Only these events, by name.")] = None,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Begin behind this event.")] = None,
) -> None:
    """Show events as they happen until Ctrl-C.

    Needs a running daemon. Goes on where it was when that restarts, and gives up when none is back after 30 s. Event
    names are in doc/extend/events.md.
    """
    client = Client(Home(cli.home).socket)  # a daemon of its own would see nothing and be in the way of others
    ended = UnavailableError("DAEMON_AWAY", "read events: the daemon ended the stream", hint="daycare run")
    seen, lost_at = False, 0.0
    while True:
        trouble = ended
        try:
            for event in client.events(path=path, types=types, after=after):
                seen, lost_at, after = True, 0.0, event.cursor or after
                _show_event(cli, event)
        except UnavailableError as error:
            trouble = error
        if not seen or (lost_at and time.monotonic() - lost_at > RECONNECT_S):
            raise trouble
        if not lost_at:
            lost_at = time.monotonic()
            print("(the daemon is away, looking for it again)", file=sys.stderr)
        pause(RETRY_S)


def answer_text(answer: Json) -> str:
    """Return what the agent answered: its replies, or the turn's result where none was addressed to anyone."""
    replies = [row["text"] for row in answer.get("replies") or ()]
    return plain("\n\n".join(replies) or answer.get("result") or "(no reply)")


def show_trouble(trouble: Json) -> None:
    """Tell whoever waits for an answer why it has not come yet, beside what is printed of it."""
    hint = f" Hint: {plain(trouble['hint'])}." if trouble["hint"] else ""
    print(f"(not answered yet: {plain(trouble['reason'])}.{hint} Still waiting)", file=sys.stderr)


def receipt_text(receipt: Json) -> str:
    """Return what happened to a message that is not waited for."""
    if receipt.get("duplicate"):
        return _queued(receipt)
    return f"{_queued(receipt)}\n" + (f"see: daycare trace {receipt['seq']}" if receipt["working"] else _IDLE)


def sent_text(document: Json) -> str:
    """Return what happened to a message to all agents, a line for each."""
    lines = [_queued(receipt) for receipt in document["messages"]]
    lines += [
        f"{plain(each['path'])} did not get it: {plain(each['error']['message'])}" for each in document["refused"]
    ]
    if document["refused"]:
        lines.append(f"once there is room, repeat it with --key {plain(document['key'])}: the others get it once")
    return "\n".join(lines if document["working"] else [*lines, _IDLE])


def _queued(receipt: Json) -> str:
    number, path = receipt["seq"], plain(receipt["path"])
    if receipt.get("duplicate"):
        return f"message {number} to {path} was sent before; it is {receipt['state']}"
    return f"message {number} is queued for {path}"


def inbox_table(document: Json) -> Any:
    """Return the waiting messages as a table."""
    if not document["rows"]:
        return "nothing waits"
    rows = (
        (
            row["seq"],
            when(row["created_at"]),
            row["envelope"]["sender"],
            row["attempts"] or "",
            one_line(row["envelope"]["text"]),
        )
        for row in document["rows"]
    )
    return table(("seq#", "since", "from", "tries#", "text"), rows)


def trace_table(document: Json) -> Any:
    """Return a timeline: each line has the time since the first entry."""
    entries = document["entries"]
    if not entries:
        return "nothing is known under this id"
    start = entries[0]["at_ms"]
    rows = (
        (
            clock(each["at_ms"]),
            f"+{(each['at_ms'] - start) / 1000:.3f} s",
            each["what"],
            each["path"],
            one_line(each["detail"], 200),
        )
        for each in entries
    )
    return table((when(start)[:10], "after#", "what", "path", "detail"), rows)


def event_line(event: StreamEvent) -> str:
    """Return one event on one line: time, name, path and its own fields."""
    known = ("event", "at_ms", "path", "user", "agent_id", "trace")
    fields = " ".join(f"{key}={one_line(value)}" for key, value in event.data.items() if key not in known)
    at = clock(event.data["at_ms"]) if "at_ms" in event.data else " " * 12
    return f"{at}  {plain(event.name):<18} {plain(event.data.get('path', '')):<20} {fields}".rstrip()


def _show_event(cli: Cli, event: StreamEvent) -> None:
    if event.name in ("open", "tick"):
        return
    if cli.json:
        cli.line({"event": event.name, "cursor": event.cursor} | event.data)
    else:
        show(event_line(event))


def _addressed(words: list[str], *, bare: bool) -> tuple[str | None, str]:
    """Return where words go and what they say; `bare`: they may say nothing, as a voice note does."""
    match words:
        case [text] if text.startswith("/") and "/" in text[1:] and not text.count(" "):
            raise InvalidError("USAGE", f"send: {text} is a path, and no text follows", hint="daycare send PATH TEXT")
        case [text]:
            path = None
        case [path, text] if path.startswith("/"):
            pass
        case _:
            raise InvalidError(
                "USAGE", "send: expected [PATH] TEXT, and a path begins with /", hint="put the text into quotes"
            )
    text = _of_stdin() if text == "-" else text
    if not text.strip() and not bare:
        raise InvalidError("TEXT_EMPTY", "send: the text is empty", hint="daycare send --help")
    return path, text


def _of_stdin() -> str:
    """Return the text that comes in. What is no text is refused, and not shown."""
    data = sys.stdin.buffer.read()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidError(
            "TEXT_BINARY", f"send: the {len(data):,} bytes on stdin are no text", hint="daycare send --file FILE TEXT"
        )
    return text.replace("\r\n", "\n")


def acknowledge(client: Client, answer: Json) -> None:
    """Confirm the printed replies that a terminal may confirm, so that no chat shows them again."""
    printed = {row["seq"] for row in answer.get("replies") or ()}
    if printed:
        client.acknowledge(row["seq"] for row in client.replies(answer["path"]) if row["seq"] in printed)
