"""Commands that decide what agents ask for: with the whole change before one's eyes, and only on that."""

import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
import typer

from daycare.api.client import Client, Json
from daycare.base.durations import duration
from daycare.base.errors import ConflictError, InvalidError
from daycare.base.times import when
from daycare.cli.command import Cli, command, default_command, show
from daycare.cli.editor import edited, forget, kept_unless_saved, new_file
from daycare.cli.render import one_line, plain, table, visible
from daycare.features.approvals.call_patterns import PatternWish

app = typer.Typer(rich_markup_mode=None)

Number = Annotated[int, typer.Argument(min=1, metavar="N", help="The request's number.")]
User = Annotated[str | None, typer.Option("--user", metavar="ID", help="Who decides; the operator without it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; the change is printed all the same.")]

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


@default_command(app, examples="daycare approvals\ndaycare approvals show 7")
def approvals(cli: Cli) -> None:
    """List what agents ask for, and decide it."""
    _list(cli, None, everything=False)


@command(app, "list", examples="daycare approvals list --all\ndaycare approvals list --json | jq '.approvals[].no'")
def list_(
    cli: Cli,
    *,
    user: Annotated[str | None, typer.Option("--user", metavar="ID", help="Only what this user may decide.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Decided ones, too.")] = False,
) -> None:
    """List requests that wait for a decision, the newest first, and what is granted."""
    _list(cli, user, everything=everything)


@command(app, "show", examples="daycare approvals show 12")
def show_(cli: Cli, number: Number) -> None:
    """Show a request: who asks, why, where its words came from, what is suspicious, and what it would change."""
    with cli.connect() as client:
        cli.out(_get(client, number), approval_view)


@command(app, "approve", examples="daycare approvals approve 12\ndaycare approvals approve 12 13 14 --yes")
def approve(
    cli: Cli,
    numbers: Annotated[list[int], typer.Argument(min=1, metavar="N...", help="Requests; several of one kind.")],
    *,
    user: User = None,
    session: Annotated[bool, typer.Option("--session", help="Calls like it, too, in this conversation.")] = False,
    always: Annotated[bool, typer.Option("--always", help="Calls like it, too, until taken back.")] = False,
    begins: Annotated[
        list[str] | None, typer.Option(metavar="NAME=TEXT", help="Like it: where an argument begins so.")
    ] = None,
    free: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Like it: whatever an argument is.")] = None,
    others: Annotated[bool, typer.Option("--others", help="Like it: also after words of others.")] = False,
    yes: Yes = False,
) -> None:
    """Show what requests would change, ask, and carry them out. Several must be of one kind, and none flagged.

    A call of a tool may be approved with others like it, which are shown first: --session or --always.
    """
    numbers = list(dict.fromkeys(numbers))
    with cli.connect() as client:
        found = [_get(client, number) for number in numbers]
        more = None
        if session or always:
            if len(found) > 1 or (session and always):
                what = "approving calls in advance: expected one request, and either --session or --always"
                raise InvalidError("USAGE", what)
            more = _more(found[0], "always" if always else "session", begins or [], free or [], others=others)
        _agree(cli, found, "Approve" if len(found) == 1 else f"Approve these {len(found)}", yes=yes, more=more)
        if len(found) == 1:
            _decide(cli, client, found[0], {"verdict": "approve", "user": user} | ({"more": more} if more else {}))
            return
        items = [{"no": each["no"], "seen": each["content_hash"]} for each in found]
        done = client.call("POST", "/v1/approvals/approve", {"items": items, "user": user})
    cli.out(done, batch_done)
    _check_done(done, "approving")


