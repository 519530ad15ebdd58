"""OpenClaw (formerly clawdbot and moltbot): its state folder `~/.openclaw`, or a workspace alone."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final

from daycare.base.path import Kind
from daycare.ops.importers import openclaw_jobs, openclaw_keys, skills
from daycare.ops.importers.accounts import Accounts
from daycare.ops.importers.import_model import MAIN, OWNER, ImportedAgent, ImportedSetting, ImportedText, ImportModel
from daycare.ops.importers.reading import ImportReading
from daycare.ops.importers.schedules import zone_or_none
from daycare.ops.importers.source import ImportSource
from daycare.ops.importers.tables import Tables, opened, tree
from daycare.ops.importers.words import at, day, moment, slug, text_of, texts

CONFIGS: Final = ("openclaw.json", "clawdbot.json", "moltbot.json")
STATE: Final = "state/openclaw.sqlite"
_FOLDERS: Final = (".openclaw", ".clawdbot", ".moltbot")
_DOCUMENT: Final = "a document here, which is read when it fits; what is to stand in each prompt belongs in SOUL.md"
_FILES: Final = {  # of a workspace: what each is here
    "SOUL.md": ("SOUL.md", ()),
    "USER.md": ("USER.md", ()),
    "IDENTITY.md": ("IDENTITY.md", ()),
    "MEMORY.md": ("MEMORY.md", ()),
    "memory.md": ("MEMORY.md", ()),
    "AGENTS.md": ("knowledge/openclaw-agents.md", (f"instructions for another program: {_DOCUMENT}",)),
    "TOOLS.md": ("knowledge/openclaw-tools.md", (f"notes on tools: {_DOCUMENT}",)),
    "HEARTBEAT.md": (
        "knowledge/openclaw-heartbeat.md",
        ("a heart beats only where it is switched on: doc/use/signals.md",),
    ),
    "BOOT.md": ("knowledge/openclaw-boot.md", (f"nothing is done at each start: {_DOCUMENT}",)),
}
_ENVELOPE: Final = re.compile(
    r"\A(?:\[(?:Telegram|WhatsApp|Slack|Discord|Signal|iMessage|WebChat|Matrix|\w{3} \d{4}-)[^\]\n]{0,300}\]\s*)+"
)
_IDS: Final = re.compile(r"\n?\[(?:message_id|slack message id|discord message id)[^\]\n]{0,120}\]\s*\Z")
_SILENT: Final = ("HEARTBEAT_OK", "NO_REPLY", "NO_FLUSH")
_NOT_THEIRS: Final = (":group:", ":channel:", ":room:", "cron:", "hook:", ":subagent:", ":acp:", ":heartbeat")


def is_one(source: ImportSource) -> bool:
    """Return whether a folder is one of OpenClaw's."""
    return any(map(source.has, (*CONFIGS, "SOUL.md", "AGENTS.md", "cron/jobs.json"))) or source.has_folder("workspace")


def read(source: ImportSource, reading: ImportReading) -> ImportModel:
    """Return what is in a folder of OpenClaw."""
    imported = ImportModel("openclaw")
    name = next(filter(source.has, CONFIGS), "")
    config = source.json(name) if name else None
    config = config if isinstance(config, dict) else {}
    agents = _Agents(config)
    accounts = Accounts(imported)
    _allowed(source, config, name, accounts)
    with opened(source, STATE) as state:
        if state is not None:
            for row in state.rows("channel_pairing_allow_entries", order="sort_order"):
                accounts.add(text_of(row.get("channel_key")), text_of(row.get("entry")), STATE)
        whose = accounts.people(reading.me)
        zone = zone_or_none(text_of(at(config, "agents", "defaults", "userTimezone")))
        openclaw_jobs.read(source, state, imported, agents.ref, whose, zone)
    _settings(imported, config, name, agents)
    openclaw_keys.read(source, imported, config, name)
    _workspaces(source, imported, config, agents, reading.workspace)
    if reading.history:
        _talks(source, imported, agents, whose)
    return imported


class _Agents:
    """The agents that the settings name. The default one is the owner's own conversation here."""

    def __init__(self, config: dict[str, Any]) -> None:
        listed = at(config, "agents", "list")
        self.tables = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
        chosen = next((each for each in self.tables if each.get("default") is True), None)
        first = chosen or (self.tables[0] if self.tables else {})
        self.main = text_of(first.get("id")) or "main"
        self.main_table = first

    def ref(self, agent_id: str) -> str:
        """Return the ref of an agent by its id."""
        return MAIN if agent_id in ("", self.main) else f"agent:{agent_id}"


