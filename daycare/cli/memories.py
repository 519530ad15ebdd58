"""Commands about what is remembered of conversations: search, facts, entities, why, stats, process, forget, takeout."""

import sys
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from daycare.base.errors import InvalidError
from daycare.cli.client import Json
from daycare.cli.command import Cli, command
from daycare.cli.render import one_line, pairs, plain, table, when

AgentOption = Annotated[
    str | None,
    typer.Option("--agent", metavar="PATH", help="Whose memory; default: your own agent's, /USER/direct."),
]
Words = Annotated[list[str] | None, typer.Argument(metavar="[WORDS...]", help="All of these must stand in it.")]
Everything = Annotated[bool, typer.Option("--all", help="Facts that hold no longer as well.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="How many, the newest first.")]

_TIERS: Final = ("log", "fact", "entity", "chunk")
_TEXT_CHARS: Final = 300


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    command(
        app, "search", examples='daycare memory search "what does Clara like"\ndaycare memory search tea --in fact'
    )(search)
    command(app, "facts", examples="daycare memory facts\ndaycare memory facts Clara --all")(facts)
    command(app, "entities", examples="daycare memory entities --agent /ann/telegram")(entities)
    command(app, "why", examples="daycare memory why\ndaycare memory why --turn 12")(why)
    command(app, "stats")(stats)
    command(app, "process", examples="daycare memory process\ndaycare memory process --agent /ann/telegram")(process)
    command(app, "forget", examples="daycare memory forget 12\ndaycare memory forget 12 15 --yes")(forget)
    command(app, "takeout", examples="daycare memory takeout > ann.jsonl")(takeout)


def search(
    cli: Cli,
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help="A question, or any words.")],
    *,
    tier: Annotated[str | None, typer.Option("--in", metavar="TIER", help="log, fact, entity or chunk.")] = None,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="Only what was said from this day on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="DATE", help="Only what was said before this day.")] = None,
    everything: Everything = False,
    limit: Annotated[int, typer.Option(min=1, max=50)] = 10,
    agent: AgentOption = None,
) -> None:
    """Find what fits best: things that were said, facts, people and things; and documents that have the words."""
    if tier not in (None, *_TIERS):
        raise InvalidError("TIER_UNKNOWN", f"searching in {tier}: expected one of {', '.join(_TIERS)}")
    with cli.connect() as client:
        found = client.call(
            "GET",
            "/v1/memories/search",
            query=" ".join(words),
            tier=tier,
            since_ms=_day(since),
            until_ms=_day(until),
            all=everything or None,
            limit=limit,
            agent=agent,
        )
        asked: Json = {"query": " ".join(words), "limit": limit, "agent": agent}
        found["documents"] = [] if tier else client.call("GET", "/v1/memory/search", **asked)["found"]
    cli.out(found, _found)


def facts(
    cli: Cli, words: Words = None, *, everything: Everything = False, limit: Limit = 50, agent: AgentOption = None
) -> None:
    """List what was learned from conversations, the newest first."""
    with cli.connect() as client:
        found = client.call(
            "GET",
            "/v1/memories/facts",
            words=" ".join(words or ()),
            all=everything or None,
            limit=limit,
            agent=agent,
        )
    cli.out(found, lambda each: memories_table(each["facts"]))


def entities(cli: Cli, words: Words = None, *, limit: Limit = 50, agent: AgentOption = None) -> None:
    """List the people, places, things and concepts that were spoken of."""
    with cli.connect() as client:
        found = client.call("GET", "/v1/memories/entities", words=" ".join(words or ()), limit=limit, agent=agent)
    cli.out(found, lambda each: memories_table(each["entities"]))


def why(
    cli: Cli,
    *,
    turn: Annotated[int | None, typer.Option(min=1, metavar="N", help="Of this turn; default: the last one.")] = None,
    agent: AgentOption = None,
) -> None:
    """Show which memories stood in the prompt of a turn, and how well each fitted."""
    with cli.connect() as client:
        found = client.call("GET", "/v1/memories/why", turn=turn, agent=agent)
    cli.out(found, _why)


def stats(cli: Cli, *, agent: AgentOption = None) -> None:
    """Tell how much is remembered, what waits to be looked at, and how the embedder is."""
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/memories/stats", agent=agent), _stats)


def process(
    cli: Cli,
    *,
    agent: Annotated[str | None, typer.Option("--agent", metavar="PATH", help="Only what this agent heard.")] = None,
) -> None:
    """Wake the memory workers now for what nobody has looked at yet."""
    with cli.connect() as client:
        done = client.call("POST", "/v1/memories/process", {} if agent is None else {"agent": agent})
    cli.out(done, lambda each: f"memory workers woken: {each['woken']}" if each["woken"] else "nothing waits")