@command(
    app, "edit", examples="daycare approvals edit 12\necho '- likes tea' | daycare approvals edit 12 --text - --yes"
)
def edit(
    cli: Cli,
    number: Number,
    *,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="The new text; - reads stdin.")] = None,
    user: User = None,
    yes: Yes = False,
) -> None:
    """Change what a request would write, in $VISUAL or $EDITOR; see what that changes, and approve it or not."""
    with cli.connect() as client:
        old = _get(client, number)
    file = None
    if text == "-":
        text = sys.stdin.read()
    elif text is None:  # no daemon is kept during the edit: it would hold the home for as long as that takes
        file = new_file(old["place"]["name"] if old["place"] else old["document"], old["text"])
        text = edited(file)
    if text == old["text"]:
        if file:
            forget(file)
        cli.out(old, lambda _: f"request {number} is as it was")
        return
    with cli.connect() as client:
        with kept_unless_saved(file):
            wish = {"verdict": "edit", "seen": old["content_hash"], "text": text, "user": user}
            now = client.call("POST", f"/v1/approvals/{number}/decide", wish)
        if not yes and not _can_ask(cli):
            cli.out(now, approval_view)
            return
        _agree(cli, [now], "Approve this", yes=yes)
        _decide(cli, client, now, {"verdict": "approve", "user": user})


@command(
    app, "reject", examples="daycare approvals reject 12 --why 'that was a joke'\ndaycare approvals reject 12 13 14"
)
def reject(
    cli: Cli,
    numbers: Annotated[list[int], typer.Argument(min=1, metavar="N...", help="Requests, of any kind.")],
    *,
    why: Annotated[str, typer.Option(metavar="TEXT", help="What the agent is told.")] = "",
    user: User = None,
) -> None:
    """Refuse requests. Their agents are told, with your reason."""
    numbers = list(dict.fromkeys(numbers))
    with cli.connect() as client:
        found = [_get(client, number) for number in numbers]
        if len(found) == 1:
            _decide(cli, client, found[0], {"verdict": "reject", "why": why, "user": user})
            return
        items = [{"no": each["no"], "seen": each["content_hash"]} for each in found]
        done = client.call("POST", "/v1/approvals/reject", {"items": items, "why": why, "user": user})
    cli.out(done, lambda it: batch_done(it, "rejected"))
    _check_done(done, "rejecting")


@command(
    app,
    "answer",
    examples="daycare approvals answer 12 tea\ndaycare approvals answer 12 drink=tea sugar=no\n"
    "daycare approvals answer 12 --dismiss",
)
def answer(
    cli: Cli,
    number: Number,
    answers: Annotated[list[str] | None, typer.Argument(metavar="[NAME=VALUE]...", show_default=False)] = None,
    *,
    dismiss: Annotated[bool, typer.Option("--dismiss", help="Leave it unanswered.")] = False,
    user: User = None,
) -> None:
    """Answer what an MCP server asks while it works on a call. The answer goes to that server; `reject` declines."""
    with cli.connect() as client:
        it = _get(client, number)
        if it["question"] is None:
            what = f"answering request {number}: it is no question"
            raise InvalidError("USAGE", what, hint=f"daycare approvals show {number}")
        given = _given(it["question"]["fields"], answers or [])
        if not cli.json:
            show(approval_view(it))
        wish = {"verdict": "dismiss"} if dismiss else {"verdict": "approve", "fields": given}
        _decide(cli, client, it, {**wish, "user": user})


def _given(fields: Sequence[Json], answers: Sequence[str]) -> Json:
    if len(fields) == 1 and len(answers) == 1 and not answers[0].startswith(f"{fields[0]['name']}="):
        return {fields[0]["name"]: answers[0]}
    if wrong := [each for each in answers if "=" not in each]:
        raise InvalidError("USAGE", f"answering with {wrong[0]!r}: expected NAME=VALUE", hint="see its fields: show")
    return dict(each.split("=", 1) for each in answers)


@command(app, "undo", examples="daycare approvals undo 12")
def undo(cli: Cli, number: Number, *, user: User = None) -> None:
    """Take back what an approved request did, as long as nothing was changed since."""
    with cli.connect() as client:
        done = client.call("POST", f"/v1/approvals/{number}/undo", {"user": user})
    cli.out(done, lambda it: plain(f"undone: {it['document']} is as it was before request {it['no']}"))