def _allowed(source: ImportSource, config: dict[str, Any], name: str, accounts: Accounts) -> None:
    """Collect who may write: of the settings, and who was paired."""
    for account in texts(at(config, "commands", "ownerAllowFrom")):
        channel, colon, rest = account.partition(":")
        if colon:
            accounts.own(channel, rest, f"{name} commands.ownerAllowFrom")
    channels = at(config, "channels")
    for channel, table in channels.items() if isinstance(channels, dict) else ():
        inner = at(table, "accounts")
        more = inner.items() if isinstance(inner, dict) else ()
        for where, each in (
            (f"channels.{channel}", table),
            *((f"channels.{channel}.accounts.{k}", v) for k, v in more),
        ):
            for account in (*texts(at(each, "allowFrom")), *texts(at(each, "dm", "allowFrom"))):
                accounts.add(channel, account, f"{name} {where}.allowFrom")
            groups = at(each, "groups")
            for group in groups if isinstance(groups, dict) else ():
                if group != "*":
                    accounts.add(
                        channel, group if channel != "telegram" else f"group {group}", f"{name} {where}.groups"
                    )
    for file in source.names("credentials", "-allowFrom.json"):
        channel = file.removesuffix("-allowFrom.json").partition("-")[0]
        for account in texts(at(source.json(f"credentials/{file}"), "allowFrom")):
            accounts.add(channel, account, f"credentials/{file}")


def _settings(imported: ImportModel, config: dict[str, Any], name: str, agents: _Agents) -> None:
    called = (
        at(config, "identity", "name") or at(agents.main_table, "identity", "name") or agents.main_table.get("name")
    )
    if text_of(called):
        imported.settings.append(ImportedSetting(section="agent", key="name", value=text_of(called)[:64], source=name))
    defaults = at(config, "agents", "defaults") or at(config, "agent")
    model = agents.main_table.get("model") or at(defaults, "model")
    primary = text_of(model) or text_of(at(model, "primary"))
    if primary:
        imported.settings.append(ImportedSetting(section="models", key="default", value=primary, source=name))
    for other in texts(at(model, "fallbacks"))[:8]:
        imported.settings.append(ImportedSetting(section="models", key="fallbacks", value=other, source=name))
    providers = at(config, "models", "providers")
    for provider, table in providers.items() if isinstance(providers, dict) else ():
        if url := text_of(at(table, "baseUrl")):
            section = f"providers.{slug(provider)}"
            imported.settings.append(ImportedSetting(section=section, key="base_url", value=url, source=name))
    if beat := text_of(at(defaults, "heartbeat", "every")):
        why = "what spends by itself is switched on by who pays: daycare agents set PATH --heartbeat"
        imported.leave(f"heartbeat every {beat[:20]}", f"{name} heartbeat", why)


# -- workspaces --------------------------------------------------------------------------------------------------------


def _workspaces(
    source: ImportSource, imported: ImportModel, config: dict[str, Any], agents: _Agents, other: Path | None
) -> None:
    wanted = agents.main_table.get("workspace") or at(config, "agents", "defaults", "workspace")
    wanted = text_of(wanted or at(config, "agent", "workspace"))
    if other is not None:
        outside = ImportSource(other, told=f"{other.name}/")
        outside.problems = source.problems
        _workspace(outside, imported, MAIN, "")
    elif found := _within(source, wanted) or next(filter(source.has_folder, ("workspace", "clawd")), ""):
        if inner := source.below(found):
            _workspace(inner, imported, MAIN, "")
    elif source.has("SOUL.md") or source.has("AGENTS.md"):
        _workspace(source, imported, MAIN, "")
    elif wanted:
        why = "it lies outside of what was named: --workspace DIR reads it"
        imported.leave(f"the workspace {wanted[:100]}", "agents.defaults.workspace", why)
    for table in agents.tables:
        agent_id = text_of(table.get("id"))
        ref = agents.ref(agent_id)
        if ref == MAIN:
            continue
        title = text_of(at(table, "identity", "name")) or text_of(table.get("name")) or agent_id
        path = _within(source, text_of(table.get("workspace"))) or f"workspace-{agent_id}"
        imported.agents.append(
            ImportedAgent(
                ref=ref, person=OWNER, kind=Kind.AGENT, name=slug(agent_id), title=title, source="agents.list"
            )
        )
        if inner := source.below(path) if _plain(path) else None:
            _workspace(inner, imported, ref, ref)


def _workspace(source: ImportSource, imported: ImportModel, daily: str, agent: str) -> None:
    """Take a workspace. `agent` is empty for the owner's own: what is theirs is shared by all their conversations."""
    there = set(source.names("", ".md"))
    for file, (name, changes) in _FILES.items():
        if file not in there or (file == "memory.md" and "MEMORY.md" in there) or not (text := _text(source, file)):
            continue
        if agent and name in ("USER.md", "IDENTITY.md"):
            changes = ("kept alongside: there is one for all agents of a person",)
            name = f"knowledge/openclaw-{name.lower()}"
        whose = daily if name == "MEMORY.md" else agent
        imported.keep(
            ImportedText(
                person=OWNER, agent=whose, name=name, text=text, source=source.shown(file), changes=tuple(changes)
            )
        )
    if "BOOTSTRAP.md" in there:
        imported.leave("BOOTSTRAP.md", source.shown("BOOTSTRAP.md"), "it is for the first start of another program")
    skills.read(source, imported)
    for path in _notes(source):
        if not (text := _text(source, path)):
            continue
        file = path.removeprefix("memory/")
        dated = day(file) if file.count("/") == 0 else ""
        name = f"daily/{dated}.md" if dated else f"knowledge/{slug(file.removesuffix('.md').replace('/', '-'))}.md"
        whose = daily if dated else agent
        imported.keep(ImportedText(person=OWNER, agent=whose, name=name, text=text, source=source.shown(path)))


