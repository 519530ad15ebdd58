"""Commands about what is remembered: search, ask, facts, entities, why, stats, process, reembed, forget, takeout."""

import sys
import time
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from daycare.api.client import ENDED, REQUEST_S, WAIT_SLICE_S, Client, Json, new_key
from daycare.base.english import plural
from daycare.base.errors import BusyError, InvalidError
from daycare.base.times import when
from daycare.cli.command import Cli, command
from daycare.cli.home import takes_turns
from daycare.cli.operations import Given, operation
from daycare.cli.operations import ask as ask_for
from daycare.cli.render import one_line, pairs, plain, table
from daycare.features.memory.operations import SearchMemories

AgentOption = Annotated[
    str | None,
    typer.Option("--agent", metavar="PATH", help="Whose memory; default: your own agent's, /USER/direct."),
]
Words = Annotated[list[str] | None, typer.Argument(metavar="[WORDS...]", help="All of these must stand in it.")]
Everything = Annotated[bool, typer.Option("--all", help="Facts that hold no longer as well.")]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="How many, the newest first.")]

_TEXT_CHARS: Final = 300
_OF_VECTORS: Final = "cosine"  # what the parts of a score begin with that come from vectors


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    operation(
        app,
        "search",
        SearchMemories,
        _found,
        given=(Given(("query",), _words), Given(("since_ms", "until_ms"), _times)),
        do=_search,
        examples='daycare memory search "what does Clara like"\n'
        "daycare memory search tea --in fact\n"
        "daycare memory search --path MEMORY.md tea",
    )
    command(app, "facts", examples="daycare memory facts\ndaycare memory facts Clara --all")(facts)
    command(app, "entities", examples="daycare memory entities --agent /ann/telegram")(entities)
    command(app, "ask", examples='daycare memory ask "what did I say about the garden in March"')(ask)
    command(app, "why", examples="daycare memory why\ndaycare memory why --turn 12")(why)
    command(app, "stats", examples="daycare memory stats\ndaycare memory stats --agent /ann/telegram")(stats)
    command(app, "process", examples="daycare memory process\ndaycare memory process MEMORY.md")(process)
    command(app, "reembed", examples="daycare memory reembed")(reembed)
    command(app, "forget", examples="daycare memory forget 12\ndaycare memory forget 12 15 --yes")(forget)
    command(app, "takeout", examples="daycare memory takeout > ann.jsonl")(takeout)


def _words(
    words: Annotated[list[str], typer.Argument(metavar="WORDS...", help="A question, or any words.")],
) -> Json:
    return {"query": " ".join(words).strip()}


