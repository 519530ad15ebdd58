"""Commands about agents: list, show, create, change, unpark, end."""

import json
import shlex
import sys
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from daycare.api.client import Json
from daycare.base.durations import duration
from daycare.base.errors import InvalidError
from daycare.base.times import when
from daycare.cli.command import Cli, command, default_command
from daycare.cli.render import clock, one_line, pairs, table
from daycare.cli.spans import read_seconds

app = typer.Typer(rich_markup_mode=None)

_MAY: Final = {"allow": "yes", "ask": "asks first", "deny": "no"}

_SHOWN_APART = ("heartbeat_s", "behaviour")
_HEARTBEAT = "How often it looks by itself whether something is to be done: 30m, 2h; off. It needs a budget."
_BEHAVIOUR = "What an app does, of those that plugins bring: NAME or PLUGIN/NAME."
_FROM = "Template with its first documents, see `daycare agents templates`."
_PERSONALITY = 'Personality to speak with, see `daycare personalities`; "": the installation\'s.'
AgentPath = Annotated[str, typer.Argument(metavar="PATH", help="Path of the agent.")]
Settings = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FIELD=VALUE...", help="Such as model=offline/echo or policy=followup; {..} and [..] are JSON."
    ),
]


@default_command(app, examples="daycare agents\ndaycare agents --user ann --all")
def agents(
    cli: Cli,
    *,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Only this user's.")] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind: connector, agent, cron, task, sub, ...")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Dead ones, too.")] = False,
) -> None:
    """List agents, or work on one of them."""
    with cli.connect() as client:
        found = client.listed(
            "/v1/agents", "agents", "path", user=user, kind=kind, include_dead="true" if all_ else None
        )
    cli.out({"agents": found}, agents_table)


@command(app, "show", examples="daycare agents show /ann/direct")
def show(cli: Cli, path: AgentPath) -> None:
    """Show one agent: settings, what waits, timers and the end of its conversation."""
    with cli.connect() as client:
        cli.out(client.call("GET", "/v1/agent", path=path), agent_facts)


@command(
    app,
    "create",
    examples="daycare agents create /ann/agent/diary --from diary\n"
    "daycare agents create /ann/agent/scribe --personality creative model=offline/echo",
)
def create(
    cli: Cli,
    path: AgentPath,
    settings: Settings = None,
    *,
    personality: Annotated[str | None, typer.Option(metavar="NAME", help=_PERSONALITY)] = None,
    heartbeat: Annotated[str | None, typer.Option(metavar="TIME", help=_HEARTBEAT)] = None,
    behaviour: Annotated[str | None, typer.Option(metavar="NAME", help=_BEHAVIOUR)] = None,
    template: Annotated[str | None, typer.Option("--from", metavar="TEMPLATE", help=_FROM)] = None,
) -> None:
    """Create a permanent agent /USER/agent/NAME, or an app /USER/app/NAME."""
    config = read_settings(settings or [], personality, heartbeat) | ({"behaviour": behaviour} if behaviour else {})
    with cli.connect() as client:
        if template is not None:
            _refuse_beside(config)
            made = client.call("POST", f"/v1/templates/{quote(template, safe='')}", {"path": path, **config})
            cli.out(made, furnished)
        else:
            made = client.call("POST", "/v1/agents", {"path": path, "config": config})
            cli.out(made, lambda _: f"created {path}\ntalk to it: daycare chat {path}")


@command(app, "templates", examples="daycare agents templates\ndaycare agents templates diary")
def templates(
    cli: Cli, name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show this one with its words.")] = None
) -> None:
    """List the templates that agents can be made of, or show one."""
    with cli.connect() as client:
        if name is not None:
            cli.out(client.call("GET", f"/v1/templates/{quote(name, safe='')}"), template_text)
        else:
            found = client.call("GET", "/v1/templates")
            rows = [(each["name"], each["description"] or "nothing in particular") for each in found["templates"]]
            cli.out(found, lambda _: str(table(("template", "for whom"), rows)))


def furnished(made: Json) -> str:
    """Return what was made of a template, what it lacks, and what to do next."""
    path, of = made["agent"]["path"], made["template"]
    lines = [f"created {path} from {of['name']}, with {' and '.join(of['documents'])}"]
    if of["missing"]:
        lines.append(f"it counts on what it does not have: {', '.join(of['missing'])}; see daycare agents tools {path}")
    lines.append(f"talk to it: daycare chat {path}")
    lines.append(f"for example: {of['first']}")
    user, name = path.split("/")[1], path.rpartition("/")[2]
    for job in of["jobs"]:
        words = shlex.join([name, job["when"], job["text"], "--target", path, "--user", user])
        lines.append(f"to let it begin by itself: daycare cron add {words}")
    return "\n".join(lines)


