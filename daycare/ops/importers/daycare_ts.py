"""The TypeScript daycare: its data folder, with a SQLite database, exported tables, or files of before both."""

from collections.abc import Iterator
from typing import Any, Final

from daycare.base.errors import DaycareError, InvalidError
from daycare.ops.importers import daycare_ts_agents
from daycare.ops.importers.import_model import (
    OWNER,
    ImportedJob,
    ImportedPerson,
    ImportedSetting,
    ImportedSubscription,
    ImportedText,
    ImportModel,
)
from daycare.ops.importers.openclaw_keys import of_variable
from daycare.ops.importers.reading import ImportReading
from daycare.ops.importers.schedules import expression, spec_of, zone_or_none
from daycare.ops.importers.source import ImportSource, front
from daycare.ops.importers.tables import JsonTables, Row, Tables, opened
from daycare.ops.importers.words import PROVIDERS, at, key_of, moment, slug, text_of

DATABASE: Final = "daycare.db"
EXPORT: Final = "export"  # a folder with a file for each table, where the database is one that only PostgreSQL reads
_SYSTEM: Final = {"soul": "SOUL.md", "user": "USER.md", "memory": "MEMORY.md"}
_KEPT: Final = ("AGENTS.md", "TOOLS.md")
_FENCED: Final = "is a program there, and here words for an agent: it is paused, look at it first"


def is_one(source: ImportSource) -> bool:
    """Return whether a folder is one of the TypeScript daycare."""
    there = any(map(source.has, (DATABASE, "settings.json", "auth.json", "users.jsonl", "users.json")))
    return there or any(map(source.has_folder, (DATABASE, EXPORT, "agents", "users")))


def read(source: ImportSource, reading: ImportReading) -> ImportModel:
    """Return what is in a data folder of the TypeScript daycare."""
    imported = ImportModel("daycare-ts")
    settings = source.json("settings.json")
    exported = source.below(EXPORT) or (source if source.has("users.jsonl") or source.has("users.json") else None)
    if exported is not None:
        _read(source, JsonTables(exported), imported, reading)
    elif source.has(DATABASE):
        with opened(source, DATABASE) as tables:
            if tables is not None and tables.columns("outbox"):
                raise InvalidError(
                    "IMPORT_SOURCE",
                    f"reading {source.root}: it is a home of this daycare, not of the one in TypeScript",
                    hint="daycare export moves an agent, daycare restore a whole home",
                )
            _read(source, tables, imported, reading)
    else:
        if source.has_folder(DATABASE):
            why = "it is a PGlite database, which only PostgreSQL reads: export its tables, see doc/operate/migrate.md"
            imported.leave("people, agents, jobs and conversations", DATABASE, why)
        _read(source, None, imported, reading)
    _settings(imported, settings if isinstance(settings, dict) else {})
    auth = source.json("auth.json")
    for name, entry in auth.items() if isinstance(auth, dict) else ():
        if at(entry, "type") == "oauth":
            imported.leave(
                f"the sign-in {name[:60]}", "auth.json", "it is bound to the other program: daycare keys add"
            )
        else:
            key = "telegram" if name.startswith("telegram") else PROVIDERS.get(name, slug(name))
            for field in ("apiKey", "token", "botToken"):
                imported.secret(key, at(entry, field), f"auth.json {name[:60]}.{field}")
    for variable, value in source.env(".env").items():
        of_variable(imported, variable, value, f".env {variable}")
    return imported


def _read(source: ImportSource, tables: Tables | None, imported: ImportModel, reading: ImportReading) -> None:
    people = _People(imported, tables, reading.me)
    agents = daycare_ts_agents.read(source, tables, imported, people.ref)
    people.guess_owner(agents.accounts)
    people.put()
    _documents(source, tables, imported, people)
    jobs = _Jobs(imported, tables, people)
    jobs.tables(agents.known)
    jobs.files(source)
    for row in _newest(tables, "signals_subscriptions"):
        agent = text_of(row.get("agent_id"))
        pattern = text_of(row.get("pattern"))
        where = f"signals_subscriptions {text_of(row.get('id'))[:40]}"
        if agent in agents.known:
            silent = bool(row.get("silent"))
            imported.subscriptions.append(
                ImportedSubscription(agent=agent, pattern=pattern, silent=silent, source=where)
            )
        else:
            imported.leave(f"the subscription {pattern[:60]}", where, "its agent is not there")
    for table, what in (("observation_log", "observations"), ("channels", "channels"), ("processes", "processes")):
        if many := sum(1 for _ in _newest(tables, table)):
            imported.leave(f"{many} {what}", table, "there is nothing of the kind here")
    if reading.history:
        agents.talks(source, tables)


