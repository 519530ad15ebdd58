"""Hermes Agent: its home `~/.hermes`, with one more home for each profile."""

from typing import Any, Final

from daycare.base.cron import NOBODY
from daycare.base.errors import DaycareError
from daycare.base.path import Kind
from daycare.ops.importers import skills
from daycare.ops.importers.accounts import Accounts
from daycare.ops.importers.import_model import (
    MAIN,
    OWNER,
    ImportedAgent,
    ImportedJob,
    ImportedSetting,
    ImportedText,
    ImportModel,
)
from daycare.ops.importers.openclaw_keys import of_variable
from daycare.ops.importers.reading import ImportReading
from daycare.ops.importers.schedules import ImportedSchedule, every, expression, interval, once, spec_of, zone_or_none
from daycare.ops.importers.source import ImportSource, loads
from daycare.ops.importers.tables import opened
from daycare.ops.importers.words import at, day, key_of, moment, slug, text_of, texts

_MARK: Final = "\n§\n"  # between entries of a memory
_ALLOWED: Final = "_ALLOWED_USERS"
_HOME: Final = "_HOME_CHANNEL"  # where the owner is told of things; a group is nobody's
_JSON: Final = "\0json:"  # a message with pictures begins so
_NOT_THEIRS: Final = ("cron", "tool", "subagent", "batch", "webhook", "api_server", "kanban", "delegate")
_GROUPS: Final = ("group", "channel", "thread", "forum", "supergroup")
_VARIABLES: Final = {"TELEGRAM_BOT_TOKEN": "telegram", "SLACK_BOT_TOKEN": "slack", "SLACK_APP_TOKEN": "slack.app"}


def is_one(source: ImportSource) -> bool:
    """Return whether a folder is one of Hermes."""
    return any(map(source.has, ("config.yaml", "state.db", "cron/jobs.json", "SOUL.md"))) or source.has_folder(
        "memories"
    )


def read(source: ImportSource, reading: ImportReading) -> ImportModel:
    """Return what is in a home of Hermes."""
    imported = ImportModel("hermes")
    accounts = Accounts(imported)
    homes = [(source, MAIN)]
    for name in source.names("profiles", folders=True):
        inner = source.below(f"profiles/{name}")
        if inner is not None and is_one(inner):
            homes.append((inner, f"profile:{name}"))
            imported.agents.append(
                ImportedAgent(
                    ref=f"profile:{name}",
                    person=OWNER,
                    kind=Kind.AGENT,
                    name=slug(name),
                    title=name[:64],
                    source=f"profiles/{name}",
                    changes=("a profile became an agent of yours: /use chooses who answers in a conversation",),
                )
            )
    for home, _ in homes:
        _allowed(home, accounts)
    whose = accounts.people(reading.me)
    for home, ref in homes:
        _home(home, ref, imported, whose, reading)
    return imported


def _home(source: ImportSource, ref: str, imported: ImportModel, whose: dict[str, str], reading: ImportReading) -> None:
    config = source.yaml("config.yaml")
    config = config if isinstance(config, dict) else {}
    zone = zone_or_none(text_of(config.get("timezone")))
    _texts(source, ref, imported)
    _jobs(source, ref, imported, whose, zone)
    if ref == MAIN:
        _settings(source, imported, config)
    for variable, value in source.env(".env").items():
        _variable(source, imported, variable, value)
    if source.has("auth.json"):
        imported.leave(
            "signed-in accounts", source.shown("auth.json"), "they are bound to the other program: daycare keys add"
        )
    if reading.history:
        _talks(source, ref, imported, whose)
    skills.read(source, imported)


def _allowed(source: ImportSource, accounts: Accounts) -> None:
    """Collect who may write: of `.env`, and who was paired, which also knows their names."""
    for folder in ("platforms/pairing", "pairing"):
        for file in source.names(folder, "-approved.json"):
            approved = source.json(f"{folder}/{file}")
            for account, about in approved.items() if isinstance(approved, dict) else ():
                channel = file.removesuffix("-approved.json")
                name = text_of(at(about, "user_name"))
                accounts.add(channel, account, source.shown(f"{folder}/{file}"), name=name)
    for variable, value in source.env(".env").items():
        if variable.endswith(_HOME):
            accounts.own(variable.removesuffix(_HOME).lower(), value, source.shown(f".env {variable}"))
        if variable.endswith(_ALLOWED) and variable != f"GATEWAY{_ALLOWED}":
            for account in texts(value):
                accounts.add(variable.removesuffix(_ALLOWED).lower(), account, source.shown(f".env {variable}"))