def template_text(of: Json) -> str:
    """Return a template as a person reads it."""
    documents = "\n\n".join(f"{name}\n{text.strip()}" for name, text in of["documents"].items())
    lines = [f"{of['name']}: {of['description'] or 'nothing in particular'}"]
    lines += [f"counts on: {', '.join(of['needs'])}"] if of["needs"] else []
    return "\n".join([*lines, f"for example: {of['first']}", "", documents])


def _refuse_beside(config: Json) -> None:
    wrong = sorted(config.keys() - {"description", "model", "personality"})
    if wrong:
        raise InvalidError(
            "USAGE", f"agents create --from: {wrong[0]} is set afterwards", hint="daycare agents set PATH FIELD=VALUE"
        )


@command(app, "set", examples="daycare agents set /ann/direct policy=followup 'tools=[\"remind\"]'")
def set_(
    cli: Cli,
    path: AgentPath,
    settings: Settings = None,
    *,
    personality: Annotated[str | None, typer.Option(metavar="NAME", help=_PERSONALITY)] = None,
    heartbeat: Annotated[str | None, typer.Option(metavar="TIME", help=_HEARTBEAT)] = None,
) -> None:
    """Change settings of an agent."""
    changes = read_settings(settings or [], personality, heartbeat)
    if not changes:
        raise InvalidError("USAGE", "agents set: no FIELD=VALUE was given", hint="daycare agents set --help")
    with cli.connect() as client:
        changed = client.call("PATCH", "/v1/agent", changes, path=path)
    cli.out(changed, lambda _: f"changed {', '.join(changes)} of {path}")


@command(app, "tools", examples="daycare agents tools /ann/direct")
def tools(cli: Cli, path: AgentPath) -> None:
    """Show which tools an agent may use, and which not, and because of what."""
    with cli.connect() as client:
        found = client.call("GET", "/v1/agent/tools", path=path)
    columns = ("tool", "may it", "because of")
    rows = [(each["name"], _MAY[each["decision"]], each["reason"]) for each in found["tools"]]
    cli.out(found, lambda _: str(table(columns, rows)))


@command(app, "unpark", examples="daycare agents unpark /ann/direct")
def unpark(cli: Cli, path: AgentPath) -> None:
    """Let an agent work again that was parked after too many crashes."""
    with cli.connect() as client:
        cli.out(client.call("POST", "/v1/agent/unpark", path=path), lambda _: f"{path} works again")