class _People:
    """Who is who. The owner has the ref `owner`, others that of their user there."""

    def __init__(self, imported: ImportModel, tables: Tables | None, me: tuple[str, ...]) -> None:
        self._imported = imported
        self.rows = {text_of(row.get("id")): row for row in _newest(tables, "users")}
        self.keys: dict[str, list[str]] = {}
        for row in _newest(tables, "user_connector_keys"):
            channel, _, account = text_of(row.get("connector_key")).partition(":")
            if key := key_of(channel, account):
                self.keys.setdefault(text_of(row.get("user_id")), []).append(key)
            else:
                imported.leave(f"the account {channel}:{account[:40]}", "user_connector_keys", "it is no single person")
        self.owner = next((ref for ref, keys in self.keys.items() if set(keys) & set(me)), "")
        self.owner = self.owner or next((ref for ref, row in self.rows.items() if row.get("is_owner")), "")
        if not self.owner:
            above = [row for row in self.rows.values() if not _parent(row) and not row.get("is_swarm")]
            with_keys = [row for row in above if text_of(row.get("id")) in self.keys] or above
            oldest = min(with_keys, key=lambda row: moment(row.get("created_at")) or 0, default={})
            self.owner = text_of(oldest.get("id"))

    def ref(self, user_id: str) -> str:
        """Return the ref of a user; of none that is known, the owner's."""
        return user_id if user_id in self.rows and user_id != self.owner else OWNER

    def guess_owner(self, accounts: list[str]) -> None:
        """Where there is no table of people: the first account that somebody talked over is the owner's."""
        if not self.rows and accounts:
            self.keys.setdefault(self.owner, []).append(accounts[0])
            for account in accounts[1:]:
                why = "nobody knows whose it is: daycare users link"
                self._imported.leave(f"the account {account}", "agents", why)

    def put(self) -> None:
        """Put them into the import model."""
        for user_id, row in sorted(self.rows.items(), key=lambda pair: pair[0] != self.owner) or [("", {})]:
            names = (text_of(row.get(part)) for part in ("first_name", "last_name"))
            name = text_of(row.get("name")) or " ".join(filter(None, names)) or text_of(row.get("nametag"))
            if row.get("is_swarm"):
                self._imported.leave(f"the swarm {name[:60]}", "users", "there is nothing of the kind here")
                continue
            parent = _parent(row)
            self._imported.people.append(
                ImportedPerson(
                    ref=self.ref(user_id),
                    name=name or "somebody",
                    keys=tuple(self.keys.get(user_id, ())),
                    parent=self.ref(parent) if parent and user_id != self.owner else "",
                    zone=zone_or_none(text_of(row.get("timezone"))),
                    source=f"users {user_id}" if user_id else "agents",
                )
            )

    def zone(self, user_id: str) -> str:
        """Return a user's time zone, empty if it is not known."""
        return zone_or_none(text_of(self.rows.get(user_id, {}).get("timezone")))


# -- documents ---------------------------------------------------------------------------------------------------------


