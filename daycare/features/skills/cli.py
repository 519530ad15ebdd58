"""Commands about skills: list and show them, put one into the home, approve it, take that back, remove one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from daycare.api.client import Client, Json
from daycare.base.english import plural
from daycare.base.errors import InvalidError
from daycare.base.times import when
from daycare.cli import asking
from daycare.cli.command import Cli, command, default_command, show
from daycare.cli.operations import ask, operation
from daycare.cli.render import one_line, plain, table
from daycare.features.skills import operations as ops
from daycare.features.skills.folder import SKILL_FILES_MAX
from daycare.features.skills.records import SkillPlace
from daycare.rules.skill_text import SKILL_FILE

app = typer.Typer(rich_markup_mode=None)

Agent = Annotated[
    str, typer.Option("--agent", metavar="PATH", help="The agent that has it; without it: a skill of the home.")
]
Place = Annotated[
    SkillPlace | None, typer.Option("--place", help="Where it is, if several have the name.", show_default=False)
]


@default_command(app, examples="daycare skills\ndaycare skills list --agent /ann/direct", lists=False)
def skills(cli: Cli) -> None:
    """List the skills of the home, or work with them."""
    with cli.connect() as client:
        cli.out(ask(client, ops.ListSkills()), skills_table)


def skills_table(document: Json) -> Any:
    """Return skills as a table."""
    rows = [
        (each["name"], _state(each), each["place"], len(each["files"]), one_line(_about(each), 80))
        for each in document["skills"]
    ]
    return table(("skill", "state", "place", "files#", "what it is for"), rows) if rows else "no skills"


def _about(skill: Json) -> str:
    return skill["description"] if skill["state"] != "broken" else "; ".join(skill["problems"])


def _state(skill: Json) -> str:
    at = f" {when(skill['approved_at'])}" if skill["approved_at"] else ""
    return {
        "approved": f"approved by {skill['approved_by']}{at}",
        "changed": "changed since it was approved",
        "new": "not approved",
        "broken": "cannot be read",
    }[skill["state"]]


def skill_facts(document: Json) -> str:
    """Return a skill with what to look at before it is approved."""
    return "\n".join(map(plain, _facts(document)))


def _facts(document: Json) -> Iterator[str]:
    skill = document["skill"]
    yield f"{skill['name']}: {_state(skill)}"
    yield f"  where          {skill['where']}"
    yield f"  hash           {skill['hash'] or '-'}"
    for name in ("description", "license", "compatibility"):
        if skill[name]:
            yield f"  {name:14} {skill[name]}"
    if skill["allowed_tools"]:
        yield f"  tools          it speaks of {', '.join(skill['allowed_tools'])}; that gives it no right to them"
    for each in skill["files"]:
        yield f"  file           {each['path']} ({each['size']} bytes)"
    for each in skill["problems"]:
        yield f"  not as the standard says: {each}"
    for path, findings in document["findings"].items():
        for each in findings:
            yield f"  {each['severity']}: {path}: {each['meaning']} {each['excerpt']!r}"
    if document["changed"]:
        yield f"  changed since it was approved: {', '.join(document['changed'])}"
    yield ""
    if document["text"] is None:
        yield f"{document['file']} is not text"
    else:
        yield (document["diff"] if document["file"] == SKILL_FILE else "") or document["text"]


operation(app, "list", ops.ListSkills, skills_table, examples="daycare skills list --agent /ann/direct")
operation(
    app,
    "show",
    ops.ShowSkill,
    skill_facts,
    examples="daycare skills show pdf\ndaycare skills show pdf --file scripts/fill.py",
)


@command(app, "add", examples="daycare skills add ./pdf\ndaycare skills add ./pdf --replace --approve")
def add(
    cli: Cli,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with SKILL.md, named as the skill.")],
    replace: Annotated[bool, typer.Option("--replace", help="In place of one of that name.")] = False,
    approve: Annotated[bool, typer.Option("--approve", help="And approve it as it is.")] = False,
) -> None:
    """Put a skill into the home, for all agents. Until somebody approves it they take it for data."""
    named = folder.expanduser().resolve()
    files = tuple(ops.SkillUpload(path=path, data=data) for path, data in _files(named))
    if not files:
        raise InvalidError("USAGE", f"adding {folder}: there are no files in it", hint="daycare skills add --help")
    with cli.connect() as client:
        wish = ops.AddSkill(name=named.name, files=files, replace=replace)
        made = ask(client, wish)
        if approve:
            made = _approve(client, named.name, made["skill"]["hash"], "", None)
        view = ask(client, ops.ShowSkill(name=named.name, place=SkillPlace.HOME))
    hint = "" if approve else f"\n\nRead it, then: daycare skills approve {named.name}"
    cli.out(view, lambda it: skill_facts(it) + hint)


@command(
    app,
    "approve",
    examples="daycare skills approve pdf\ndaycare skills approve pdf --hash 1f2e3d4c5b6a --json",
)
def approve(
    cli: Cli,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The skill's name.")],
    agent: Agent = "",
    place: Place = None,
    hash_: Annotated[
        str, typer.Option("--hash", metavar="HASH", help="Of what you have read: nothing is asked then.")
    ] = "",
) -> None:
    """Approve exactly what a skill says now: agents follow it from then on, until a file of it changes."""
    with cli.connect() as client:
        if not hash_:
            view = ask(client, ops.ShowSkill(name=name, path=agent, place=place))
            if not asking.terminal():
                raise InvalidError(
                    "USAGE", f"approving {name}: say what you have read", hint=f"--hash {view['skill']['hash'][:12]}"
                )
            show(skill_facts(view))
            if not asking.yes(f"Are agents to follow {name} as it stands above?", usual=False):
                raise InvalidError("USAGE", f"approving {name}: you said no", hint=f"daycare skills rm {name}")
            hash_ = view["skill"]["hash"]
        cli.out(_approve(client, name, hash_, agent, place), lambda it: f"{name} is {_state(it['skill'])}")


def _approve(client: Client, name: str, hash_: str, agent: str, place: SkillPlace | None) -> Json:
    return ask(client, ops.ApproveSkill(name=name, hash=hash_, path=agent, place=place))


operation(
    app,
    "revoke",
    ops.RevokeSkill,
    lambda it: f"{it['name']}: {it['revoked']} {plural('approval', it['revoked'])} taken back",
    examples="daycare skills revoke pdf",
)
operation(app, "rm", ops.RemoveSkill, lambda it: f"removed: {it['where']}", examples="daycare skills rm pdf")


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a folder but for hidden ones. Raises `InvalidError` USAGE for what a skill cannot have."""
    if not folder.is_dir():
        raise InvalidError("USAGE", f"adding {folder}: it is not a folder", hint="daycare skills add ./pdf")
    number = 0
    for file in sorted(folder.rglob("*")):
        inner = file.relative_to(folder)
        if any(part.startswith(".") for part in inner.parts) or (file.is_dir() and not file.is_symlink()):
            continue
        number += 1
        if file.is_symlink() or not file.is_file() or number > SKILL_FILES_MAX:
            why = (
                "it is a link, or not a file" if number <= SKILL_FILES_MAX else f"there are more than {SKILL_FILES_MAX}"
            )
            raise InvalidError("USAGE", f"adding {inner}: {why}", hint="copy what is needed into the folder")
        try:
            yield str(inner), file.read_bytes()
        except OSError as error:
            raise InvalidError("USAGE", f"reading {file}: {error.strerror}") from None