def _times(
    *,
    since: Annotated[str | None, typer.Option(metavar="DATE", help="Only what was said from this day on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="DATE", help="Only what was said before this day.")] = None,
) -> Json:
    return {"since_ms": _day(since), "until_ms": _day(until)}


def _search(client: Client, it: SearchMemories) -> Json:
    """Search memories, and documents too where nothing narrows what is looked through."""
    found = ask_for(client, it)
    asked: Json = {"query": it.query, "limit": it.limit, "agent": it.agent}
    everywhere = not (it.tier or it.path or it.entity)
    found["documents"] = client.call("GET", "/v1/memory/search", **asked)["found"] if everywhere else []
    return found


def ask(
    cli: Cli,
    words: Annotated[list[str], typer.Argument(metavar="QUESTION...", help="As you would ask a person.")],
    *,
    timeout_s: Annotated[float, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long to wait.")] = 300.0,
    agent: AgentOption = None,
) -> None:
    """Have a question answered from memory: it is searched several times, and each source of the answer is shown."""
    wish: Json = {"question": " ".join(words), "key": new_key()} | ({} if agent is None else {"agent": agent})
    deadline = time.monotonic() + timeout_s
    with cli.connect(work=True) as client:
        while True:
            wait_s = max(min(deadline - time.monotonic(), WAIT_SLICE_S), 0.05)
            found = client.call("POST", "/v1/memories/ask", wish | {"wait_s": wait_s}, timeout_s=REQUEST_S + wait_s)
            if found["state"] in ENDED:
                break
            if deadline <= time.monotonic():
                raise BusyError(
                    "NO_ANSWER_YET",
                    f"asking memory: no answer after {timeout_s:g} s; the question stays queued",
                    hint=f"daycare trace {found['seq']}",
                )
    cli.out(found, _answer)


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
    path: Annotated[str | None, typer.Argument(metavar="[PATH]", help="A document, such as MEMORY.md.")] = None,
    *,
    agent: Annotated[str | None, typer.Option("--agent", metavar="PATH", help="Only what this agent heard.")] = None,
) -> None:
    """Wake the memory workers now for what nobody has looked at yet; or cut and embed one document anew."""
    wish = {name: each for name, each in (("agent", agent), ("path", path)) if each is not None}
    with cli.connect() as client:
        done = client.call("POST", "/v1/memories/process", wish, timeout_s=600)
        done["working"] = takes_turns(client.status() or {})
    cli.out(done, _processed)


def reembed(cli: Cli) -> None:
    """Make all vectors anew, for a model that is another one under its old name; `memory stats` shows how far it is."""
    with cli.connect() as client:
        done = client.call("POST", "/v1/memories/reembed", timeout_s=600)
    cli.out(done, lambda each: f"{each['embedder']['memories']} memories get new vectors in the background")


def forget(
    cli: Cli,
    numbers: Annotated[list[str], typer.Argument(metavar="NO...", help="As search and facts show them.")],
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
    by_meaning = scored and any(_meaning(each) for each in found)
    rows = (
        (
            each["label"],
            each["tier"],
            when(each["at_ms"]),
            _who(each),
            _text(each),
            *([f"{each['score']:.2f}"] if scored else []),
            *([_meaning(each)] if by_meaning else []),
        )
        for each in found
    )
    more = ["score#"] * scored + ["meaning#"] * by_meaning
    return table(("no#", "tier", "said", "who", "what", *more), rows)


def _meaning(each: Json) -> str:
    """Return what vectors add to a score, empty if nothing."""
    parts = [value for name, value in each["parts"].items() if name.startswith(_OF_VECTORS)]
    return f"{sum(parts):+.2f}" if parts else ""


def _answer(found: Json) -> Any:
    from rich.console import Group
    from rich.text import Text

    rows = [(each["label"], each["tier"], when(each["at_ms"]), _who(each), _text(each)) for each in found["sources"]]
    rows += [(plain(path), "document", "", "", "") for path in found["documents"]]
    parts: list[Any] = [Text(plain(found["answer"]))]
    return Group(*parts, "", table(("source", "tier", "said", "who", "what"), rows)) if rows else Group(*parts)


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
    if embedder.get("model"):
        dimensions = f", {embedder['dimensions']} dimensions" if embedder["dimensions"] else ""
        lines.append(("model", plain(f"{embedder['model']}{dimensions}")))
    if "embedded" in embedder and not embedder["model"] and not embedder["trouble"]:
        lines.append(("embedded", "not known before the embedder is loaded"))
    elif "embedded" in embedder:
        done, total = embedder["embedded"], embedder["memories"]
        lines.append(("embedded", f"{done} of {total}{f' ({100 * done // total} %)' if done < total else ''}"))
        lines += [(f"of {plain(name)}", f"{many}, until all have new ones") for name, many in _before(embedder)]
    if embedder.get("trouble"):
        lines.append(("trouble", plain(embedder["trouble"])))
    return Group(table(("", f"of {found['agent']}#", "all#"), rows), "", pairs(lines))


def _before(embedder: Json) -> list[tuple[str, int]]:
    return list(embedder.get("before", {}).items())


def _processed(done: Json) -> str:
    if "path" in done:
        vectors = f", {done['embedded']} with vectors" if done["embedded"] else ""
        passages = f"{done['chunks']} {plural('passage', done['chunks'])}"
        return f"{plain(done['path'])}, version {done['version']}: {passages}{vectors}"
    if not done["woken"]:
        return "nothing waits"
    later = "" if done["working"] else "\nno daemon runs: they begin as soon as `daycare run` or `daycare chat` does"
    return f"memory workers woken: {done['woken']}{later}"


def _plan(plan: Json) -> str:
    lines = ["This would go:", *(f"- {one_line(text, _TEXT_CHARS)}" for text in plan["memories"])]
    if plan["turns"]:
        turns = plan["turns"]
        lines.append(f"and everything said in {turns} {plural('exchange', turns)}, which it comes from.")
    lines += [f"{plain(name)} goes on without it." for name in plan["documents"]]
    return "\n".join((*lines, *_mentions(plan["mentions"])))


def _forgotten(done: Json) -> str:
    gone = done["forgotten"]
    lines = [
        f"forgotten: {gone['memories']} {plural('memory', gone['memories'])}, the words of {gone['turns']} "
        f"{plural('exchange', gone['turns'])}, {gone['versions']} {plural('version', gone['versions'])} of documents",
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
    except (ValueError, OverflowError):
        raise InvalidError("DATE_INVALID", f"reading the date {text!r}: expected one such as 2026-03-31") from None