@command(app, "rm", examples="daycare agents rm /ann/agent/scribe\ndaycare agents rm /ann/agent/scribe --yes")
def rm(
    cli: Cli,
    path: AgentPath,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """End an agent; what waits for it becomes dead letters, and its path is free again.

    Asks first, in a terminal. `daycare agents restore` takes it back, with its history, settings and documents, for as
    long as finished work is kept ([store] keep_days).
    """
    with cli.connect() as client:
        if not yes and not cli.json and sys.stdin.isatty():
            waiting = client.call("GET", "/v1/inbox", path=path)["rows"]
            lost = f"; {len(waiting)} waiting messages become dead letters" if waiting else ""
            if input(f"End {path}{lost}? [y/N] ").strip().lower() not in ("y", "yes"):
                raise typer.Abort
        cli.out(client.call("DELETE", "/v1/agent", path=path), lambda _: f"{path} has ended")


@command(app, "restore", examples="daycare agents restore /ann/agent/scribe")
def restore(cli: Cli, path: AgentPath) -> None:
    """Let an agent live again that has ended, with its history, settings and documents."""
    with cli.connect() as client:
        cli.out(client.call("POST", "/v1/agent/restore", path=path), lambda _: f"{path} lives again")


def read_settings(settings: list[str], personality: str | None = None, heartbeat: str | None = None) -> Json:
    """Read FIELD=VALUE words; a value that begins with { or [ is JSON, anything else is text."""
    changes: Json = {}
    for setting in settings:
        field, equals, value = setting.partition("=")
        if field == "budget":
            raise InvalidError("USAGE", "budget is no setting of an agent", hint="daycare budget set PATH --day 5usd")
        if not equals or not field:
            raise InvalidError("USAGE", f"read {setting!r}: expected FIELD=VALUE", hint="daycare agents set --help")
        try:
            changes[field] = json.loads(value) if value[:1] in ("{", "[") else value
        except ValueError as error:
            raise InvalidError(
                "USAGE", f"read the JSON of {field}: {error}", hint="put it into single quotes"
            ) from error
    if personality is not None:
        changes["personality"] = personality
    if heartbeat is not None:
        changes["heartbeat_s"] = 0 if heartbeat == "off" else round(read_seconds(heartbeat, "--heartbeat"))
    return changes


def agents_table(document: Json) -> Any:
    """Return agents as a table."""
    rows = (
        (
            each["path"],
            state_of(each),
            each["config"].get("model") or made_of(each),
            each["user"],
            when(each["created_at"]),
        )
        for each in document["agents"]
    )
    return table(("path", "state", "model or behaviour", "user", "since"), rows) if document["agents"] else "no agents"


def state_of(agent: Json) -> str:
    """Return where an agent is in its life, and when what has failed is tried again."""
    state = str(agent.get("live") or agent["state"])
    trouble = agent.get("trouble")
    return f"{state}, next try {clock(trouble['next_at'])[:8]}" if trouble else state


def made_of(agent: Json) -> str:
    """Return an agent's behaviour, marked if nobody can act for it now; empty for one that has none."""
    made = agent.get("behaviour")
    if not made:
        return ""
    name = f"{made['plugin']}/{made['name']}" if made["plugin"] else str(made["name"])
    return f"{name} (unavailable)" if made["problem"] else name


def agent_facts(document: Json) -> Any:
    """Return one agent with its settings, queue, timers and last messages."""
    from rich.console import Group

    agent = document["agent"]
    parts: list[Any] = []
    facts = [(name, agent.get(name)) for name in ("path", "id", "kind", "role", "user", "state", "reason", "parent")]
    facts += [
        *_trouble_facts(agent.get("trouble")),
        ("since", when(agent["created_at"])),
        ("incarnation", agent["incarnation"]),
        ("session", agent["session"]),
    ]
    facts += [(name, one_line(value, 300)) for name, value in agent["config"].items() if name not in _SHOWN_APART]
    if made := agent.get("behaviour"):
        facts.append(("behaviour", made_of(agent)))
        facts += [("unavailable", one_line(made["problem"], 300))] if made["problem"] else []
    parts.append(pairs(facts + _heartbeat_facts(document.get("heartbeat"))))
    if waiting := document.get("waiting"):
        rows = ((row["seq"], row["envelope"]["sender"], one_line(row["envelope"]["text"])) for row in waiting)
        parts += ["", table(("waiting#", "from", "text"), rows)]
    if timers := document.get("timers"):
        rows = ((each["no"], when(each["due_at"]), one_line(each["envelope"]["text"])) for each in timers)
        parts += ["", table(("timer#", "due", "text"), rows)]
    if history := document.get("history"):
        rows = ((when(each.get("at_ms")), each["role"], one_line(message_text(each), 300)) for each in history[-20:])
        parts += ["", table(("said", "by", "text"), rows)]
    return Group(*parts)


def _trouble_facts(it: Json | None) -> list[tuple[str, Any]]:
    if it is None:
        return []
    facts: list[tuple[str, Any]] = [
        ("failed", one_line(it["reason"], 300)),
        ("next try", clock(it["next_at"])[:8]),
    ]
    return [*facts, ("hint", one_line(it["hint"], 300))] if it["hint"] else facts


def _heartbeat_facts(it: Json | None) -> list[tuple[str, Any]]:
    if it is None:
        return []
    state = f"paused: {it['paused']}" if it["paused"] else f"next {when(it['next_at'])}" if it["next_at"] else ""
    last = f"; {it['beats']} so far, the last {when(it['beat_at'])}" if it["beat_at"] else ""
    return [("heartbeat", f"every {duration(it['every_s'])}; {state or 'it begins'}{last}")]


def message_text(message: Json) -> str:
    """Return the words of a message, with tool calls and results in short."""
    words = []
    for part in message["parts"]:
        match part["type"]:
            case "text":
                words.append(part["text"])
            case "tool_call":
                words.append(f"[{part['name']} {json.dumps(part['arguments'], ensure_ascii=False)}]")
            case "tool_result":
                words.append(f"[{part['name']}: {part['text']}]")
            case "file":
                words.append(f"[file {part['name']}]")
    return " ".join(words)