@command(app, "revoke", examples="daycare approvals revoke 3")
def revoke(cli: Cli, number: Number, *, user: User = None) -> None:
    """Take back calls that were approved in advance: N is their number in the list of grants."""
    with cli.connect() as client:
        done = client.call("POST", f"/v1/approvals/grants/{number}/revoke", {"user": user})
    cli.out(done, lambda it: plain(f"asked for again: {it['path']}, {it['title']}"))


@command(
    app, "auto", examples="daycare approvals auto /ann/telegram --for 24h\ndaycare approvals auto /ann/telegram --for 0"
)
def auto(
    cli: Cli,
    path: Annotated[str, typer.Argument(metavar="PATH", help="The agent.")],
    *,
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help="Such as 24h or 30m, at most 24h; 0 ends it.")],
    kind: Annotated[str, typer.Option(metavar="KIND", help="What kind of request.")] = "memory",
    user: User = None,
) -> None:
    """Approve what an agent asks for at once for a while, but for what is flagged. Never what changes an identity."""
    wish = {"path": path, "kind": kind, "hours": _hours(for_), "user": user}
    with cli.connect() as client:
        done = client.call("POST", "/v1/approvals/auto", wish)
    how = f"is approved at once until {when(done['until'])}" if wish["hours"] else "is asked for again"
    cli.out(done, lambda _: plain(f"{path}: {kind} {how}"))


def approvals_table(document: Json) -> Any:
    """Return requests as a table, and below it what is granted."""
    import time

    from rich.console import Group

    now_s = time.time()
    rows = (
        (
            each["no"],
            each["state"],
            each["path"],
            f"{each['verb']} {each['document']}",
            _suspicious(each["findings"]),
            one_line(each["reason"], 60),
            duration(each["expires_at"] / 1000 - now_s) if each["state"] == "pending" else when(each["decided_at"]),
        )
        for each in document["approvals"]
    )
    head = ("no#", "state", "agent", "what", "suspicious", "why", "left")
    listed = table(head, rows) if document["approvals"] else "nothing waits for a decision"
    granted = [
        plain(f"approved at once: {each['kind']} of {each['path']}, until {when(each['until'])}")
        for each in document["granted"]
    ]
    granted += [plain(f"without asking ({each['no']}): {each['path']}, {each['title']}") for each in document["calls"]]
    return Group(listed, *granted) if granted else listed


def _suspicious(findings: Sequence[Json]) -> str:
    """Return how much is suspicious about a request; what it is stands where it is shown alone."""
    many = Counter(each["severity"] for each in findings)
    return ", ".join(f"{count} {severity}{'s'[: count > 1]}" for severity, count in sorted(many.items()))


def approval_view(it: Json) -> Any:
    """Return a request with its change, in colors where the terminal has them. Nothing in it stays invisible."""
    from rich.text import Text

    text = Text()
    text.append(visible(f"Request {it['no']}, {it['state']}: {it['title']}\n"), "bold")
    left = f"decided {when(it['decided_at'])}" + (f" by {it['decided_by']}" if it["decided_by"] else "")
    for name, value in (
        ("why", it["reason"]),
        ("from", "; ".join(it["provenance"])),
        ("text by", it["edited_by"]),
        ("", f"waits until {when(it['expires_at'])}" if it["state"] == "pending" else left),
        ("they said", it["why"]),
        ("content", it["content_hash"]),
    ):
        if value:
            text.append(visible(f"{name}: {value}\n" if name else f"{value}\n").replace("\n", " ").rstrip() + "\n")
    for flag in (*it["flags"], *it["warnings"]):
        text.append(visible(f"! {flag}").replace("\n", " ") + "\n", "bold red")
    text.append("\n")
    if it["verb"] in ("call", "answer") and not it["where"]:
        text.append(visible(it["text"]))  # it changes no text: these are its arguments, or a question
        return text
    for each in visible(it["diff"]).rstrip("\n").split("\n"):
        text.append(f"{each}\n", _COLORS.get(each[:1], ""))
    return text