def _notes(source: ImportSource) -> Iterator[str]:
    yield from (f"memory/{file}" for file in source.names("memory", ".md"))
    for folder in source.names("memory", folders=True):
        if not folder.startswith("."):
            yield from (f"memory/{folder}/{file}" for file in source.names(f"memory/{folder}", ".md"))


def _text(source: ImportSource, path: str) -> str:
    return (source.text(path) or "").strip()


def _within(source: ImportSource, path: str) -> str:
    """Return where a folder of the settings is within the source, empty if it is not."""
    parts = PurePosixPath(path).parts
    for folder in _FOLDERS:
        if folder in parts:
            inside = "/".join(parts[parts.index(folder) + 1 :])
            return inside if _plain(inside) and source.has_folder(inside) else ""
    root = f"{source.root}/"
    inside = path.removeprefix(root) if path.startswith(root) else ""
    return inside if _plain(inside) and source.has_folder(inside) else ""


def _plain(path: str) -> bool:
    return bool(path) and all(part not in ("", ".", "..") for part in path.split("/"))


# -- conversations -----------------------------------------------------------------------------------------------------


def _talks(source: ImportSource, imported: ImportModel, agents: _Agents, whose: dict[str, str]) -> None:
    for agent_id in source.names("agents", folders=True):
        ref = agents.ref(agent_id)
        if ref != MAIN and all(each.ref != ref for each in imported.agents):
            imported.agents.append(
                ImportedAgent(ref=ref, person=OWNER, kind=Kind.AGENT, name=slug(agent_id), source=f"agents/{agent_id}")
            )
        folder = f"agents/{agent_id}/sessions"
        index = source.json(f"{folder}/sessions.json")
        keys = {
            text_of(at(entry, "sessionId")): key for key, entry in (index.items() if isinstance(index, dict) else ())
        }
        for file in source.names(folder, ".jsonl"):
            session = file.removesuffix(".jsonl").partition("-topic-")[0]
            path = f"{folder}/{file}"
            if "-topic-" in file or _of_others(keys.get(session, "")):
                imported.leave("a conversation in a group, or of a job", path, "it is nobody's own")
                continue
            _talk(imported, _ref(ref, keys.get(session, ""), whose), source.lines(path))
        database = f"agents/{agent_id}/agent/openclaw-agent.sqlite"
        with opened(source, database) as tables:
            if tables is not None:
                _table_talks(imported, tables, ref, whose, database)


def _table_talks(imported: ImportModel, tables: Tables, ref: str, whose: dict[str, str], path: str) -> None:
    windows = tables.rows("session_windows") if tables.columns("session_windows") else tables.rows("sessions")
    keys = {text_of(row.get("session_id")): text_of(row.get("session_key")) for row in windows}
    others = set()
    for row in tables.rows("transcript_events", order="seq"):
        session = text_of(row.get("session_id"))
        if _of_others(keys.get(session, "")):
            others.add(session)
            continue
        _talk(imported, _ref(ref, keys.get(session, ""), whose), iter((tree(row.get("event_json")),)))
    if others:
        imported.leave(f"{len(others)} conversations in groups, or of jobs", path, "they are nobody's own")


def _of_others(key: str) -> bool:
    return any(word in key for word in _NOT_THEIRS)


def _ref(ref: str, session_key: str, whose: dict[str, str]) -> str:
    """Return the ref of the conversation that a session is of: the peer's whom its key names, else the agent's own."""
    parts = session_key.split(":")
    if ref == MAIN and len(parts) >= 2:
        for number in range(len(parts) - 1, 0, -1):
            channels = [part for part in parts[:number] if part in ("telegram", "whatsapp", "slack")]
            person = whose.get(f"{channels[-1]}:{parts[number].lstrip('+')}") if channels else None
            if person is not None and person != OWNER:
                return f"person:{person}"
    return ref


def _talk(imported: ImportModel, ref: str, entries: Iterator[Any]) -> None:
    for entry in entries:
        if not isinstance(entry, dict) or entry.get("type") != "message":
            continue
        message = entry.get("message")
        role = at(message, "role")
        if role not in ("user", "assistant"):
            continue
        at_ms = moment(entry.get("timestamp")) or moment(at(message, "timestamp"))
        said = _said(at(message, "content"))
        if role == "user":
            said = _IDS.sub("", _ENVELOPE.sub("", said))
        if at_ms is not None and said.strip() not in _SILENT:
            imported.say(ref, at_ms, "" if role == "user" else "assistant", said)


def _said(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(text_of(at(part, "text")) for part in parts if at(part, "type") in ("text", "input_text"))