def forget(
    cli: Cli,
    numbers: Annotated[list[int], typer.Argument(metavar="NO...", min=1, help="As search and facts show them.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    agent: AgentOption = None,
) -> None:
    """Remove memories for good, with the words they came from and what was learned from those.

    Nothing of it is left in the database but hashes. Backups from before still have it.
    """
    wish: Json = {"numbers": numbers} | ({} if agent is None else {"agent": agent})
    with cli.connect() as client:
        if not yes:
            plan = client.call("POST", "/v1/memories/forget", wish | {"dry_run": True})["would_forget"]
            if cli.json or not sys.stdin.isatty():
                raise InvalidError(
                    "CONFIRM", "forgetting: nothing was forgotten, as nobody was asked", hint="add --yes"
                )
            print(_plan(plan))
            typer.confirm("Forget it for good?", abort=True)
        done = client.call("POST", "/v1/memories/forget", wish, timeout_s=600)
    cli.out(done, _forgotten)


def takeout(cli: Cli, *, agent: AgentOption = None) -> None:
    """Print all that is remembered of a person, a JSON object a line: logs, facts, entities, passages."""
    with cli.connect() as client:
        for line in client.lines("/v1/memories/export", agent=agent):
            sys.stdout.write(line + "\n")
    sys.stdout.flush()


def memories_table(found: list[Json], *, scored: bool = False) -> Any:
    """Return memories as a table."""
    if not found:
        return "nothing found"
    rows = (
        (
            each["no"],
            each["tier"],
            when(each["at_ms"]),
            _who(each),
            _text(each),
            *([f"{each['score']:.2f}"] if scored else []),
        )
        for each in found
    )
    return table(("no#", "tier", "said", "who", "what", *(["score#"] if scored else [])), rows)


def _found(document: Json) -> Any:
    from rich.console import Group

    parts: list[Any] = [memories_table(document["found"], scored=True)] if document["found"] else []
    for each in document["documents"]:
        parts += [pairs([(each["path"], one_line(each["passage"], 400))])]
    return Group(*parts) if parts else "nothing found"


def _who(each: Json) -> str:
    return plain(each["about"].get("name") or each["speaker"])


def _text(each: Json) -> str:
    until = each["about"].get("valid_until_ms")
    over = f" (until {when(until)[:10]})" if until else ""
    outside = "" if each["origin"] in ("person", "agent") else f" [{each['origin']}]"
    return f"{one_line(each['text'], _TEXT_CHARS)}{over}{outside}"


def _why(found: Json) -> Any:
    from rich.console import Group

    facts_ = [("turn", found["turn"]), ("at", when(found["at_ms"])), ("took", f"{found['took_ms']:g} ms")]
    facts_ += [("without vectors", plain(found["without"]))] if found["without"] else []
    facts_ += [("gone since", found["gone"])] if found["gone"] else []
    return Group(pairs(facts_), "", memories_table(found["memories"], scored=True))


def _stats(found: Json) -> Any:
    own, every, embedder = found["own"], found["all"], found["embedder"]
    rows = [(name, own.get(name, 0), every.get(name, 0)) for name in own]
    from rich.console import Group

    lines = [("embedder", embedder["embedder"])]
    if "embedded" in embedder:
        lines.append(("embedded", f"{embedder['embedded']} of {embedder['memories']}"))
    if embedder.get("trouble"):
        lines.append(("trouble", plain(embedder["trouble"])))
    return Group(table(("", f"of {found['agent']}#", "all#"), rows), "", pairs(lines))


def _plan(plan: Json) -> str:
    lines = ["This would go:", *(f"- {one_line(text, _TEXT_CHARS)}" for text in plan["memories"])]
    if plan["turns"]:
        lines.append(f"and all that was said in {plan['turns']} exchanges, which it comes from.")
    lines += [f"{plain(name)} goes on without it." for name in plan["documents"]]
    return "\n".join((*lines, *_mentions(plan["mentions"])))


def _forgotten(done: Json) -> str:
    gone = done["forgotten"]
    lines = [
        f"forgotten: {gone['memories']} memories, the words of {gone['turns']} exchanges, {gone['versions']} versions "
        "of documents",
        "Backups from before still have them.",
    ]
    return "\n".join((*lines, *_mentions(done["mentions"])))


def _mentions(found: list[Json]) -> list[str]:
    return (
        ["These speak of the same and stay:", *(f"  {each['no']}  {one_line(each['text'], 100)}" for each in found)]
        if (found)
        else []
    )


def _day(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
    except ValueError:
        raise InvalidError("DATE_INVALID", f"reading the date {text!r}: expected one such as 2026-03-31") from None