def _documents(source: ImportSource, tables: Tables | None, imported: ImportModel, people: _People) -> None:
    names: set[tuple[str, str]] = set()

    def put(person: str, name: str, text: str, where: str, changes: tuple[str, ...] = ()) -> None:
        if text.strip() and (person, name) not in names:
            names.add((person, name))
            agent = f"person:{person}" if name == "MEMORY.md" else ""
            imported.keep(ImportedText(person=person, agent=agent, name=name, text=text, source=where, changes=changes))

    rows = {(text_of(row.get("user_id")), text_of(row.get("id"))): row for row in _newest(tables, "documents")}
    above = {
        (text_of(row.get("user_id")), text_of(row.get("source_id"))): text_of(row.get("target_id"))
        for row in _newest(tables, "document_references", order="source_version")
        if row.get("kind") == "parent"
    }
    for (user_id, document), row in rows.items():
        path = _path(rows, above, user_id, document) or ["document"]
        title = text_of(row.get("title"))
        name = _SYSTEM.get(path[1], "") if len(path) == 2 and path[0] == "system" else ""
        body = str(row.get("body") or "")
        if not name:
            name = f"knowledge/{slug(path[0])}/{slug('-'.join(path[1:]))}.md" if len(path) > 1 else ""
            name = name or f"knowledge/{slug(path[0])}.md"
            body = f"# {title}\n\n{body}" if body.strip() and title and not body.lstrip().startswith("#") else body
        put(people.ref(user_id), name, body, f"documents {'/'.join(path)[:100]}")
    folders = [("", people.owner), *((f"users/{user}", user) for user in source.names("users", folders=True))]
    for folder, user_id in folders:
        person = people.ref(user_id)
        home = f"{folder}/home/knowledge" if folder else ""
        for file in source.names(home, ".md"):
            where = f"{home}/{file}".lstrip("/")
            word = file.removesuffix(".md").lower()
            if word in _SYSTEM:
                put(person, _SYSTEM[word], source.text(where) or "", where)
            elif file in _KEPT or folder:
                told = ("a document here, which is read when it fits",) if file in _KEPT else ()
                put(person, f"knowledge/daycare-ts-{slug(word)}.md", source.text(where) or "", where, told)
        for file in source.names(f"{folder}/memory/graph", ".md") if folder else ():
            where = f"{folder}/memory/graph/{file}"
            if file != "__root__.md" and (text := source.text(where)):
                put(person, *_node(file, text), where)
    for row in _newest(tables, "system_prompts"):
        where = f"system_prompts {text_of(row.get('id'))[:40]}"
        name = f"knowledge/system-prompts/{slug(text_of(row.get('id')), 'prompt')}.md"
        told = ("it stood in each prompt there; here it is a document: SOUL.md and STYLE.md stand in prompts",)
        put(people.ref(text_of(row.get("user_id"))), name, str(row.get("prompt") or ""), where, told)


def _node(file: str, text: str) -> tuple[str, str]:
    """Return the name and the text of a node of the memory's graph."""
    fields, body = front(text)
    title = text_of(fields.get("title")) or file.removesuffix(".md")
    about = text_of(fields.get("description"))
    name = f"knowledge/memory/{slug(file.removesuffix('.md'))}.md"
    return name, "\n\n".join(filter(None, (f"# {title}", about, body.strip()))) + "\n"


def _path(
    rows: dict[tuple[str, str], Row], above: dict[tuple[str, str], str], user_id: str, document: str
) -> list[str]:
    """Return the slugs from the top of the tree to a document."""
    path: list[str] = []
    seen: set[str] = set()
    while document and document not in seen and (row := rows.get((user_id, document))) is not None:
        seen.add(document)
        path.insert(0, text_of(row.get("slug")) or slug(text_of(row.get("title"))))
        document = above.get((user_id, document), "")
    return path


# -- jobs --------------------------------------------------------------------------------------------------------------