def batch_done(done: Json, wanted: str = "approved") -> str:
    """Return what became of each of several."""
    return "\n".join(
        _done(each[wanted]) if each[wanted] else plain(f"request {each['no']}: {each['error']['message']}")
        for each in done["results"]
    )


def _check_done(done: Json, doing: str) -> None:
    if failed := sum(each["error"] is not None for each in done["results"]):
        what = f"{doing} {len(done['results'])} requests: {failed} were not"
        raise ConflictError("BATCH_FAILED", what, hint="daycare approvals")


def _done(it: Json) -> str:
    if it["verb"] == "answer":
        how = {"approved": "answered", "rejected": "declined, or left unanswered"}.get(it["state"], it["state"])
        return plain(f"{how}: request {it['no']}; {it['document']} goes on with that")
    if it["state"] == "rejected":
        return plain(f"rejected: request {it['no']}")
    if it["verb"] == "call":
        return plain(f"{it['state']}: request {it['no']}; {it['why'] or 'its agent makes the call now'}")
    version = f"{it['document']} is at version {it['version']} now" if it["version"] else "it said so already"
    return plain(f"{it['state']}: request {it['no']}; {version}; back with: daycare approvals undo {it['no']}")


def _list(cli: Cli, user: str | None, *, everything: bool) -> None:
    with cli.connect() as client:
        listed = client.call("GET", "/v1/approvals", user=user, all="true" if everything else None)
        cli.out(listed, approvals_table)


def _get(client: Client, number: int) -> Json:
    return client.call("GET", f"/v1/approvals/{number}")


def _decide(cli: Cli, client: Client, it: Json, wish: Json) -> None:
    done = client.call("POST", f"/v1/approvals/{it['no']}/decide", {"seen": it["content_hash"]} | wish)
    cli.out(done, _done)


def _more(it: Json, scope: str, begins: Sequence[str], free: Sequence[str], *, others: bool) -> Json:
    """Return what is approved with a request: the pattern that is proposed, as far as it is not said otherwise."""
    if it["pattern"] is None:
        what = "it is flagged" if it["verb"] == "call" else "it is no call of a tool"
        raise InvalidError("GRANT_REFUSED", f"approving more than request {it['no']}: {what}", hint="approve it alone")
    starts = dict(each.partition("=")[::2] for each in begins)
    said = {*starts, *free}
    pattern = {
        "tool": it["pattern"]["tool"],
        "exact": {name: value for name, value in it["pattern"].get("exact", {}).items() if name not in said},
        "begins": {k: v for k, v in it["pattern"].get("begins", {}).items() if k not in said} | starts,
        "free": [*free, *(name for name in it["pattern"].get("free", []) if name not in said)],
    }
    return {"scope": scope, "pattern": pattern, "others": others}


def _agree(cli: Cli, found: Sequence[Json], question: str, *, yes: bool, more: Json | None = None) -> None:
    """Show what is about to be decided and ask; the decision is then on just this content."""
    if not cli.json:
        for each in found:
            show(approval_view(each))
        if more:
            show(plain(f"From now on without asking: {msgspec.convert(more, PatternWish)}"))
    if yes:
        return
    if not _can_ask(cli):
        raise InvalidError("USAGE", "approving: there is nobody to ask", hint="look with show, then say --yes")
    try:
        agreed = input(f"{question}? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        agreed = False
    if not agreed:
        raise typer.Abort


def _can_ask(cli: Cli) -> bool:
    return not cli.json and sys.stdin.isatty() and sys.stdout.isatty()


def _hours(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(h|m|min|d)?", text.strip())
    if found is None:
        raise InvalidError("USAGE", f"reading the time {text!r}: expected such as 24h, 30m or 0", hint="--for 24h")
    return float(found[1]) * {"d": 24.0, "m": 1 / 60, "min": 1 / 60}.get(found[2] or "h", 1.0)