def _settings(source: ImportSource, imported: ImportModel, config: dict[str, Any]) -> None:
    model = config.get("model")
    name = text_of(model) or text_of(at(model, "default")) or text_of(at(model, "name"))
    provider = text_of(at(model, "provider"))
    if name:
        known = provider if provider and provider not in ("auto", "custom") else "openrouter"
        value = name if name.startswith(f"{known}/") else f"{known}/{name}"
        imported.settings.append(
            ImportedSetting(section="models", key="default", value=value, source="config.yaml model")
        )
    if url := text_of(at(model, "base_url")):
        section = f"providers.{slug(provider or 'custom')}"
        imported.settings.append(
            ImportedSetting(section=section, key="base_url", value=url, source="config.yaml model.base_url")
        )


def _variable(source: ImportSource, imported: ImportModel, variable: str, value: str) -> None:
    where = source.shown(f".env {variable}")
    if variable in _VARIABLES:
        imported.secret(_VARIABLES[variable], value, where)
    else:
        of_variable(imported, variable, value, where)


def _texts(source: ImportSource, ref: str, imported: ImportModel) -> None:
    agent = "" if ref == MAIN else ref
    for file, name in (("SOUL.md", "SOUL.md"), ("memories/SOUL.md", "SOUL.md")):
        if text := (source.text(file) or "").strip():
            imported.keep(ImportedText(person=OWNER, agent=agent, name=name, text=text, source=source.shown(file)))
            break
    listed = ("its entries became a list",)
    if entries := _entries(source.text("memories/USER.md")):
        name, changes = ("USER.md", listed) if not agent else ("knowledge/hermes-user.md", (*listed, "kept alongside"))
        text = "# About the user\n\n" + entries
        imported.keep(
            ImportedText(
                person=OWNER,
                agent=agent,
                name=name,
                text=text,
                source=source.shown("memories/USER.md"),
                changes=changes,
            )
        )
    if entries := _entries(source.text("memories/MEMORY.md")):
        text = "# Memory\n\n" + entries
        where = source.shown("memories/MEMORY.md")
        imported.keep(ImportedText(person=OWNER, agent=ref, name="MEMORY.md", text=text, source=where, changes=listed))
    archived = [text_of(at(line, "entry") or at(line, "content") or at(line, "text")) for line in _archive(source)]
    if any(archived):
        text = "# What had to leave the memory\n\n" + "".join(f"- {_item(each)}\n" for each in archived if each)
        where = source.shown("memories/ARCHIVE.jsonl")
        imported.keep(
            ImportedText(person=OWNER, agent=agent, name="knowledge/hermes-archive.md", text=text, source=where)
        )
    for file in source.names("memories", ".md"):
        if file not in ("SOUL.md", "USER.md", "MEMORY.md") and (
            text := (source.text(f"memories/{file}") or "").strip()
        ):
            dated = day(file)
            name = f"daily/{dated}.md" if dated else f"knowledge/{slug(file.removesuffix('.md'))}.md"
            whose = ref if dated else agent
            where = source.shown(f"memories/{file}")
            imported.keep(ImportedText(person=OWNER, agent=whose, name=name, text=text, source=where))


def _archive(source: ImportSource) -> list[Any]:
    return list(source.lines("memories/ARCHIVE.jsonl")) if source.has("memories/ARCHIVE.jsonl") else []


def _entries(text: str | None) -> str:
    """Return the entries of a memory as a list in Markdown."""
    found = [each.strip() for each in f"\n{text or ''}\n".split(_MARK) if each.strip()]
    return "".join(f"- {_item(each)}\n" for each in found)


def _item(text: str) -> str:
    return text.strip().replace("\n", "\n  ")


# -- jobs --------------------------------------------------------------------------------------------------------------


def _jobs(source: ImportSource, ref: str, imported: ImportModel, whose: dict[str, str], zone: str) -> None:
    listed = source.json("cron/jobs.json")
    listed = at(listed, "jobs") if isinstance(listed, dict) else listed
    for number, job in enumerate(listed if isinstance(listed, list) else ()):
        if not isinstance(job, dict):
            continue
        job_id = text_of(job.get("id")) or f"#{number + 1}"
        name = text_of(job.get("name")) or f"job {number + 1}"
        where = source.shown(f"cron/jobs.json {job_id[:40]}")
        try:
            imported.jobs.append(_job(f"{ref}/{job_id}", name, job, where, ref, whose, zone))
        except (DaycareError, ValueError) as error:
            why = error.message if isinstance(error, DaycareError) else str(error)
            imported.leave(f"the job {name[:80]}", where, why)