class _Jobs:
    """Scheduled jobs: of the table, and of files `cron/ID/TASK.md` of before it."""

    def __init__(self, imported: ImportModel, tables: Tables | None, people: _People) -> None:
        self._imported = imported
        self._tables = tables
        self._people = people
        self._done: set[str] = set()

    def tables(self, agents: set[str]) -> None:
        """Read the tables."""
        tasks = {(text_of(row.get("user_id")), text_of(row.get("id"))): row for row in _newest(self._tables, "tasks")}
        used = set()
        for row in _newest(self._tables, "tasks_cron"):
            user_id = text_of(row.get("user_id"))
            task = tasks.get((user_id, text_of(row.get("task_id"))), {})
            used.add((user_id, text_of(row.get("task_id"))))
            name = text_of(row.get("name")) or text_of(task.get("title"))
            said = text_of(row.get("prompt"))
            code = "" if said else text_of(task.get("code"))
            about = text_of(row.get("description")) or text_of(task.get("description"))
            agent = text_of(row.get("agent_id"))
            zone = text_of(row.get("timezone")) or self._people.zone(user_id)
            self._add(row, name, said, code, about, zone, agent if agent in agents else "", "tasks_cron")
        for (user_id, task_id), row in tasks.items():
            if (user_id, task_id) not in used and not row.get("deleted_at"):
                title, code = text_of(row.get("title")) or task_id, text_of(row.get("code"))
                self._imported.keep(
                    ImportedText(
                        person=self._people.ref(user_id),
                        name=f"knowledge/tasks/{slug(title)}.md",
                        text=f"# {title}\n\n{text_of(row.get('description'))}\n\n{_fence(code)}",
                        source=f"tasks {task_id[:40]}",
                        changes=("a task that waits to be started became a document: /task starts one",),
                    )
                )
        for row in _newest(self._tables, "tasks_heartbeat"):
            why = "what spends by itself is switched on by who pays: daycare agents set PATH --heartbeat"
            self._imported.leave(f"the heartbeat {text_of(row.get('title'))[:60]}", "tasks_heartbeat", why)

    def files(self, source: ImportSource) -> None:
        """Read the files; what the table has is not read again."""
        for folder in source.names("cron", folders=True):
            path = f"cron/{folder}/TASK.md"
            if folder in self._done or not (text := source.text(path)):
                continue
            fields, body = front(text)
            once = any(fields.get(name) is True for name in ("deleteAfterRun", "delete_after_run", "oneOff", "once"))
            row = fields | {"id": folder, "schedule": fields.get("schedule") or fields.get("cron")}
            row["user_id"] = text_of(fields.get("userId") or fields.get("user_id")) or self._people.owner
            row |= {"enabled": fields.get("enabled") is not False, "delete_after_run": once}
            about = text_of(fields.get("description"))
            self._add(row, text_of(fields.get("name")), body.strip(), "", about, "", "", path)
        for file in source.names("heartbeat", ".md"):
            why = "what spends by itself is switched on by who pays: daycare agents set PATH --heartbeat"
            self._imported.leave(f"the heartbeat {file[:60]}", f"heartbeat/{file}", why)

    def _add(self, row: Row, name: str, said: str, code: str, about: str, zone: str, agent: str, table: str) -> None:
        job_id = text_of(row.get("id"))
        where = table if "/" in table else f"{table} {job_id[:40]}"
        self._done.add(job_id)
        prompt = said or (f"{about or name}\n\nWhat was done for it so far:\n\n{_fence(code)}" if code else "")
        try:
            schedule = expression(text_of(row.get("schedule")), zone)
            spec, changes = spec_of(
                schedule, prompt, description=about or name, delete=bool(row.get("delete_after_run")), fresh=not agent
            )
        except (DaycareError, ValueError) as error:
            why = error.message if isinstance(error, DaycareError) else str(error)
            self._imported.leave(f"the job {(name or job_id)[:80]}", where, why)
            return
        self._imported.jobs.append(
            ImportedJob(
                ref=job_id,
                person=self._people.ref(text_of(row.get("user_id"))),
                name=slug(name or job_id, most=40),
                spec=spec,
                paused=not row.get("enabled", True) or bool(code),
                target=agent,
                source=where,
                changes=(*changes, *((_FENCED,) if code else ())),
            )
        )


def _fence(code: str) -> str:
    return f"```python\n{code.replace('```', chr(39) * 3)}\n```\n" if code else ""


# -- inside ------------------------------------------------------------------------------------------------------------


def _settings(imported: ImportModel, settings: dict[str, Any]) -> None:
    models = at(settings, "models")
    for role, here in (("user", "user"), ("memory", "memory"), ("memorySearch", "memorySearch"),
                       ("subagent", "subagent"), ("task", "task")):  # fmt: skip
        found = at(models, role)
        if name := text_of(found) or text_of(at(found, "model")):
            where = f"settings.json models.{role}"
            imported.settings.append(
                ImportedSetting(section="models", key=here, value=name.replace(":", "/", 1), source=where)
            )
    listed = settings.get("providers") or at(settings, "inference", "providers")
    first = next((each for each in listed if text_of(at(each, "model"))), None) if isinstance(listed, list) else None
    if first is not None:
        value = f"{text_of(at(first, 'id'))}/{text_of(at(first, 'model'))}"
        imported.settings.append(
            ImportedSetting(section="models", key="default", value=value, source="settings.json providers")
        )
    if text_of(at(settings, "assistant", "systemPrompt")):
        text = text_of(at(settings, "assistant", "systemPrompt"))
        told = ("it stood in each prompt there; here it is a document: SOUL.md and STYLE.md stand in prompts",)
        where = "settings.json assistant.systemPrompt"
        name = "knowledge/daycare-ts-system-prompt.md"
        imported.keep(ImportedText(person=OWNER, name=name, text=text, source=where, changes=told))


def _newest(tables: Tables | None, table: str, *, order: str = "created_at") -> Iterator[Row]:
    """Yield the rows of a table that still hold: those of before have a time at which they ended."""
    for row in tables.rows(table, order=order) if tables is not None else ():
        if row.get("valid_to") is None and row.get("deleted_at") is None:
            yield row


def _parent(row: Row) -> str:
    return text_of(row.get("parent_user_id")) or text_of(row.get("workspace_owner_id"))