def _job(
    job_id: str, name: str, job: dict[str, Any], where: str, ref: str, whose: dict[str, str], zone: str
) -> ImportedJob:
    if job.get("no_agent") is True or (job.get("script") and not text_of(job.get("prompt"))):
        raise ValueError("it runs a program, and here jobs ask an agent")
    if job.get("state") == "completed":
        raise ValueError("it is done")
    schedule = _schedule(job.get("schedule"), moment(job.get("next_run_at")) or moment(job.get("created_at")), zone)
    notes = []
    for field, what in (("script", "its program"), ("model", "its own model"), ("skills", "its skills")):
        if job.get(field):
            notes.append(f"{what} is not taken" if field != "skills" else f"{what} are not taken")
    times = at(job, "repeat", "times")
    if isinstance(times, int) and times > 1:
        notes.append(f"it was to run {times} times; here it runs until it is removed")
    deliver, told = _deliver(job, whose)
    spec, changed = spec_of(
        schedule, text_of(job.get("prompt")), description=name, delete=times == 1, fresh=ref == MAIN
    )
    return ImportedJob(
        ref=job_id,
        person=OWNER,
        name=slug(name, f"job-{slug(job_id)[:8]}", most=40),
        spec=spec,
        paused=job.get("enabled") is False or job.get("state") == "paused" or bool(job.get("paused_at")),
        target="" if ref == MAIN else ref,
        deliver=deliver,
        source=where,
        changes=(*changed, *notes, *told),
    )


def _schedule(tree: Any, anchor: int | None, zone: str) -> ImportedSchedule:
    if isinstance(tree, str):
        return expression(tree, zone)
    kind = at(tree, "kind")
    if kind == "once":
        return once(at(tree, "run_at"), zone)
    if kind == "interval":
        return every(interval(at(tree, "minutes"), 60_000), anchor, zone)
    if kind == "cron":
        return expression(text_of(at(tree, "expr")), zone)
    raise ValueError(f"its schedule is of an unknown kind, {text_of(kind)[:40] or 'none'}")


def _deliver(job: dict[str, Any], whose: dict[str, str]) -> tuple[str, list[str]]:
    wanted = (texts(job.get("deliver")) or ["local"])[0]
    if wanted == "local":
        return NOBODY, []
    channel, _, to = wanted.partition(":")
    if wanted == "origin":
        channel, to = text_of(at(job, "origin", "platform")), text_of(at(job, "origin", "chat_id"))
    key = key_of(channel, to.partition(":")[0]) if to else ""
    if not to or channel == "all":
        return "", []
    if whose.get(key) == OWNER:
        return key, []
    return "", [f"its answers went to {key or wanted[:60]}, who is not you; here they come to you"]


# -- conversations -----------------------------------------------------------------------------------------------------


def _talks(source: ImportSource, ref: str, imported: ImportModel, whose: dict[str, str]) -> None:
    with opened(source, "state.db") as tables:
        if tables is None:
            return
        refs: dict[str, str] = {}
        left = 0
        for row in tables.rows("sessions"):
            if text_of(row.get("source")) in _NOT_THEIRS or text_of(row.get("chat_type")) in _GROUPS:
                left += 1
                continue
            key = key_of(text_of(row.get("source")), text_of(row.get("user_id")))
            person = whose.get(key, OWNER)
            refs[text_of(row.get("id"))] = ref if person == OWNER else f"person:{person}"
        if left:
            imported.leave(
                f"{left} conversations in groups, or of jobs", source.shown("state.db"), "they are nobody's own"
            )
        for row in tables.rows("messages", order="id"):
            of = refs.get(text_of(row.get("session_id")))
            if of is None or row.get("role") not in ("user", "assistant") or _hidden(row):
                continue
            at_ms = moment(row.get("timestamp"))
            if at_ms is not None:
                imported.say(of, at_ms, "" if row["role"] == "user" else "assistant", _said(row.get("content")))


def _hidden(row: dict[str, Any]) -> bool:
    seen = row.get("active", 1) or row.get("compacted")
    return not seen or bool(row.get("_compressed_summary")) or row.get("display_kind") == "hidden"


def _said(content: Any) -> str:
    if not isinstance(content, str):
        return ""
    if not content.startswith(_JSON):
        return content
    try:
        parts = loads(content.removeprefix(_JSON))
    except (ValueError, RecursionError):
        return ""
    return "\n".join(text_of(at(part, "text")) for part in parts) if isinstance(parts, list) else ""
